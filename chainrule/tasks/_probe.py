"""What a model in training expects after a few fixed contexts: now and then it is written down, so that one can see
later how its predictions became sharp. Weights of the past are not kept, and need not be.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from chainrule.models._neural import NeuralModel
from chainrule.text.base import Tokenizer

CONTEXTS = 4
CONTEXT_TOKENS = 32  # that are read
TOP = 8  # of each prediction, the likeliest tokens
NEARBY = 64  # tokens in which a place within a document is looked for


@dataclass(frozen=True)
class Contexts:
    """Places of a text, from all over it: what stands before each, and the token that comes."""

    ids: np.ndarray  # (contexts, time)
    following: np.ndarray  # (contexts,)

    @classmethod
    def choose(cls, stream: np.ndarray, eos: int) -> "Contexts | None":
        """Within documents where there is such a place nearby, since the end of one is hard to foresee."""
        length = min(CONTEXT_TOKENS, len(stream) - 1)
        if length < 1:
            return None
        count = min(CONTEXTS, len(stream) - length)
        evenly = length + (np.arange(count) * 2 + 1) * (len(stream) - length) // (2 * count)
        places = np.unique([place + _way_inside(stream[place - 1 : place + NEARBY], eos) for place in evenly.tolist()])
        before = places[:, None] + np.arange(-length, 0)
        return cls(stream[before].astype(np.int64), stream[places].astype(np.int64))

    @torch.no_grad()
    def look(self, model: NeuralModel, tokenizer: Tokenizer) -> list[dict[str, Any]]:
        """For each, what the model expects: the likeliest tokens, and the one that came with its probability."""
        was_training = model.training
        model.eval()
        logits, _ = model.step(self.ids, model.start(len(self.ids)))
        model.train(was_training)
        dice = logits[:, -1].double().softmax(-1).cpu().numpy()  # (contexts, vocabulary)
        looks = zip(self.ids, self.following.tolist(), dice, strict=True)
        return [_written(ids, following, die, tokenizer) for ids, following, die in looks]


def _way_inside(nearby: np.ndarray, eos: int) -> int:
    """How far it is to a token that neither ends a document nor begins one; 0 where there is none."""
    return int(np.argmax((nearby[1:] != eos) & (nearby[:-1] != eos)))


def _written(ids: np.ndarray, following: int, die: np.ndarray, tokenizer: Tokenizer) -> dict[str, Any]:
    starts = np.flatnonzero(ids == tokenizer.eos)
    document = ids[starts[-1] + 1 :] if len(starts) else ids
    likeliest = np.argsort(-die, kind="stable")[:TOP].tolist()
    return {
        "context": tokenizer.decode(document),
        "token": tokenizer.token_text(following),
        "probability": _rounded(die[following]),
        "top": [[tokenizer.token_text(id), _rounded(die[id])] for id in likeliest],
    }


def _rounded(probability: float) -> float:
    """To four digits: more is seen by nobody, and the last bits of a product may depend on how it was split."""
    return float(f"{probability:.4g}")
