"""Evaluating a model on a part of its data that is on disk as token shards, as at the end of training."""

from math import exp

import numpy as np

from chainrule.data.shards import TokenShards
from chainrule.evaluation.figures import LARGEST_EXPONENT, NATS_PER_BIT, Evaluation
from chainrule.models.contract import LanguageModel
from chainrule.text.base import Tokenizer

PIECES = 16  # of a stream that is too long to be scored whole


def spread(stream: np.ndarray, tokens: int) -> np.ndarray:
    """About `tokens` tokens of a stream: the whole of a short one, pieces from all over a longer one."""
    if len(stream) <= tokens:
        return stream
    length = max(tokens // PIECES, 2)
    starts = np.linspace(0, len(stream) - length, PIECES).astype(np.int64)
    return np.concatenate([stream[start : start + length] for start in starts])


def evaluate_shards(
    model: LanguageModel, tokenizer: Tokenizer, shards: TokenShards, most: int | None = None
) -> Evaluation | None:
    """The loss and what follows from it; None where there is no document.

    Of more than `most` tokens, pieces from all over are scored and stand for the whole.
    """
    if not shards.part.documents:
        return None
    found, scored = [], 0
    for shard in range(len(shards)):
        stream = shards.tokens(shard)
        share = len(stream) if most is None else max(most * len(stream) // max(shards.part.tokens, 1), 64)
        found.append(model.score(spread(stream, share)))
        scored += len(found[-1])
    spells = not shards.changed_documents(tokenizer)
    figures = figures_of(np.concatenate(found), shards, min(scored / shards.part.tokens, 1.0), spells)
    if not model.is_normalised:  # scores that do not sum to one measure nothing
        figures["loss"] = figures["perplexity"] = figures["bits_per_byte"] = None
    return figures


def figures_of(scores: np.ndarray, shards: TokenShards, share: float, spells: bool = True) -> Evaluation:
    """The figures of held-out text from the log-probabilities of its tokens, or of a share that stands for all.

    `spells`: whether the tokens spell the text, so that there are bits per byte.
    """
    tokens = shards.part.tokens
    nats = -float(scores.astype(np.float64).sum()) / share
    is_finite = bool(np.isfinite(nats))
    loss = nats / tokens
    figures: Evaluation = {
        "loss": loss if is_finite else None,
        "perplexity": exp(loss) if is_finite and loss < LARGEST_EXPONENT else None,
        "bits_per_byte": nats / NATS_PER_BIT / shards.part.text_bytes if is_finite and spells else None,
        "impossible_tokens": int(np.isneginf(scores).sum()),
        "tokens": tokens,
        "documents": shards.part.documents,
        "bytes": shards.part.text_bytes,
    }
    if len(scores) < tokens:
        figures["scored_tokens"] = len(scores)
    return figures
