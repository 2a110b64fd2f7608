"""Surprisal: the bits that each token of a text costs a model, and how models with different tokens are compared.

Models are compared on the spans between those positions at which all of them have a token boundary: there the bits of
each model are exact sums over its own tokens.
"""

from dataclasses import dataclass

import numpy as np

from chainrule.evaluation.score import NATS_PER_BIT
from chainrule.models.contract import LanguageModel
from chainrule.text.base import Tokenizer

MOST_DISAGREEMENTS = 10


@dataclass(frozen=True)
class Surprisal:
    """The bits of each token of a text; infinite where the model gives it probability zero."""

    ends: np.ndarray  # (tokens,) in bytes of the text; each token begins where the one before it ends
    bits: np.ndarray  # (tokens,)
    end_bits: float  # of the end of the text
    has_measure: bool  # whether bits per byte are meaningful: tokens spell the text, probabilities sum to one

    @property
    def total(self) -> float:
        return float(self.bits.sum()) + self.end_bits

    def between(self, bounds: np.ndarray) -> np.ndarray:
        """The bits of each span between `bounds`, which must be token boundaries of this model."""
        sums = np.concatenate([[0.0], np.cumsum(np.where(np.isinf(self.bits), 0.0, self.bits))])
        impossible = np.concatenate([[0], np.cumsum(np.isinf(self.bits))])
        places = np.searchsorted(self.ends, bounds, side="right")
        places[bounds == 0] = 0  # a token that has nothing of the text may stand before its first
        return np.where(np.diff(impossible[places]) > 0, np.inf, np.diff(sums[places]))


def measure(model: LanguageModel, tokenizer: Tokenizer, text: str) -> Surprisal:
    """Score a text as `chainrule evaluate` scores a document: after an <eos>, and including its own <eos>."""
    ids = tokenizer.encode(text)
    stream = np.concatenate([[tokenizer.eos], ids, [tokenizer.eos]]).astype(np.uint32)
    bits = -model.score(stream).astype(np.float64) / NATS_PER_BIT
    ends = _ends(tokenizer, text, ids)
    spells = not tokenizer.is_closed and tokenizer.spell(ids.tolist()) == text.encode()
    return Surprisal(ends, bits[:-1], float(bits[-1]), spells and model.is_normalised)


def _ends(tokenizer: Tokenizer, text: str, ids: np.ndarray) -> np.ndarray:
    """Where each token ends, in bytes. Where tokens do not spell the text, a word includes the space before it."""
    if tokenizer.is_lossless:
        return tokenizer.ends(ids)
    bytes_before = np.cumsum([0, *(len(character.encode()) for character in text)])
    offsets = tokenizer.backend.encode(text, add_special_tokens=False).offsets
    ends = bytes_before[[end for _, end in offsets]].astype(np.int64)
    ends[-1:] = bytes_before[-1]
    return ends


def common_bounds(surprisals: list[Surprisal], data: bytes) -> np.ndarray:
    """The byte positions at which all models have a boundary and no character is split, including both ends."""
    shared = np.flatnonzero(~_is_continuation(data))
    for each in surprisals:
        shared = np.intersect1d(shared, each.ends)
    return np.unique(np.concatenate([[0], shared, [len(data)]]))


def characters_before(data: bytes) -> np.ndarray:
    """(bytes + 1,) How many characters of UTF-8 begin before each byte position."""
    return np.concatenate([[0], np.cumsum(~_is_continuation(data))])


def _is_continuation(data: bytes) -> np.ndarray:
    """(bytes,) Whether each byte continues a character of UTF-8."""
    is_continuation: np.ndarray = (np.frombuffer(data, np.uint8) & 0xC0) == 0x80
    return is_continuation


def disagreements(bits: np.ndarray) -> list[int]:
    """The spans at which two models differ most, largest difference first; bits (models, spans)."""
    finite = np.minimum(bits, 1e6)  # a token that only one model finds impossible is the largest disagreement
    difference = finite.max(0) - finite.min(0)
    order: list[int] = np.argsort(-difference, kind="stable")[:MOST_DISAGREEMENTS].tolist()
    return [each for each in order if difference[each] > 0]
