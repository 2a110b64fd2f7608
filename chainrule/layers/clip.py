"""Clipping by global norm: exploding gradients are scaled down, all together, so that their direction stays."""

from collections.abc import Iterable

import torch
from torch import Tensor


@torch.no_grad()
def clip_by_global_norm(parameters: Iterable[Tensor], limit: float) -> float:
    """The norm of all gradients as one vector, before; above `limit` (0: none) they are scaled to it.

    Equal to torch.nn.utils.clip_grad_norm_, and good for sparse gradients too.
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
