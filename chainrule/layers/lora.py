"""LoRA: y = W x + b + (α / r) B A x, where W stays as it is and B A, of the low rank r, learns (Hu et al., 2021).

A matrix in which several are stacked, as those of queries, keys and values, has an A and a B for each. B starts at
zero, so that a model begins as it was. Folded into W, an update costs nothing; until then, kernels that read W alone
may not run.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from chainrule.errors import UserError
from chainrule.kernels.changes import CHANGES
from chainrule.layers.attention import Attention
from chainrule.layers.block import Block
from chainrule.layers.feedforward import FeedForward
from chainrule.layers.joins import CrossAttention
from chainrule.layers.lora_settings import MATRICES as MATRICES
from chainrule.layers.lora_settings import LoRA as LoRA
from chainrule.layers.product import is_for_onednn, multiply
from chainrule.layers.roles import Role, declare, role_of

Rows = tuple[int, int]  # of a stacked matrix: the first, and the one after the last


class Update(nn.Module):
    """B A for one matrix: A (rank, width) starts as a Linear's weight does, B (outputs, rank) at zero."""

    def __init__(self, width: int, outputs: int, rank: int, like: Tensor):
        super().__init__()
        self.A = declare(Role.ADAPTER, nn.Parameter(like.new_empty(rank, width)))
        self.B = declare(Role.ADAPTER, nn.Parameter(like.new_zeros(outputs, rank)))
        nn.init.kaiming_uniform_(self.A, a=5**0.5)


class Updates(nn.ModuleDict):
    """The updates of the matrices that are stacked in one layer, by their names in MATRICES."""

    def __init__(self, layer: nn.Linear, parts: dict[str, Rows], settings: LoRA):
        weight = layer.weight.detach()
        super().__init__(
            {
                name: Update(layer.in_features, last - first, settings.rank, weight)
                for name, (first, last) in parts.items()
            }
        )
        self.rows, self.scale, self.dropout = list(parts.values()), settings.scale, settings.dropout
        self.is_active = True

    def add_to(self, y: Tensor, x: Tensor) -> Tensor:
        """y (..., outputs), which the layer made of x (..., width), plus the updates: y itself, which is changed."""
        if not self.is_active:
            return y
        if torch.is_grad_enabled() and y._is_view():  # autograd takes detours for views that are changed, or refuses
            y = y.clone()
        x = F.dropout(x, self.dropout, self.training)
        factors = [each.A for each in self._each()] + [each.B for each in self._each()]
        added: Tensor = _AddUpdates.apply(y, x, self.scale, self.rows, *factors)
        return added

    def _each(self) -> list[Update]:
        return list(self.values())  # type: ignore[arg-type]

    @torch.no_grad()
    def fold(self, weight: Tensor) -> None:
        """Add the updates to the layer's weight, which then is no longer a rounded one."""
        for (first, last), each in zip(self.rows, self._each(), strict=True):
            weight[first:last].addmm_(each.B, each.A, alpha=self.scale)
        if hasattr(weight, "int8"):
            del weight.int8


class _AddUpdates(torch.autograd.Function):
    """y += s B A x for several rows of y each, in place; with h = s A x, dB = dy hᵀ, dh = Bᵀ dy, dA = s dh xᵀ."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, x: Tensor, scale: float, rows: list[Rows], *factors: Tensor) -> Tensor:
        inputs = x.reshape(-1, x.shape[-1]).to(y.dtype)
        down, ups = _in_precision_of(y, factors)
        hidden = _product(inputs, down.t()).mul_(scale)  # (tokens, rank of all parts together)
        results = y.view(-1, y.shape[-1])
        for (first, last), h, up in zip(rows, hidden.chunk(len(rows), 1), ups, strict=True):
            results[:, first:last].addmm_(h, up.t())
        ctx.mark_dirty(y)
        ctx.save_for_backward(inputs, hidden, *factors)
        ctx.scale, ctx.rows, ctx.shape, ctx.dtype = scale, rows, x.shape, x.dtype
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, hidden, *factors = ctx.saved_tensors
        down, ups = _in_precision_of(gradient, factors)
        count = len(ctx.rows)
        flat, to_hidden = gradient.reshape(len(inputs), -1), torch.empty_like(hidden)
        to_ups = []
        parts = zip(ctx.rows, hidden.chunk(count, 1), to_hidden.chunk(count, 1), ups, strict=True)
        for (first, last), h, to_h, up in parts:
            some = flat[:, first:last]
            to_h.copy_(_product(some, up))
            to_ups.append(_product(h.t(), some).t().to(factors[0].dtype))  # this way round is faster
        to_hidden.mul_(ctx.scale)
        to_downs = _product(to_hidden.t(), inputs).to(factors[0].dtype).chunk(count)
        to_x = _product(to_hidden, down).view(ctx.shape).to(ctx.dtype) if ctx.needs_input_grad[1] else None
        return gradient, to_x, None, None, *to_downs, *to_ups


def _product(a: Tensor, b: Tensor) -> Tensor:
    """The product of two matrices, by whichever library is faster."""
    is_dense = all(each.is_contiguous() or each.t().is_contiguous() for each in (a, b))
    return multiply(a, b.t()) if is_dense and is_for_onednn(a, b.t()) else torch.mm(a, b)


def _in_precision_of(y: Tensor, factors: tuple[Tensor, ...] | list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """All A's as one matrix, and the B's, in the precision of y: that of torch.autocast where that is on."""
    half = len(factors) // 2
    downs = factors[:half]
    down = torch.cat(list(downs)) if half > 1 else downs[0]
    return down.to(y.dtype), [each.to(y.dtype) for each in factors[half:]]


def add_lora(model: nn.Module, settings: LoRA) -> None:
    """Give every matrix that the settings name an update, and freeze all other parameters."""
    assert not lora_parameters(model), "the model has updates already: fold them first"
    chosen = _chosen(model, settings)
    trained = [name for name, each in model.named_parameters() if each.requires_grad]
    model.trained_before_lora = trained  # type: ignore[assignment]
    model.requires_grad_(False)
    for layer, parts in chosen:
        layer.lora = Updates(layer, parts, settings)
        layer.lora.hook = layer.register_forward_hook(_add_updates)
        layer.lora.train(layer.training)


def lora_parameters(model: nn.Module) -> dict[str, Tensor]:
    """The A's and B's by name: 'blocks.0.attention.query_key_value.lora.query.A'."""
    updates = {name: each for name, each in model.named_modules() if isinstance(each, Update)}
    return {f"{name}.{which}": each for name, part in updates.items() for which, each in part.named_parameters()}


@torch.no_grad()
def load_lora(model: nn.Module, arrays: Mapping[str, np.ndarray | Tensor]) -> None:
    """Fill the A's and B's of a model, all of them, with such arrays as `lora_parameters` gives."""
    ours = lora_parameters(model)
    strange = min(ours.keys() ^ arrays.keys(), default=None)
    if strange is not None:
        where = "the adapter has" if strange in arrays else "the adapter has no"
        raise UserError(f"{where} '{strange}', unlike the model with the same settings of LoRA; is it for this model?")
    for name, parameter in ours.items():
        array = torch.as_tensor(arrays[name])
        if array.shape != parameter.shape:
            found, needed = (" x ".join(map(str, each.shape)) for each in (array, parameter))
            raise UserError(f"'{name}' of the adapter is {found}, and this model needs {needed}; is it for this model?")
        parameter.copy_(array)


def fold_lora(model: nn.Module) -> None:
    """W += (α / r) B A everywhere; the model is then an ordinary one, all of which can be trained as before."""
    for layer in list(_layers_with_updates(model)):
        layer.lora.fold(layer.weight)
        layer.lora.hook.remove()
        del layer.lora
    for name in model.__dict__.pop("trained_before_lora", []):
        model.get_parameter(name).requires_grad_(True)
    CHANGES.note()


@contextmanager
def without_lora(model: nn.Module) -> Iterator[None]:
    """A context in which the model computes what it would without its updates."""
    updates = [layer.lora for layer in _layers_with_updates(model)]
    for each in updates:
        each.is_active = False
    try:
        yield
    finally:
        for each in updates:
            each.is_active = True


def _add_updates(layer: Any, arguments: tuple[Tensor, ...], y: Tensor) -> Tensor:
    added: Tensor = layer.lora.add_to(y, arguments[0])
    return added


def _layers_with_updates(model: nn.Module) -> Iterator[Any]:
    return (each for each in model.modules() if isinstance(getattr(each, "lora", None), Updates))


def _chosen(model: nn.Module, settings: LoRA) -> list[tuple[Any, dict[str, Rows]]]:
    """The layers that get updates, and which of their rows."""
    all_parts = stacked_matrices(model)
    within = _topmost(model, settings.layers)
    chosen = []
    for name, parts in all_parts.items():
        layer = model.get_submodule(name)
        wanted = {matrix: rows for matrix, rows in parts.items() if matrix in settings.matrices}
        if wanted and (within is None or layer in within):
            chosen.append((layer, wanted))
    if chosen:
        return chosen
    known = {name for parts in all_parts.values() for name in parts}
    has = f"it has: {', '.join(each for each in MATRICES if each in known)}" if known else "it has none that LoRA can"
    raise UserError(f"the model has no matrix that is one of {', '.join(settings.matrices)} ({has}); train all of it")


def _topmost(model: nn.Module, count: int | None) -> set[nn.Module] | None:
    """All modules of the last so many blocks of every stack; None: of the whole model."""
    if count is None:
        return None
    stacks = [each for each in model.modules() if isinstance(each, nn.ModuleList) and _has_blocks(each)]
    deepest = max(map(len, stacks), default=0)
    if count > deepest:
        raise UserError(f"layers must be at most {deepest}, the blocks that the model has, got {count}")
    return {module for stack in stacks for block in stack[-count:] for module in block.modules()}


def _has_blocks(stack: nn.ModuleList) -> bool:
    return len(stack) > 0 and all(isinstance(each, Block) for each in stack)


def stacked_matrices(model: nn.Module) -> dict[str, dict[str, Rows]]:
    """Of every linear layer between embedding and output, by its name, which of its rows are which of MATRICES."""
    sizes: dict[nn.Module, dict[str, int]] = {}
    for module in model.modules():
        if isinstance(module, Attention):
            queries, keys = (each * module.head_width for each in (module.num_heads, module.num_key_value_heads))
            sizes[module.query_key_value] = {"query": queries, "key": keys, "value": keys}
            sizes[module.output] = {"attention-output": module.output.out_features}
        elif isinstance(module, CrossAttention):
            width = module.query.out_features
            sizes[module.query], sizes[module.key_value] = {"query": width}, {"key": width, "value": width}
            sizes[module.output] = {"attention-output": width}
        elif isinstance(module, FeedForward):
            hidden, names = module.output.in_features, ("gate", "up") if module.activation == "swiglu" else ("up",)
            sizes[module.input] = dict.fromkeys(names, hidden)
            sizes[module.output] = {"down": module.output.out_features}
    return {
        name: _rows(sizes.get(each, {"other": each.out_features}))
        for name, each in model.named_modules()
        if isinstance(each, nn.Linear) and role_of(each.weight) == Role.HIDDEN_MATRIX
    }


def _rows(sizes: dict[str, int]) -> dict[str, Rows]:
    """Where matrices of these heights begin and end, one below the other."""
    found, first = {}, 0
    for name, height in sizes.items():
        found[name] = (first, first + height)
        first += height
    return found


@torch.no_grad()
def fold_arrays(model: nn.Module, arrays: Mapping[str, np.ndarray], scale: float) -> None:
    """W += scale B A, for every A and B of such names as `lora_parameters` gives, of a model that has no updates."""
    for name, parts in stacked_matrices(model).items():
        weight: Tensor = model.get_submodule(name).weight  # type: ignore[assignment]
        for matrix, (first, last) in parts.items():
            stem = f"{name}.lora.{matrix}"
            if f"{stem}.A" in arrays:
                down, up = (torch.as_tensor(arrays[f"{stem}.{which}"]) for which in "AB")
                weight[first:last].addmm_(up, down, alpha=scale)
