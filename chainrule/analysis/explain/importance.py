"""Which tokens of the text mattered for a prediction, asked in two ways.

Left out: log p(token) less log p(token) had the text gone on without one of its tokens; for any model.
Gradient: what the way from an average vector to the token's own adds to log p(token), see gradient.py; for models that
learn by gradient. Above zero, a token spoke for the prediction; below, against it.
"""

from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from chainrule.generation.decoder import Decoder
from chainrule.models._numpy import step, to_numpy
from chainrule.models.contract import LanguageModel, learns, log_softmax, select_rows

MOST_LEFT_OUT = 64  # of the latest tokens, one at a time
LOGITS_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class Importance:
    """One figure for each token read, in nats; None where it was not asked."""

    left_out: list[float | None]
    gradient: list[float] | None


def weigh(model: LanguageModel, ids: np.ndarray, token: int) -> Importance:
    """The importance of ids[1:], what was read after the <eos> that begins a text, for `token` coming next."""
    gradient = None
    if learns(model):
        from chainrule.analysis.explain.gradient import gradient_times_input

        gradient = gradient_times_input(model, ids, token)[1:].tolist()
    return Importance(leave_out(model, ids, token), gradient)


def leave_out(model: LanguageModel, ids: np.ndarray, token: int) -> list[float | None]:
    """For each of ids[1:]: by how much log p(token) falls without it. What comes before the first is read once."""
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


def _log_probability(logits: Any, token: int) -> np.ndarray:
    """Of `token` after the last position of every row: (rows,)."""
    found: np.ndarray = log_softmax(to_numpy(logits[:, -1]))[:, token]
    return found
