"""The distribution of the next token: the likeliest candidates, and what temperature, top-k and the rest make of it."""

from dataclasses import dataclass

import numpy as np

from chainrule.generation import Sampling
from chainrule.generation.draw import probabilities
from chainrule.models.contract import log_softmax
from chainrule.text.base import Tokenizer


@dataclass(frozen=True)
class Candidate:
    """A token that may come next."""

    id: int
    token: str
    probability: float
    filtered: float  # the probability that it is drawn with after temperature and filters; 0: it is cut


@dataclass(frozen=True)
class Distribution:
    """The likeliest next tokens, and what the others amount to."""

    top: list[Candidate]
    others: int
    others_probability: float
    entropy_bits: float
    cut: int  # how many tokens the filters take away, and how much of the model's probability
    cut_probability: float


def make_distribution(
    logits: np.ndarray, processed: np.ndarray, tokenizer: Tokenizer, sampling: Sampling, top: int
) -> Distribution:
    """The distribution of logits (vocabulary,); `processed` are the same after penalties, from which tokens are drawn.

    At most `top` candidates are listed, and none that is impossible.
    """
    plain = np.exp(log_softmax(logits))
    filtered = probabilities(processed[None], sampling)[0]
    order = np.argsort(-plain, kind="stable")
    top = max(min(top, int((plain > 0).sum())), 1)
    candidates = [
        Candidate(int(id), tokenizer.token_text(int(id)), float(plain[id]), float(filtered[id])) for id in order[:top]
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = np.where(plain > 0, -plain * np.log2(plain), 0.0)
    is_cut = (filtered == 0) & (plain > 0)
    return Distribution(
        candidates,
        others=len(order) - len(candidates),
        others_probability=float(plain[order[top:]].sum()),
        entropy_bits=float(bits.sum()),
        cut=int(is_cut.sum()),
        cut_probability=float(plain[is_cut].sum()),
    )
