"""What a budget should reach, said before it is spent: an n-gram of the same tokens, and what training adds to it.

Counting takes seconds, and how hard a text is shows in it. Models trained for a minute or more were measured to stand
below it by a little more with every doubling of the time; docs/log.md has the figures behind RATIO and GAIN.
"""

from math import exp, log, log2

import numpy as np

from chainrule.data.shards import TokenShards
from chainrule.models import ngram
from chainrule.text.base import Tokenizer

MOST_TOKENS = 20_000_000  # beyond these, counting would take more than a moment
SCORED_TOKENS = 200_000
RATIO, GAIN = 0.99, 0.012
SHORTEST_MINUTES = 2.0


def count(train: TokenShards, tokenizer: Tokenizer) -> ngram.Model:
    """The n-gram that others are compared with: of 7 tokens where these are letters, of 5 where they are words."""
    order = 7 if tokenizer.vocabulary_size <= 512 else 5
    model = ngram.Model(ngram.Config(order=order), tokenizer.vocabulary_size, tokenizer.eos)
    return model.fit([train.tokens(shard) for shard in range(len(train))])


def expect(train: TokenShards, held_out: TokenShards, tokenizer: Tokenizer, minutes: float) -> list[str]:
    """A sentence, or none where there is no time, or no text, to find out."""
    if minutes < SHORTEST_MINUTES or not held_out.part.documents or train.part.tokens > MOST_TOKENS:
        return []
    model = count(train, tokenizer)
    nats = float(-model.score(held_out.tokens(0)[:SCORED_TOKENS]).astype(np.float64).mean())
    expected = nats * (RATIO - GAIN * log2(1 + minutes))
    if not held_out.changed_documents(tokenizer):
        scale = held_out.part.tokens / max(held_out.part.text_bytes, 1) / log(2)
        found, hoped = f"{nats * scale:.3f} bits per byte", f"{expected * scale:.3f}"
    else:
        found, hoped = f"perplexity {exp(nats):.1f}", f"{exp(expected):.1f}"
    return [f"a {model.config.order}-gram of the same tokens has {found}; expect about {hoped}"]
