"""Vectors for tokens, and for the last few tokens together: hashed n-gram embeddings.

A table for each n holds a vector for every bucket of n-grams, so that the first layer already knows what a small
n-gram model knows: e(w_t) + Σ_n E_n[hash(w_{t-n+1} … w_t)] (as in the Byte Latent Transformer, Pagnoni et al., 2024).
A step touches few rows of a table, so its gradient is sparse: as many rows as the step has n-grams.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.layers.roles import Role, declare

MIX = 0x9E3779B1  # an odd constant near 2^32 / golden ratio: multiplying by it spreads neighbours apart
NONE = -1  # in place of a token before the first


def ngram_hashes(tokens: Tensor, recent: Tensor, largest: int, rows: int) -> list[Tensor]:
    """The bucket of the n-gram that ends at each position, for n from 2 to `largest`.

    tokens (batch, time), recent (batch, largest - 1): what came before, NONE where nothing did.
    """
    time = tokens.shape[1]
    words = torch.cat([recent, tokens], 1) + 2  # NONE becomes 1, so that it counts
    value = tokens + 2
    hashes = []
    for n in range(2, largest + 1):
        begin = largest - n
        value = value * MIX + words[:, begin : begin + time]  # wraps around at 64 bits, on every machine alike
        mixed = (value ^ (value >> 29)) * MIX
        hashes.append((mixed ^ (mixed >> 32)) & (rows - 1))
    return hashes


class HashedNgrams(nn.Module):
    """The sum over n = 2 .. largest of the vectors of hashed n-grams; `rows`, a power of two, for each n."""

    def __init__(self, largest: int, rows: int, width: int, dropout: float = 0.0):
        super().__init__()
        self.largest, self.rows, self.dropout = largest, rows, dropout
        self.weight = declare(Role.SPARSE_TABLE, nn.Parameter(torch.zeros((largest - 1) * rows, width)))

    def start(self, batch_size: int) -> Tensor:
        return torch.full((batch_size, self.largest - 1), NONE, device=self.weight.device)

    def forward(self, tokens: Tensor, recent: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, time) -> (batch, time, width), and the tokens to hand to the next call."""
        hashes = ngram_hashes(tokens, recent, self.largest, self.rows)
        places = torch.stack([each + n * self.rows for n, each in enumerate(hashes)], -1)  # (batch, time, orders)
        kept = None
        if self.training and self.dropout:  # of whole n-grams, so that none is relied upon alone
            kept = F.dropout(self.weight.new_ones(places.shape), self.dropout).flatten(0, 1)
        vectors = F.embedding_bag(places.flatten(0, 1), self.weight, mode="sum", sparse=True, per_sample_weights=kept)
        return vectors.unflatten(0, tokens.shape), torch.cat([recent, tokens], 1)[:, -(self.largest - 1) :]
