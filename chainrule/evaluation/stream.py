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
    nats, impossible, scored = 0.0, 0, 0
    for shard in range(len(shards)):
        stream = shards.tokens(shard)
        share = len(stream) if most is None else max(most * len(stream) // max(shards.part.tokens, 1), 64)
        found = model.score(spread(stream, share)).astype(np.float64)
        nats -= float(found.sum())
        impossible += int(np.isneginf(found).sum())
        scored += len(found)
    tokens = shards.part.tokens
    nats *= tokens / max(scored, 1) if scored < tokens else 1.0
    is_finite = bool(np.isfinite(nats)) and model.is_normalised  # scores that do not sum to one measure nothing
    loss = nats / tokens
    spells = not shards.changed_documents(tokenizer)
    figures: Evaluation = {
        "loss": loss if is_finite else None,
        "perplexity": exp(loss) if is_finite and loss < LARGEST_EXPONENT else None,
        "bits_per_byte": nats / NATS_PER_BIT / shards.part.text_bytes if is_finite and spells else None,
        "impossible_tokens": impossible,
        "tokens": tokens,
        "documents": shards.part.documents,
        "bytes": shards.part.text_bytes,
    }
    if scored < tokens:
        figures["scored_tokens"] = scored
    return figures
