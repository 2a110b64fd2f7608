"""What torch hands to the forward and backward of a function whose gradient is written by hand."""

from typing import Protocol

from torch import Tensor


class GradientContext(Protocol):
    """The `ctx` of a torch.autograd.Function: tensors that forward keeps for backward."""

    saved_tensors: tuple[Tensor, ...]
    needs_input_grad: tuple[bool, ...]  # of which arguments of forward a gradient is wanted

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...
