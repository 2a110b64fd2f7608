"""Loops over time for the cells that torch has no fast kernel for, with backpropagation through time written by hand.

Each takes what the inputs add to its gates at all steps, p_t = W_x x_t + b. The backward of every cell with one state
has one shape: with g = dL/dh_t, its gates get dL/da_t = g ⊙ slope_t, where the slopes do not depend on g and are found
for all steps at once, and dL/dh_{t-1} gains g ⊙ keep_t + W_hᵀ dL/da_t. Gradients of W_h are one product at the end.
"""

from typing import Protocol

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from chainrule.kernels import gru
from chainrule.layers.autocast import autocast_dtype
from chainrule.layers.gradient_context import GradientContext
from chainrule.layers.product import is_for_onednn, multiply
from chainrule.layers.training_kernels import are_plain

WEIGHT = 2  # its place among the arguments of all these functions


class _Context(GradientContext, Protocol):
    precision: torch.dtype  # of products over all steps


class _ElmanContext(_Context, Protocol):
    nonlinearity: str


class ElmanSteps(Function):
    """h_t = σ(p_t + W h_{t-1}) for all t: (time, batch, width)."""

    @staticmethod
    def forward(ctx: _ElmanContext, projected: Tensor, before: Tensor, weight: Tensor, nonlinearity: str) -> Tensor:
        hidden = _room(projected, before)
        steps = hidden.unbind()
        squash = {"logistic": Tensor.sigmoid_, "tanh": Tensor.tanh_, "relu": Tensor.relu_}[nonlinearity]
        transposed = weight.t()
        for step, old, new in zip(projected.unbind(), steps, steps[1:], strict=False):
            squash(torch.addmm(step, old, transposed, out=new))
        ctx.save_for_backward(hidden, weight)
        ctx.nonlinearity, ctx.precision = nonlinearity, autocast_dtype(weight)
        return hidden[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: _ElmanContext, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight = ctx.saved_tensors
        new = hidden[1:]
        if ctx.nonlinearity == "relu":
            slopes = (new > 0).to(new.dtype)
        else:
            slopes = new * (1 - new) if ctx.nonlinearity == "logistic" else 1 - new * new
        gates, _, before = _descend(gradient, slopes.unsqueeze(2), None, weight)
        return gates, before, _weight_gradient(ctx, gates, hidden), None


class UGRNNSteps(Function):
    """R = tanh(first half of p_t + W h_{t-1}), G = σ(second half), h_t = R + G ⊙ (h_{t-1} - R)."""

    @staticmethod
    def forward(ctx: _Context, projected: Tensor, before: Tensor, weight: Tensor) -> Tensor:
        hidden, gates = _room(projected, before), torch.empty_like(projected)
        steps = hidden.unbind()
        candidates, updates = (part.unbind() for part in gates.chunk(2, -1))
        transposed = weight.t()
        for t, (step, both) in enumerate(zip(projected.unbind(), gates.unbind(), strict=True)):
            torch.addmm(step, steps[t], transposed, out=both)
            torch.lerp(candidates[t].tanh_(), steps[t], updates[t].sigmoid_(), out=steps[t + 1])
        ctx.save_for_backward(hidden, gates, weight)
        ctx.precision = autocast_dtype(weight)
        return hidden[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hidden, gates, weight = ctx.saved_tensors
        candidate, update = gates.chunk(2, -1)
        slopes = gates.new_empty(*candidate.shape[:2], 2, candidate.shape[2])  # (time, batch, gates, width)
        rest = 1 - update
        torch.mul(rest, 1 - candidate * candidate, out=slopes[:, :, 0])
        torch.mul(hidden[:-1] - candidate, rest.mul_(update), out=slopes[:, :, 1])
        inner, _, before = _descend(gradient, slopes, update, weight)
        return inner, before, _weight_gradient(ctx, inner, hidden)


class _GRUContext(_Context, Protocol):
    has_kernels: bool


class GRUSteps(Function):
    """r, z = σ(p_t + W h_{t-1} + c), n = tanh(p_t + r ⊙ (W h_{t-1} + c)), h_t = n + z ⊙ (h_{t-1} - n)."""

    @staticmethod
    def forward(ctx: _GRUContext, projected: Tensor, before: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        hidden, gates = _room(projected, before), torch.empty_like(projected)
        width = hidden.shape[2]
        new = torch.empty_like(hidden[1:])
        ctx.has_kernels, ctx.precision = are_plain(projected, before, weight, bias), autocast_dtype(weight)
        if ctx.has_kernels:
            _gru_by_kernels(projected, weight, bias, gates, new, hidden)
            ctx.save_for_backward(hidden, gates, new, weight)
            return hidden[1:]
        steps, candidates, transposed = hidden.unbind(), new.unbind(), weight.t()
        projected_rz, projected_n = (part.unbind() for part in projected.split([2 * width, width], -1))
        both, recalled = (part.unbind() for part in gates.split([2 * width, width], -1))
        resets, updates, _ = (part.unbind() for part in gates.split(width, -1))
        for t, all_gates in enumerate(gates.unbind()):
            torch.addmm(bias, steps[t], transposed, out=all_gates)
            both[t].add_(projected_rz[t]).sigmoid_()
            torch.addcmul(projected_n[t], resets[t], recalled[t], out=candidates[t]).tanh_()
            torch.lerp(candidates[t], steps[t], updates[t], out=steps[t + 1])
        ctx.save_for_backward(hidden, gates, new, weight)
        return hidden[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: _GRUContext, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hidden, gates, new, weight = ctx.saved_tensors
        if ctx.has_kernels:
            inner, projected, before = _gru_back_by_kernels(gradient, gates, new, hidden, weight)
            return projected, before, _weight_gradient(ctx, inner, hidden), inner.sum((0, 1))
        time, batch, width = new.shape
        reset, update, recalled = gates.split(width, -1)
        slopes = gates.new_empty(time, batch, 3, width)  # of W h_{t-1} + c: one for r, z and n each
        rest = 1 - update
        slope_of_n = rest * (1 - new * new)
        torch.mul(hidden[:-1] - new, rest.mul_(update), out=slopes[:, :, 1])
        torch.mul(slope_of_n, reset, out=slopes[:, :, 2])
        torch.mul(slopes[:, :, 2] * recalled, 1 - reset, out=slopes[:, :, 0])
        inner, outer, before = _descend(gradient, slopes, update, weight)
        projected = inner.clone()
        torch.mul(outer, slope_of_n, out=projected[..., 2 * width :])
        return projected, before, _weight_gradient(ctx, inner, hidden), inner.sum((0, 1))


def _gru_by_kernels(
    projected: Tensor, weight: Tensor, bias: Tensor, gates: Tensor, new: Tensor, hidden: Tensor
) -> None:
    """Fill gates, n and h of all steps: a product of matrices and one pass over it for each."""
    inputs, added, products, candidates, states = (
        each.detach().numpy() for each in (projected.contiguous(), bias, gates, new, hidden)
    )
    transposed = weight.t()
    for t, (before, product) in enumerate(zip(hidden.unbind(), gates.unbind(), strict=False)):
        torch.mm(before, transposed, out=product)
        gru.step(inputs, added, products, candidates, states, t)


def _gru_back_by_kernels(
    gradient: Tensor, gates: Tensor, new: Tensor, hidden: Tensor, weight: Tensor
) -> tuple[Tensor, ...]:
    """Gradients of all W h_{t-1} + c, of all p_t, and of h_0."""
    inner, outer, total = torch.empty_like(gates), torch.empty_like(gates), _totals(gradient)
    totals, products, candidates, states, to_gates, to_inputs = (
        each.numpy() for each in (total, gates, new, hidden, inner, outer)
    )
    at_state, at_gates = total.unbind(), inner.unbind()
    for t in reversed(range(len(gradient))):
        gru.step_back(totals, products, candidates, states, to_gates, to_inputs, t)
        at_state[t].addmm_(at_gates[t], weight)
    return inner, outer, total[0]


def _room(projected: Tensor, before: Tensor) -> Tensor:
    """(time + 1, batch, width): the state before, then room for one per step."""
    hidden = projected.new_empty(len(projected) + 1, *before.shape)
    hidden[0] = before
    return hidden


def _descend(gradient: Tensor, slopes: Tensor, keeps: Tensor | None, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Back through time: gradients of all gates (time, batch, gates * width), of all h_t, and of h_0.

    gradient and keeps (time, batch, width), slopes (time, batch, gates, width), weight (gates * width, width)
    """
    gates = torch.empty_like(slopes)
    total = _totals(gradient)
    at_state, at_each_gate = total.unbind(), total.unsqueeze(2).unbind()
    by_gate, flat, slope = gates.unbind(), gates.flatten(2).unbind(), slopes.unbind()
    keep = None if keeps is None else keeps.unbind()
    for t in reversed(range(len(gradient))):
        torch.mul(at_each_gate[t + 1], slope[t], out=by_gate[t])
        at_state[t].addmm_(flat[t], weight)
        if keep is not None:
            at_state[t].addcmul_(at_state[t + 1], keep[t])
    return gates.flatten(2), total[1:], total[0]


def _totals(gradient: Tensor) -> Tensor:
    """(time + 1, batch, width): room for the gradient of h_0, and what those of all h_t begin with."""
    total = gradient.new_empty(len(gradient) + 1, *gradient.shape[1:])
    total[0], total[1:] = 0, gradient
    return total


def _weight_gradient(ctx: _Context, gates: Tensor, hidden: Tensor) -> Tensor | None:
    """Σ_t dL/da_t h_{t-1}ᵀ: (gates * width, width); None where the weight is frozen."""
    if not ctx.needs_input_grad[WEIGHT]:
        return None
    precision = ctx.precision
    of_gates, before = gates.flatten(0, 1), hidden[:-1].flatten(0, 1)
    if precision != gates.dtype:
        return (of_gates.to(precision).t() @ before.to(precision)).to(gates.dtype)
    if is_for_onednn(of_gates.t(), before.t()):
        return multiply(of_gates.t().contiguous(), before.t().contiguous())
    return of_gates.t() @ before
