"""The log-probability of every token of a given text, from one call of `step`."""

from collections.abc import Sequence

import numpy as np

from chainrule.errors import UserError
from chainrule.models._numpy import step, to_numpy
from chainrule.models.contract import Steps, log_softmax


def log_probabilities(model: Steps, ids: Sequence[int] | np.ndarray, eos: int, condition: object = None) -> np.ndarray:
    """log p of each token of one document and of the eos that ends it, in nats: (len(ids) + 1,)."""
    document = np.concatenate([[eos], np.asarray(ids, np.int64), [eos]]).astype(np.int64)
    inputs, targets = document[:-1], document[1:]
    reads = getattr(model, "context_length", None)
    if reads is not None and len(inputs) > reads:
        raise UserError(f"the text has {len(inputs)} tokens but this model reads {reads}; score it in parts")
    logits, _ = step(model, inputs[None], model.start(1, condition))
    return log_softmax(to_numpy(logits)[0])[np.arange(len(targets)), targets]
