"""Gradient clipping by global norm: all gradients are scaled down together, so that their direction stays."""

from collections.abc import Iterable

import torch
from torch import Tensor


@torch.no_grad()
def clip_by_global_norm(parameters: Iterable[Tensor], limit: float) -> float:
    """Scale all gradients to the norm `limit` if theirs, as one vector, is larger (0: no limit); returns it as it was.

    Equal to torch.nn.utils.clip_grad_norm_, and works for sparse gradients, too.
    """
    gradients = []
    for parameter in parameters:
        if parameter.grad is not None:
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()
                gradients.append(parameter.grad.values())
            else:
                gradients.append(parameter.grad)
    if not gradients:
        return 0.0
    norm = float(torch.stack(torch._foreach_norm(gradients)).norm())
    if limit and norm > limit:
        torch._foreach_mul_(gradients, limit / (norm + 1e-6))
    return norm
