"""A case or more for every module of the tape: arrays to give it, and the same function in torch."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from chainrule import tape
from chainrule.layers import cells
from chainrule.layers.positions import rotary_angles, rotate
from chainrule.tape import arithmetic, attention, losses, modules, recurrent, shapes
from chainrule.tape.tape import Array, Module

BATCH, TIME, WIDTH = 2, 5, 4


@dataclass(frozen=True)
class Case:
    module: Module
    inputs: tuple[Array, ...]
    torch: Callable[..., Tensor]

    def __str__(self) -> str:
        settings = ",".join(f"{key}={value}" for key, value in vars(self.module).items())
        return f"{type(self.module).__name__}({settings})-{len(self.inputs)}"


def draw(*shape: int, seed: int = 0) -> Array:
    """Away from zero, where ReLU has no derivative."""
    generator = np.random.default_rng((seed, *shape))
    return generator.choice([-1, 1], shape) * generator.uniform(0.05, 1.5, shape)


def words(*shape: int, most: int = 7) -> Array:
    return np.random.default_rng(1).integers(0, most, shape)


X = draw(BATCH, TIME, WIDTH)


def sequence(cell: Module, gates: int, parts: int, *more: Array) -> tuple[Module, tuple[Array, ...]]:
    arrays = (
        draw(BATCH, TIME, 3),
        draw(BATCH, parts * WIDTH),
        draw(gates * WIDTH, 3),
        draw(gates * WIDTH, WIDTH, seed=2),
    )
    return cell, (*arrays, draw(gates * WIDTH, seed=3), *more)


def by_cell(cell: cells.Cell) -> Callable[..., Tensor]:
    """Our torch cell, whose own tests hold it to torch's."""

    def run(x: Tensor, before: Tensor, input_weight: Tensor, weight: Tensor, bias: Tensor, *more: Tensor) -> Tensor:
        named = {"input_weight": input_weight, "recurrent_weight": weight, "bias": bias}
        named |= {"recurrent_bias": more[0]} if more else {}
        outputs, _ = torch.func.functional_call(
            cell.double(), named, (x.transpose(0, 1), tuple(before.chunk(cell.num_parts, 1)))
        )
        return outputs.transpose(0, 1)

    return run


def lstm_by_steps(x: Tensor, before: Tensor, input_weight: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """torch's own cell, h and c at every step."""
    h, c = before.chunk(2, 1)
    states = []
    for t in range(x.shape[1]):
        h, c = torch.lstm_cell(x[:, t], (h, c), input_weight, weight, bias, torch.zeros_like(bias))
        states.append(torch.cat([h, c], 1))
    return torch.stack(states, 1)


def attend(
    query: Tensor, key: Tensor, value: Tensor, heads: int, fewer: int, is_causal: bool, added: Tensor | None = None
) -> Tensor:
    q, k, v = (
        each.unflatten(-1, (count, -1)).transpose(1, 2)
        for each, count in ((query, heads), (key, fewer), (value, fewer))
    )
    mask = torch.zeros(q.shape[2], k.shape[2], dtype=q.dtype)
    if is_causal:
        mask = mask.masked_fill(torch.ones_like(mask).tril(k.shape[2] - q.shape[2]) == 0, -torch.inf)
    if added is not None:
        mask = mask + (added if added.is_floating_point() else torch.zeros(()).masked_fill(~added, -torch.inf))
    return F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True).transpose(1, 2).flatten(2)


def turn(x: Tensor) -> Tensor:
    cosine, sine = rotary_angles(3, x.shape[1], 4, 100.0, x.device, torch.float64)
    return rotate(x.unflatten(-1, (-1, 4)), cosine[:, None], sine[:, None]).flatten(2)


def dropped(module: modules.Dropout) -> Callable[[Tensor], Tensor]:
    return lambda x: x * torch.from_numpy(modules.draw_mask(X, module.rate, module.seed))


ONE_HOT = np.eye(WIDTH)[words(BATCH, TIME, most=WIDTH)]
CHANCES = losses.softmax(draw(BATCH, TIME, WIDTH, seed=5))
TARGETS = words(BATCH, TIME, most=WIDTH)
PARTLY = np.where(np.arange(TIME) % 2, TARGETS, losses.IGNORE)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


POSITIVE = np.abs(X)
SEEN = np.array([[True, False, True], [False, False, True]])[:, None, None]  # keys that are no padding
QKV = (draw(BATCH, TIME, WIDTH, seed=3), draw(BATCH, 3, WIDTH), draw(BATCH, 3, WIDTH, seed=1))


def summed(logits: Tensor, targets: Tensor) -> Tensor:
    """Where no target counts there is no mean, but a sum."""
    return F.cross_entropy(logits, targets, reduction="sum")


def nothing_read(x: Tensor, before: Tensor, *weights: Tensor) -> Tensor:
    """No states, and gradients of zero."""
    return before[:, None].expand(-1, x.shape[1], -1) + 0 * x.sum() + 0 * sum(each.sum() for each in weights)


CASES = [
    Case(modules.Linear(), (X, draw(6, WIDTH)), F.linear),
    Case(modules.Linear(), (X, draw(6, WIDTH), draw(6)), F.linear),
    Case(modules.Embedding(), (words(BATCH, TIME), draw(7, WIDTH)), F.embedding),
    Case(modules.Add(), (X, draw(TIME, 1)), torch.add),
    Case(modules.Add(), (X, draw(BATCH, 1, WIDTH)), torch.add),
    Case(modules.Multiply(), (X, draw(WIDTH)), torch.mul),
    Case(modules.Multiply(), (draw(1), X), torch.mul),
    Case(modules.Dot(), (X, draw(TIME, WIDTH)), lambda a, b: (a * b).sum(-1, keepdim=True)),
    Case(modules.Dot(), (draw(TIME, 1), X), lambda a, b: (a * b).sum(-1, keepdim=True)),
    Case(modules.Dot(), (X, draw()), lambda a, b: (a * b).sum(-1, keepdim=True)),
    Case(modules.Scale(-2.5), (X,), lambda a: a * -2.5),
    Case(arithmetic.Subtract(), (X, draw(TIME, 1)), torch.sub),
    Case(arithmetic.Subtract(), (draw(1, WIDTH), X), torch.sub),
    Case(arithmetic.Divide(), (X, draw(BATCH, 1, WIDTH)), torch.div),
    Case(arithmetic.Divide(), (draw(), X), torch.div),
    Case(arithmetic.Power(), (POSITIVE, draw(TIME, 1)), torch.pow),
    Case(arithmetic.Power(), (draw(), np.array([2.0, 3.0, 0.0])), torch.pow),
    Case(arithmetic.Exp(), (X,), torch.exp),
    Case(arithmetic.Log(), (POSITIVE,), torch.log),
    *(
        Case(arithmetic.MatMul(), (draw(*left), draw(*right, seed=1)), torch.matmul)
        for left, right in [
            ((3,), (3,)), ((3,), (3, 2)), ((4, 3), (3,)), ((4, 3), (3, 2)), ((BATCH, 4, 3), (3, 2)),
            ((3,), (BATCH, 3, 2)), ((BATCH, 4, 3), (3,)), ((4, 3), (BATCH, 3, 2)), ((BATCH, 1, 4, 3), (5, 3, 2)),
            ((5, 4, 3), (BATCH, 5, 3, 2)),
        ]
    ),
    *(
        Case(kind(axis, keepdims), (X,), lambda a, by=by, axis=axis, keep=keepdims: by(a, axis, keep))
        for kind, by in [
            (arithmetic.Sum, lambda a, axis, keep: a.sum(axis, keepdim=keep)),
            (arithmetic.Mean, lambda a, axis, keep: a.mean(axis, keepdim=keep)),
            (arithmetic.Max, lambda a, axis, keep: a.amax(() if axis is None else axis, keepdim=keep)),
        ]
        for axis in (None, 0, -1, (0, 2), (-1, 0), (0, 1, 2))
        for keepdims in (False, True)
    ),
    *(
        Case(shapes.Index(key), (X,), lambda a, key=key: a[key])
        for key in [
            0, -1, (slice(None), 2), (..., slice(1, 3)), (1, slice(None, None, 2), 3),
            (None, 0), (slice(None), [1, 1, 4]),
            ([0, 1, 0], [2, 2, 2]), (..., [True, False, True, False]), (slice(None), None, [0, 0]),
        ]
    ),
    Case(shapes.Transpose(), (X,), lambda a: a.permute(2, 1, 0)),
    Case(shapes.Transpose(1, 2, 0), (X,), lambda a: a.permute(1, 2, 0)),
    Case(shapes.Transpose(0, -1, 1), (X,), lambda a: a.permute(0, 2, 1)),
    Case(modules.Concatenate(), (X, draw(BATCH, TIME, 2), X), lambda *parts: torch.cat(parts, -1)),
    Case(modules.Concatenate(1), (X, draw(BATCH, 2, WIDTH)), lambda *parts: torch.cat(parts, 1)),
    Case(modules.Slice(1, 3), (X,), lambda a: a[..., 1:3]),
    Case(modules.Slice(2, 4, 1), (X,), lambda a: a[:, 2:4]),
    Case(modules.Reshape(TIME, -1), (X,), lambda a: a.reshape(TIME, -1)),
    Case(modules.MeanOverTime(), (X,), lambda a: a.cumsum(1) / torch.arange(1, TIME + 1)[:, None]),
    Case(modules.Dropout(0.4, 5), (X,), dropped(modules.Dropout(0.4, 5))),
    Case(modules.Dropout(1.0), (X,), lambda a: 0 * a),
    Case(modules.Sigmoid(), (X,), torch.sigmoid),
    Case(modules.Tanh(), (X,), torch.tanh),
    Case(modules.ReLU(), (X,), torch.relu),
    Case(modules.ReLUSquared(), (X,), lambda a: torch.relu(a).square()),
    Case(modules.SiLU(), (X,), F.silu),
    Case(modules.SwiGLU(), (X,), lambda a: F.silu(a[..., :2]) * a[..., 2:]),
    Case(modules.GELU("exact"), (X,), F.gelu),
    Case(modules.GELU("tanh"), (X,), lambda a: F.gelu(a, approximate="tanh")),
    *(
        Case(module, (draw(),), by)  # of a single number
        for module, by in [
            (arithmetic.Scale(3.0), lambda a: 3 * a), (arithmetic.Exp(), torch.exp), (modules.Sigmoid(), torch.sigmoid),
            (modules.Tanh(), torch.tanh), (modules.ReLU(), torch.relu), (modules.SiLU(), F.silu),
            (modules.ReLUSquared(), lambda a: torch.relu(a) ** 2), (modules.GELU("exact"), F.gelu),
            (modules.GELU(), lambda a: F.gelu(a, approximate="tanh")), (arithmetic.Sum(), torch.sum),
            (arithmetic.Mean(-1), torch.mean), (arithmetic.Max(0, True), torch.amax),
            (shapes.Transpose(), lambda a: 1 * a), (shapes.Reshape(1, 1), lambda a: a.reshape(1, 1)),
            (modules.Dropout(0.0), lambda a: 1 * a),
        ]
    ),
    Case(modules.LayerNorm(), (X, draw(WIDTH)), lambda a, gain: F.layer_norm(a, (WIDTH,), gain)),
    Case(modules.LayerNorm(1e-3), (X, draw(WIDTH), draw(WIDTH, seed=1)),
         lambda a, gain, bias: F.layer_norm(a, (WIDTH,), gain, bias, 1e-3)),
    Case(modules.RMSNorm(), (X,), lambda a: F.rms_norm(a, (WIDTH,), eps=1e-5)),
    Case(modules.RMSNorm(1e-3), (X, draw(WIDTH)), lambda a, gain: F.rms_norm(a, (WIDTH,), gain, 1e-3)),
    Case(losses.Softmax(), (X,), lambda a: a.softmax(-1)),
    Case(losses.Softmax(1), (X,), lambda a: a.softmax(1)),
    Case(losses.LogSoftmax(), (X,), lambda a: a.log_softmax(-1)),
    Case(losses.LogSoftmax(0), (X,), lambda a: a.log_softmax(0)),
    Case(losses.CrossEntropy(), (ONE_HOT, CHANCES), lambda gold, chances: -(gold * chances.log()).sum()),
    Case(losses.SoftmaxCrossEntropy(), (X, TARGETS), cross_entropy),
    Case(losses.SoftmaxCrossEntropy(), (X, PARTLY), cross_entropy),
    Case(attention.Attention(2), (X, draw(BATCH, TIME, WIDTH, seed=1), draw(BATCH, TIME, WIDTH, seed=2)),
         lambda q, k, v: attend(q, k, v, 2, 2, True)),
    Case(attention.Attention(4, 2), (draw(BATCH, 3, 8), draw(BATCH, TIME, 4), draw(BATCH, TIME, 4, seed=1)),
         lambda q, k, v: attend(q, k, v, 4, 2, True)),
    Case(attention.Attention(1, is_causal=False), (X, draw(BATCH, 3, WIDTH), draw(BATCH, 3, WIDTH, seed=1)),
         lambda q, k, v: attend(q, k, v, 1, 1, False)),
    Case(attention.Attention(2, is_causal=False), (*QKV, SEEN), lambda *a: attend(*a[:3], 2, 2, False, a[3])),
    Case(attention.Attention(2, 1, is_causal=False), (QKV[0], QKV[1][..., :2], QKV[2][..., :2], draw(TIME, 3)),
         lambda *a: attend(*a[:3], 2, 1, False, a[3])),
    Case(attention.Attention(4, 2), (draw(BATCH, 3, 8), draw(BATCH, TIME, 4), draw(BATCH, TIME, 4, seed=1),
                                     draw(4, 1, TIME)), lambda *a: attend(*a[:3], 4, 2, True, a[3])),
    Case(attention.Attention(1), QKV, lambda *a: attend(*a, 1, 1, True)),  # the first two queries see no key
    Case(attention.Rotary(4, 100.0, 3), (draw(BATCH, TIME, 8),), turn),
    *(
        Case(*sequence(recurrent.Elman(kind), 1, 1), by_cell(cells.Elman(3, WIDTH, 0.0, kind)))
        for kind in cells.NONLINEARITIES
    ),
    Case(*sequence(recurrent.UGRNN(), 2, 1), by_cell(cells.UGRNN(3, WIDTH))),
    Case(*sequence(recurrent.GRU(), 3, 1, draw(WIDTH)), by_cell(cells.GRU(3, WIDTH))),
    Case(*sequence(recurrent.LSTM(), 4, 2), lstm_by_steps),
]  # fmt: skip


# Nothing in the batch, no time, no width: what comes out is empty or zero, as in torch.
EMPTY = [
    Case(modules.Linear(), (draw(0, WIDTH), draw(6, WIDTH), draw(6)), F.linear),
    Case(modules.Linear(), (draw(3, 0), draw(6, 0), draw(6)), F.linear),
    Case(modules.Embedding(), (words(0), draw(7, WIDTH)), F.embedding),
    Case(modules.Embedding(), (words(BATCH, 0), draw(7, WIDTH)), F.embedding),
    Case(arithmetic.Add(), (draw(0, 3), draw(3)), torch.add),
    Case(arithmetic.Multiply(), (draw(0, 3), draw(1, 3)), torch.mul),
    Case(arithmetic.Divide(), (draw(3, 0), draw(3, 1)), torch.div),
    Case(arithmetic.MatMul(), (draw(2, 0), draw(0, 3)), torch.matmul),
    Case(arithmetic.MatMul(), (draw(0, 2, 3), draw(3, 4)), torch.matmul),
    Case(arithmetic.Sum(0), (draw(0, 3),), lambda a: a.sum(0)),
    Case(arithmetic.Sum(), (draw(0, 3),), torch.sum),
    Case(arithmetic.Mean(1), (draw(0, 3),), lambda a: a.mean(1)),
    Case(arithmetic.Max(1), (draw(0, 3),), lambda a: a.amax(1)),
    Case(shapes.Concatenate(0), (draw(0, 3), draw(2, 3)), lambda *parts: torch.cat(parts, 0)),
    Case(shapes.Index(slice(0, 0)), (X,), lambda a: a[0:0]),
    Case(shapes.Index([]), (X,), lambda a: a[[]]),
    Case(shapes.Transpose(), (draw(0, 3),), lambda a: a.T),
    Case(modules.MeanOverTime(), (draw(0, TIME, WIDTH),), lambda a: a.cumsum(1)),
    Case(modules.GELU("exact"), (draw(0, 3),), F.gelu),
    Case(modules.LayerNorm(), (draw(0, WIDTH), draw(WIDTH), draw(WIDTH)),
         lambda a, gain, bias: F.layer_norm(a, (WIDTH,), gain, bias)),
    Case(modules.RMSNorm(), (draw(0, WIDTH), draw(WIDTH)), lambda a, gain: F.rms_norm(a, (WIDTH,), gain, 1e-5)),
    Case(losses.Softmax(), (draw(0, WIDTH),), lambda a: a.softmax(-1)),
    Case(losses.Softmax(), (draw(3, 0),), lambda a: a.softmax(-1)),
    Case(losses.LogSoftmax(), (draw(0, WIDTH),), lambda a: a.log_softmax(-1)),
    Case(losses.CrossEntropy(), (draw(0, 3), draw(0, 3)), lambda gold, chances: -(gold * chances.log()).sum()),
    Case(losses.SoftmaxCrossEntropy(), (draw(0, WIDTH), words(0)), summed),
    Case(losses.SoftmaxCrossEntropy(), (draw(2, WIDTH), np.full(2, losses.IGNORE)), summed),
    Case(attention.Attention(2), tuple(draw(0, TIME, WIDTH) for _ in range(3)), lambda *a: attend(*a, 2, 2, True)),
    Case(attention.Attention(2), (draw(BATCH, 0, WIDTH), X, X), lambda *a: attend(*a, 2, 2, False)),
    Case(attention.Attention(2), (X, draw(BATCH, 0, WIDTH), draw(BATCH, 0, WIDTH)),
         lambda q, k, v: 0 * q + 0 * k.sum() + 0 * v.sum()),
    Case(attention.Rotary(4, 100.0, 3), (draw(0, TIME, 8),), turn),
    *(
        Case(cell, (draw(batch, time, 3), draw(batch, parts * WIDTH), *arrays[2:]), nothing_read)
        for (cell, arrays), parts in [
            (sequence(recurrent.Elman(), 1, 1), 1), (sequence(recurrent.UGRNN(), 2, 1), 1),
            (sequence(recurrent.GRU(), 3, 1, draw(WIDTH)), 1), (sequence(recurrent.LSTM(), 4, 2), 2),
        ]
        for batch, time in ((0, TIME), (BATCH, 0))
    ),
]  # fmt: skip


def every_module() -> set[type[Module]]:
    """All classes of modules in the package's files, but those that others are made from."""
    found: set[type[Module]] = set()
    for file in pkgutil.iter_modules(tape.__path__, f"{tape.__name__}."):
        for each in vars(importlib.import_module(file.name)).values():
            if isinstance(each, type) and issubclass(each, Module) and each.__module__ == file.name:
                found.add(each)
    return {each for each in found if not any(other is not each and issubclass(other, each) for other in found)}
