"""The next token as a die: every face with its probability, and what temperature, top-k and the rest make of it."""

from dataclasses import dataclass

import numpy as np

from chainrule.generation import Sampling
from chainrule.generation.draw import probabilities
from chainrule.models.contract import log_softmax
from chainrule.text.base import Tokenizer


@dataclass(frozen=True)
class Face:
    id: int
    token: str
    probability: float
    filtered: float  # once the filters have had their way; 0: cut


@dataclass(frozen=True)
class Die:
    """The likeliest faces, and what the others amount to."""

    faces: list[Face]
    others: int
    others_probability: float
    entropy_bits: float
    cut: int  # how many faces the filters take away, and how much of the model's probability
    cut_probability: float


def make_die(logits: np.ndarray, tokenizer: Tokenizer, sampling: Sampling, seen: np.ndarray, most: int) -> Die:
    """logits (vocabulary); `seen` (vocabulary) are the tokens that a repetition penalty falls on."""
    plain = np.exp(log_softmax(logits))
    filtered = probabilities(logits[None], seen[None], sampling)[0]
    order = np.argsort(-plain, kind="stable")
    most = max(min(most, int((plain > 0).sum())), 1)  # what cannot come is no face
    faces = [Face(int(id), tokenizer.token_text(int(id)), float(plain[id]), float(filtered[id])) for id in order[:most]]
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = np.where(plain > 0, -plain * np.log2(plain), 0.0)
    is_cut = (filtered == 0) & (plain > 0)
    return Die(
        faces,
        others=len(order) - len(faces),
        others_probability=float(plain[order[most:]].sum()),
        entropy_bits=float(bits.sum()),
        cut=int(is_cut.sum()),
        cut_probability=float(plain[is_cut].sum()),
    )
