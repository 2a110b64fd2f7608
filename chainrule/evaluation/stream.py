"""Figures of a split that is already tokens on disk, as at the end of training."""

from math import exp
from typing import Any

import numpy as np

from chainrule.data.shards import TokenShards
from chainrule.evaluation.score import NATS_PER_BIT
from chainrule.models.contract import LanguageModel
from chainrule.text.base import Tokenizer

PIECES = 16


def spread(stream: np.ndarray, tokens: int) -> np.ndarray:
    """About so many tokens of a stream, in pieces from all over it."""
    if len(stream) <= tokens:
        return stream
    length = max(tokens // PIECES, 2)
    starts = np.linspace(0, len(stream) - length, PIECES).astype(np.int64)
    return np.concatenate([stream[start : start + length] for start in starts])


def evaluate_shards(
    model: LanguageModel, tokenizer: Tokenizer, shards: TokenShards, most: int | None = None
) -> dict[str, Any] | None:
    """Loss, perplexity and bits per byte; None where the split is empty. Infinite figures are None.

    Of more than `most` tokens, parts from all over are measured and stand for the whole.
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
    return {
        "loss": loss if is_finite else None,
        "perplexity": exp(loss) if is_finite and loss < 700 else None,
        "bits_per_byte": nats / NATS_PER_BIT / shards.part.text_bytes if is_finite and tokenizer.is_lossless else None,
        "impossible_tokens": impossible,
        **({"scored_tokens": scored} if scored < tokens else {}),
        "tokens": tokens,
        "documents": shards.part.documents,
        "bytes": shards.part.text_bytes,
    }
