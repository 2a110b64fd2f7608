"""Figures of a split that is already tokens on disk, as at the end of training."""

from math import exp
from typing import Any

import numpy as np

from chainrule.data.shards import TokenShards
from chainrule.evaluation.score import NATS_PER_BIT
from chainrule.models.base import LanguageModel
from chainrule.text.base import Tokenizer


def evaluate_shards(model: LanguageModel, tokenizer: Tokenizer, shards: TokenShards) -> dict[str, Any] | None:
    """Loss, perplexity and bits per byte; None where the split is empty. Infinite figures are None."""
    if not shards.part.documents:
        return None
    nats, impossible = 0.0, 0
    for shard in range(len(shards)):
        found = model.score(shards.tokens(shard)).astype(np.float64)
        nats -= float(found.sum())
        impossible += int(np.isneginf(found).sum())
    tokens = shards.part.tokens
    is_finite = bool(np.isfinite(nats)) and model.is_normalised  # scores that do not sum to one measure nothing
    loss = nats / tokens
    return {
        "loss": loss if is_finite else None,
        "perplexity": exp(loss) if is_finite and loss < 700 else None,
        "bits_per_byte": nats / NATS_PER_BIT / shards.part.text_bytes if is_finite and tokenizer.is_lossless else None,
        "impossible_tokens": impossible,
        "tokens": tokens,
        "documents": shards.part.documents,
        "bytes": shards.part.text_bytes,
    }
