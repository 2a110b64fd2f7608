"""What counting makes of the same tokens, which a network that learns in a budget of time has to beat."""

from math import exp

import numpy as np

from chainrule.data.shards import TokenShards
from chainrule.evaluation.figures import NATS_PER_BIT, CountingFigures
from chainrule.models import ngram
from chainrule.text.base import Tokenizer

MOST_TOKENS = 20_000_000  # beyond these, counting would take more than a moment
SCORED_TOKENS = 200_000
TOKENS_A_SECOND = 1_000_000  # that are counted, at the least
COUNTING_PART = 0.03  # of a budget, at the most


def count(train: TokenShards, tokenizer: Tokenizer) -> ngram.Model:
    """The n-gram that others are compared with: of 7 tokens where these are letters, of 5 where they are words."""
    order = 7 if tokenizer.vocabulary_size <= 512 else 5
    model = ngram.Model(ngram.Config(order=order), tokenizer.vocabulary_size, tokenizer.eos)
    return model.fit([train.tokens(shard) for shard in range(len(train))])


def measure_counting(
    train: TokenShards, held_out: TokenShards, tokenizer: Tokenizer, seconds: float
) -> CountingFigures | None:
    """Its figures on the text kept aside; None where there is none, or where counting takes too much of the seconds."""
    affordable = min(COUNTING_PART * seconds * TOKENS_A_SECOND, MOST_TOKENS)
    if not held_out.part.documents or train.part.tokens > affordable:
        return None
    model = count(train, tokenizer)
    nats = float(-model.score(held_out.tokens(0)[:SCORED_TOKENS]).astype(np.float64).mean())
    scale = held_out.part.tokens / max(held_out.part.text_bytes, 1) / NATS_PER_BIT
    return {
        "order": model.config.order,
        "loss": nats,
        "perplexity": exp(nats),
        "bits_per_byte": None if held_out.changed_documents(tokenizer) else nats * scale,
    }
