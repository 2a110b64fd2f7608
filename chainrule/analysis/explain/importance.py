"""Which tokens of the text mattered for a prediction, measured in two ways.

Left out: log p(token) minus log p(token) of the text without one of its tokens; for any model.
Gradient: what the way from an average vector to the token's own adds to log p(token), see gradient.py; for models that
learn by gradient and have a table of token vectors. Above zero, a token speaks for the prediction; below, against it.
"""

from dataclasses import dataclass
from math import isnan

import numpy as np

from chainrule.generation.decoder import Decoder
from chainrule.models._numpy import step, to_numpy
from chainrule.models.contract import Array, LanguageModel, learns, log_softmax
from chainrule.nest import select_rows

MOST_LEFT_OUT = 64  # of the latest tokens, one at a time
LOGITS_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class Importance:
    """One figure for each token read, in nats; None for tokens that were not left out."""

    left_out: list[float | None]
    gradient: list[float] | None  # None: the model counts, or has no table of token vectors


def weigh(model: LanguageModel, ids: np.ndarray, token: int) -> Importance:
    """The importance of ids[1:], what was read after the <eos> that begins a text, for `token` coming next."""
    return Importance(leave_out(model, ids, token), _gradient(model, ids, token))


def _gradient(model: LanguageModel, ids: np.ndarray, token: int) -> list[float] | None:
    if not learns(model):
        return None
    from chainrule.analysis.explain.gradient import gradient_times_input  # with torch, which counting does without
    from chainrule.models._neural import NeuralModel

    found = gradient_times_input(model, ids, token) if isinstance(model, NeuralModel) else None
    return None if found is None else found[1:].tolist()


def leave_out(model: LanguageModel, ids: np.ndarray, token: int) -> list[float | None]:
    """By how much log p(token) falls without each of ids[1:]; None for tokens further back than is measured."""
    reach = min(len(ids) - 1, MOST_LEFT_OUT, model.receptive_field or MOST_LEFT_OUT)
    if reach == 0:
        return [None] * (len(ids) - 1)
    first = len(ids) - reach
    before = Decoder(model, ids[:first])
    whole = float(_log_probability(step(model, ids[None, first:], before.state)[0], token)[0])
    if reach == 1:
        without = log_softmax(before.logits)[:, token]
    else:
        rest = np.arange(first, len(ids))
        rows = np.array([np.delete(rest, left_out) for left_out in range(reach)])
        at_once = max(1, LOGITS_AT_ONCE // (rows.shape[1] * model.vocabulary_size))
        found = []
        for group in np.split(rows, range(at_once, reach, at_once)):
            copies = select_rows(before.state, np.zeros(len(group), np.int64))
            found.append(_log_probability(step(model, ids[group], copies)[0], token))
        without = np.concatenate(found)
    beyond = None if model.receptive_field is None else 0.0  # what a model cannot see does not matter to it
    far = [beyond if reach == model.receptive_field else None] * (first - 1)
    with np.errstate(invalid="ignore"):
        near = (whole - without).tolist()
    return [*far, *(None if isnan(each) else each for each in near)]  # impossible with it and without


def _log_probability(logits: Array, token: int) -> np.ndarray:
    """log p of `token` after the last position of every row: (rows,)."""
    found: np.ndarray = log_softmax(to_numpy(logits[:, -1]))[:, token]
    return found
