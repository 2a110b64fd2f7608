"""What each term of a sum adds to tanh units that see the sum: a = d + Σ_j a_j.

What a unit gives beyond its value at d is shared out in proportion to the terms, (tanh(a) - tanh(d)) a_j / (a - d)
(DeepLIFT's rule, Shrikumar et al. 2017), so that shares and tanh(d) add up to tanh(a) exactly.
"""

import torch
from torch import Tensor


def share_out_tanh(terms: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Each term's share of tanh(bias + Σ terms) - tanh(bias), and tanh(bias): (terms, width) and (width,).

    Where the terms cancel out, the slope of tanh at the bias takes the place of the quotient.
    """
    total = terms.sum(0)
    moved = torch.tanh(bias + total) - torch.tanh(bias)
    is_still = total.abs() < 1e-6
    slope = torch.where(is_still, 1 - torch.tanh(bias).square(), moved / torch.where(is_still, 1.0, total))
    return terms * slope, torch.tanh(bias)
