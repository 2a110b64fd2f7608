"""Positions of tokens: sinusoids or a learned table added to the embedding; rotary angles by which queries and keys are
rotated (RoPE, Su et al., 2021); or a bias on attention scores that depends on distance (ALiBi, or learned per bucket of
distances as in T5).

The positions are `first`, first + 1, ...: `first` is one number for all rows of a batch, or a tensor with one for each
row. In the second case results have an axis for the rows.
"""

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from chainrule.layers._choices import AT_INPUT as AT_INPUT
from chainrule.layers._choices import BY_DISTANCE as BY_DISTANCE
from chainrule.layers._choices import POSITIONS, RELATIVE_BUCKETS
from chainrule.layers.gradient_context import GradientContext
from chainrule.layers.roles import Role, declare

KINDS = POSITIONS
NUM_BUCKETS = RELATIVE_BUCKETS
FARTHEST = 128  # distances from here on share the last bucket


First = int | Tensor  # (rows,)


def places(first: First, count: int, device: torch.device | None = None) -> Tensor:
    """first, first + 1, ...: (count,), or (rows, count)."""
    if isinstance(first, int):
        return torch.arange(first, first + count, device=device)
    return first[:, None] + torch.arange(count, device=first.device)


def end(first: First, count: int) -> int:
    """One past the last position of the longest row."""
    return count + (first if isinstance(first, int) else int(first.max()))


def sinusoids(first: First, count: int, width: int, device: torch.device | None = None) -> Tensor:
    """sin(t / 10000^(2i/width)) beside cos of the same, positions `first` onwards: (count, width)."""
    times = places(first, count, device).float()
    rates = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10000.0) / width))
    angles = times[..., None] * rates  # (count, ceil(width / 2))
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)[..., :width]


def halved_sinusoids(first: First, count: int, width: int, device: torch.device | None = None) -> Tensor:
    """The same with all sines before all cosines, as Marian has them: (count, width)."""
    waves = sinusoids(first, count, width, device)
    return torch.cat([waves[..., 0::2], waves[..., 1::2]], -1)


class LearnedPositions(nn.Module):
    """One vector for each position, up to `context_length` of them."""

    def __init__(self, context_length: int, width: int):
        super().__init__()
        table = nn.Parameter(torch.empty(context_length, width).normal_(std=0.02))
        self.weight = declare(Role.POSITIONS, table)

    def forward(self, first: First, count: int) -> Tensor:
        return self.weight[first : first + count] if isinstance(first, int) else self.weight[places(first, count)]


def rotary_angles(
    first: First, count: int, width: int, base: float, device: torch.device, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """cos and sin of the rotary angle t / base^(2i/width) of each pair (i, i + width/2): two tensors (count, width)."""
    enough = 1 << (end(first, count) - 1).bit_length()  # a power of two, so that few tables are made
    cosines, sines = _table_of_angles(enough, width, base, device, dtype)
    which = slice(first, first + count) if isinstance(first, int) else places(first, count)
    return cosines[which], sines[which]


@lru_cache(maxsize=32)
@torch.inference_mode(False)  # what is kept must serve training too, whoever asked first
def _table_of_angles(
    count: int, width: int, base: float, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    times = torch.arange(count, dtype=dtype, device=device)
    rates = base ** (-torch.arange(0, width, 2, dtype=dtype, device=device) / width)
    angles = (times[:, None] * rates).repeat(1, 2)
    return angles.cos(), angles.sin()


class _Rotate(torch.autograd.Function):
    """The gradient is rotated by the opposite angle, so the vectors need not be kept for it."""

    @staticmethod
    def forward(ctx: GradientContext, vectors: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        return _rotated(vectors, cosine, sine, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: GradientContext, gradient: Tensor) -> tuple[Tensor, None, None]:
        cosine, sine = ctx.saved_tensors
        return _rotated(gradient, cosine, sine, -1), None, None


def _rotated(vectors: Tensor, cosine: Tensor, sine: Tensor, direction: int) -> Tensor:
    low, high = vectors.chunk(2, -1)
    rotated = vectors * cosine
    half = sine[..., : sine.shape[-1] // 2]
    rotated_low, rotated_high = rotated.chunk(2, -1)
    rotated_low.addcmul_(high, half, value=-direction)
    rotated_high.addcmul_(low, half, value=direction)
    return rotated


def rotate(vectors: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate each pair (x_i, x_{i + width/2}) of vectors (..., width) by the angle of its position, as Llama does.

    Where the angles have a smaller width, only that much of the vectors is rotated and the rest stays.
    """
    if cosine.shape[-1] < vectors.shape[-1]:
        rotary, rest = vectors.split([cosine.shape[-1], vectors.shape[-1] - cosine.shape[-1]], -1)
        return torch.cat([rotate(rotary, cosine, sine), rest], -1)
    if not torch.is_grad_enabled():
        return _rotated(vectors, cosine, sine, 1)
    rotated: Tensor = _Rotate.apply(vectors, cosine, sine)
    return rotated


def alibi_slopes(num_heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n), ... for n a power of two; other counts take every second slope of the next one."""
    power = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * (head + 1) / power) for head in range(power)]
    if power < num_heads:
        finer = [2 ** (-4 * (head + 1) / power) for head in range(2 * power)]
        slopes += finer[::2][: num_heads - power]
    return slopes


def distances(first: First, count: int, device: torch.device | None = None) -> Tensor:
    """How far back key j is from query first + i; negative for the future: (count, first + count).

    Where rows differ, all have as many keys as the longest.
    """
    queries = places(first, count, device)
    return queries[..., None] - torch.arange(end(first, count), device=queries.device)


def hidden_future(first: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """A bias of 0 for keys that a query may see and -inf for later ones: (rows, 1, count, keys), for all heads."""
    distance = distances(first, count)[:, None]
    return torch.zeros(distance.shape, dtype=dtype, device=first.device).masked_fill_(distance < 0, -torch.inf)


def buckets(distance: Tensor) -> Tensor:
    """The nearer half one bucket each, the farther half in logarithmic steps (T5's rule, one direction)."""
    distance = distance.clamp(min=0)
    exact = NUM_BUCKETS // 2
    scale = (NUM_BUCKETS - exact) / math.log(FARTHEST / exact)
    far = exact + (torch.log(distance.clamp(min=1) / exact) * scale).long()
    return torch.where(distance < exact, distance, far.clamp(max=NUM_BUCKETS - 1))


class DistanceBias(nn.Module):
    """What each head adds to the score of a key by its distance, -inf for the future: (heads, count, keys)."""

    def __init__(self, kind: str, num_heads: int):
        super().__init__()
        self.kind, self.num_heads = kind, num_heads
        if kind == "relative":
            self.weight = declare(Role.POSITIONS, nn.Parameter(torch.zeros(NUM_BUCKETS, num_heads)))

    def forward(self, first: First, count: int, device: torch.device) -> Tensor:
        distance = distances(first, count, device).unsqueeze(-3)  # (1, count, keys)
        if self.kind == "relative":
            bias = F.embedding(buckets(distance), self.weight).transpose(-4, -1).squeeze(-1)
        else:
            slopes = torch.tensor(alibi_slopes(self.num_heads), device=device)
            bias = -slopes[:, None, None] * distance
        return bias.masked_fill(distance < 0, -torch.inf)
