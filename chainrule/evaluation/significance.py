"""Whether the difference between two models is significant: a paired bootstrap over documents (Koehn, 2004)."""

from dataclasses import dataclass

import numpy as np

from chainrule.errors import UserError
from chainrule.evaluation.figures import NATS_PER_BIT
from chainrule.evaluation.score import Scores

DRAWN_AT_ONCE = 1 << 22  # documents held in memory
FEWEST = 10  # documents needed to tell whether a difference is significant


@dataclass(frozen=True)
class Difference:
    """Bits per byte of the first model minus those of the second: below zero, the first is better."""

    bits_per_byte: float
    low: float
    high: float  # 95 % interval
    p_value: float  # two-sided: how often the difference on a resampled text has the other sign
    rounds: int

    @property
    def is_significant(self) -> bool:
        return self.low > 0 or self.high < 0


def paired_bootstrap(first: Scores, second: Scores, rounds: int = 2000, seed: int = 0) -> Difference:
    """The difference between two models that have scored the same documents in the same order."""
    if not np.array_equal(first.text_bytes, second.text_bytes):
        raise UserError("the two models were not scored on the same documents; evaluate both on the same text")
    if len(first) < 2:
        raise UserError(
            "one document cannot be resampled; use smaller documents (the unit line or block), or more text"
        )
    if not (np.isfinite(first.nats) & np.isfinite(second.nats)).all():
        raise UserError(
            "a model gave some of this text probability zero, so the two cannot be compared; use a smoothed one"
        )
    gap = (first.nats - second.nats) / NATS_PER_BIT
    size = first.text_bytes.astype(np.float64)
    differences = resample(gap[None], size, rounds, seed)[0]
    low, high = np.quantile(differences, [0.025, 0.975])
    tail = min((differences <= 0).sum(), (differences >= 0).sum())
    p_value = min(1.0, 2 * (tail + 1) / (rounds + 1))
    return Difference(float(gap.sum() / size.sum()), float(low), float(high), float(p_value), rounds)


def resample(bits: np.ndarray, sizes: np.ndarray, rounds: int = 2000, seed: int = 0) -> np.ndarray:
    """Bits per unit of size of each model on resampled texts: as many documents, drawn with replacement.

    bits (models, documents), sizes (documents) -> (models, rounds); in one round, all models have the same text.
    """
    generator = np.random.default_rng(seed)
    found, at_once = [], max(1, min(100, DRAWN_AT_ONCE // len(sizes)))
    for done in range(0, rounds, at_once):
        picks = generator.integers(0, len(sizes), (min(at_once, rounds - done), len(sizes)))
        times = np.stack([np.bincount(row, minlength=len(sizes)) for row in picks])  # how often each document was drawn
        found.append(bits @ times.T / (times @ sizes))
    return np.concatenate(found, 1)
