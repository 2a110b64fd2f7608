"""Muon (Jordan et al., 2024): momentum whose matrix is made orthogonal before it is taken off the weights.

The update rule of torch.optim.Muon, in 32-bit floats unless told otherwise: torch's computes in bfloat16, which CPUs
without hardware for it do a hundred times slower. Matrices of equal shape go through the iteration together, and its
polynomials are those of the Polar Express (Amsel et al., 2025), each the best for where the rounds before it leave the
singular values.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

# x -> a x + b x^3 + c x^5, round by round; the last one is repeated where more rounds are asked for.
POLYNOMIALS = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
    (1.891301407787398, -1.2679958271945868, 0.37680408948524835),
    (1.875, -1.25, 0.375),
)
LONG = 2  # times as long as there are rows: from there on, it pays to work on the Gram matrix
ROUNDS_ALONE = 3  # on a Gram matrix: in more, values that rounding has made negative would grow without end
MARGIN = 1.01  # in bfloat16: a value that rounding pushes beyond what a polynomial is made for would grow without end


def orthogonalise(matrices: Tensor, rounds: int = 5, dtype: torch.dtype | None = None) -> Tensor:
    """Replace each matrix in (count, rows, columns) by one with the same singular vectors, all values near 1.

    Products are computed in the `dtype`, by default that of the matrices; the result has it too.
    """
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.transpose(-2, -1) if is_tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) * 1.01).clamp(min=1e-7)
    x = x.to(dtype or x.dtype)
    margin = MARGIN if x.dtype == torch.bfloat16 else 1.0
    if x.dtype == torch.float32 and x.shape[-1] >= LONG * x.shape[-2]:
        x = _orthogonalise_long(x, rounds)
    else:
        for index in range(rounds):
            a, b, c = (factor / margin**power for factor, power in zip(_polynomial(index), (1, 3, 5), strict=True))
            gram = x @ x.transpose(-2, -1)
            x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.transpose(-2, -1) if is_tall else x


def _orthogonalise_long(x: Tensor, rounds: int) -> Tensor:
    """The same for long rows: rounds on their Gram matrix G = X Xᵀ alone, whose sides are short.

    A round is X ← P X with P = a + b G + c G², so that G ← P G P. All P commute; X is multiplied with their product.
    """
    for first in range(0, rounds, ROUNDS_ALONE):
        gram = product = x @ x.transpose(-2, -1)
        last = min(first + ROUNDS_ALONE, rounds) - 1
        for index in range(first, last + 1):
            a, b, c = _polynomial(index)
            factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
            factor.diagonal(dim1=-2, dim2=-1).add_(a)
            product = factor if index == first else product @ factor
            if index < last:
                gram = factor @ gram @ factor
        x = product @ x
    return x


def _polynomial(index: int) -> tuple[float, float, float]:
    return POLYNOMIALS[min(index, len(POLYNOMIALS) - 1)]


class Muon(torch.optim.Optimizer):
    """For weight matrices of hidden layers. A parameter may be several matrices stacked, as gates are."""

    def __init__(
        self,
        parameters: Iterable[Tensor] | list[dict[str, Any]],
        lr: float = 0.02,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        rounds: int = 5,
        dtype: torch.dtype | None = None,
    ):
        """`dtype`: of the products that make a matrix orthogonal; weights and momentum keep their own."""
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "rounds": rounds, "parts": 1}
        super().__init__(parameters, defaults)
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            given = [each for each in group["params"] if each.grad is not None]
            if not given:
                continue
            for parameter in given:
                if not self.state[parameter]:
                    self.state[parameter]["momentum"] = torch.zeros_like(parameter)
            momenta, gradients = [self.state[each]["momentum"] for each in given], [each.grad for each in given]
            torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
            updates = torch._foreach_lerp(gradients, momenta, group["momentum"])  # Nesterov's look ahead
            torch._foreach_mul_(given, 1 - group["lr"] * group["weight_decay"])
            alike: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for parameter, update in zip(given, updates, strict=True):
                for part, change in zip(parameter.chunk(group["parts"]), update.chunk(group["parts"]), strict=True):
                    alike[part.shape].append((part, change))
            for (rows, columns), pairs in alike.items():
                changes = orthogonalise(torch.stack([change for _, change in pairs]), group["rounds"], self.dtype)
                scale = group["lr"] * max(1.0, rows / columns) ** 0.5
                for (part, _), change in zip(pairs, changes, strict=True):
                    part.add_(change, alpha=-scale)
