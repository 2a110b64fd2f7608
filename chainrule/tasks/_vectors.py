"""Where word vectors begin: at what counting knows already. Words with the same neighbours begin alike.

Pointwise mutual information of words and neighbours, log p(w, c) / (p(w) p(c)) where it is positive, cut down to the
vectors' width by singular value decomposition: what skip-gram vectors converge to (Levy & Goldberg 2014).
"""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

NEIGHBOURS = 4096  # the most frequent words; rarer ones tell little about those they stand with
MOST_PAIRS = 1 << 26  # of a word and a neighbour, four bytes each, some of them four times
REACH = 2  # how far neighbours may be, each way; farther ones count less
FLATTENED = 0.75  # the power of neighbours' frequencies: without it, rare ones would matter most
TRUSTED = 20  # occurrences; vectors of rarer words begin shorter
SPARE = 20  # directions that are found and thrown away, which makes the others more exact


def vectors_by_counting(streams: Iterable[np.ndarray], counts: np.ndarray, width: int) -> Tensor:
    """(vocabulary, width), of mean square 1. Random numbers, which turn the directions, are torch's own."""
    size = len(counts)
    columns = min(NEIGHBOURS, size, max(MOST_PAIRS // size, width))
    column = np.full(size, -1)
    column[np.argsort(-counts, kind="stable")[:columns]] = np.arange(columns)
    pairs = torch.zeros(size * columns)
    for stream in streams:
        tokens = stream.astype(np.int64)
        for distance in range(1, REACH + 1):
            for words, neighbours in ((tokens[:-distance], tokens[distance:]), (tokens[distance:], tokens[:-distance])):
                beside = column[neighbours]
                places = torch.from_numpy((words * columns + beside)[beside >= 0])
                pairs.index_add_(0, places, torch.full((len(places),), 1 / distance))
    together = pairs.view(size, columns)
    neighbour = together.sum(0).pow(FLATTENED)
    expected = together.sum(1, keepdim=True) * (neighbour / neighbour.sum())
    information = (together / expected.clamp(min=1e-9)).clamp(min=1.0).log_()
    rank = min(width, columns)
    left, singular, _ = torch.svd_lowrank(information, q=min(rank + SPARE, columns), niter=2)
    found = left[:, :rank] * singular[:rank].sqrt()
    if rank < width:
        found = torch.nn.functional.pad(found, (0, width - rank))
    turned = found @ torch.linalg.qr(torch.randn(width, width))[0]  # no direction is more important than another
    length = (torch.from_numpy(counts).clamp(max=TRUSTED) / TRUSTED).pow(0.25)
    vectors = turned / turned.norm(dim=1, keepdim=True).clamp(min=1e-6) * length[:, None].to(turned.dtype)
    return vectors / vectors.square().mean().sqrt()
