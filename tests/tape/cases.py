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
from chainrule.tape import attention, losses, modules, recurrent
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


def attend(query: Tensor, key: Tensor, value: Tensor, heads: int, fewer: int, is_causal: bool) -> Tensor:
    q, k, v = (
        each.unflatten(-1, (count, -1)).transpose(1, 2)
        for each, count in ((query, heads), (key, fewer), (value, fewer))
    )
    mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
    if is_causal:
        mask = mask.tril(k.shape[2] - q.shape[2])
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


CASES = [
    Case(modules.Linear(), (X, draw(6, WIDTH)), F.linear),
    Case(modules.Linear(), (X, draw(6, WIDTH), draw(6)), F.linear),
    Case(modules.Embedding(), (words(BATCH, TIME), draw(7, WIDTH)), F.embedding),
    Case(modules.Add(), (X, draw(TIME, 1)), torch.add),
    Case(modules.Add(), (X, draw(BATCH, 1, WIDTH)), torch.add),
    Case(modules.Multiply(), (X, draw(WIDTH)), torch.mul),
    Case(modules.Multiply(), (draw(1), X), torch.mul),
    Case(modules.Dot(), (X, draw(TIME, WIDTH)), lambda a, b: (a * b).sum(-1, keepdim=True)),
    Case(modules.Scale(-2.5), (X,), lambda a: a * -2.5),
    Case(modules.Concatenate(), (X, draw(BATCH, TIME, 2), X), lambda *parts: torch.cat(parts, -1)),
    Case(modules.Concatenate(1), (X, draw(BATCH, 2, WIDTH)), lambda *parts: torch.cat(parts, 1)),
    Case(modules.Slice(1, 3), (X,), lambda a: a[..., 1:3]),
    Case(modules.Slice(2, 4, 1), (X,), lambda a: a[:, 2:4]),
    Case(modules.Reshape(TIME, -1), (X,), lambda a: a.reshape(TIME, -1)),
    Case(modules.MeanOverTime(), (X,), lambda a: a.cumsum(1) / torch.arange(1, TIME + 1)[:, None]),
    Case(modules.Dropout(0.4, 5), (X,), dropped(modules.Dropout(0.4, 5))),
    Case(modules.Sigmoid(), (X,), torch.sigmoid),
    Case(modules.Tanh(), (X,), torch.tanh),
    Case(modules.ReLU(), (X,), torch.relu),
    Case(modules.ReLUSquared(), (X,), lambda a: torch.relu(a).square()),
    Case(modules.SiLU(), (X,), F.silu),
    Case(modules.SwiGLU(), (X,), lambda a: F.silu(a[..., :2]) * a[..., 2:]),
    Case(modules.GELU("exact"), (X,), F.gelu),
    Case(modules.GELU("tanh"), (X,), lambda a: F.gelu(a, approximate="tanh")),
    Case(modules.LayerNorm(), (X, draw(WIDTH)), lambda a, gain: F.layer_norm(a, (WIDTH,), gain)),
    Case(modules.LayerNorm(1e-3), (X, draw(WIDTH), draw(WIDTH, seed=1)),
         lambda a, gain, bias: F.layer_norm(a, (WIDTH,), gain, bias, 1e-3)),
    Case(modules.RMSNorm(), (X,), lambda a: F.rms_norm(a, (WIDTH,), eps=1e-5)),
    Case(modules.RMSNorm(1e-3), (X, draw(WIDTH)), lambda a, gain: F.rms_norm(a, (WIDTH,), gain, 1e-3)),
    Case(losses.Softmax(), (X,), lambda a: a.softmax(-1)),
    Case(losses.LogSoftmax(), (X,), lambda a: a.log_softmax(-1)),
    Case(losses.CrossEntropy(), (ONE_HOT, CHANCES), lambda gold, chances: -(gold * chances.log()).sum()),
    Case(losses.SoftmaxCrossEntropy(), (X, TARGETS), cross_entropy),
    Case(losses.SoftmaxCrossEntropy(), (X, PARTLY), cross_entropy),
    Case(attention.Attention(2), (X, draw(BATCH, TIME, WIDTH, seed=1), draw(BATCH, TIME, WIDTH, seed=2)),
         lambda q, k, v: attend(q, k, v, 2, 2, True)),
    Case(attention.Attention(4, 2), (draw(BATCH, 3, 8), draw(BATCH, TIME, 4), draw(BATCH, TIME, 4, seed=1)),
         lambda q, k, v: attend(q, k, v, 4, 2, True)),
    Case(attention.Attention(1, is_causal=False), (X, draw(BATCH, 3, WIDTH), draw(BATCH, 3, WIDTH, seed=1)),
         lambda q, k, v: attend(q, k, v, 1, 1, False)),
    Case(attention.Rotary(4, 100.0, 3), (draw(BATCH, TIME, 8),), turn),
    *(
        Case(*sequence(recurrent.Elman(kind), 1, 1), by_cell(cells.Elman(3, WIDTH, 0.0, kind)))
        for kind in cells.NONLINEARITIES
    ),
    Case(*sequence(recurrent.UGRNN(), 2, 1), by_cell(cells.UGRNN(3, WIDTH))),
    Case(*sequence(recurrent.GRU(), 3, 1, draw(WIDTH)), by_cell(cells.GRU(3, WIDTH))),
    Case(*sequence(recurrent.LSTM(), 4, 2), lstm_by_steps),
]  # fmt: skip


def every_module() -> set[type[Module]]:
    """All classes of modules in the package's files, but those that others are made from."""
    found: set[type[Module]] = set()
    for file in pkgutil.iter_modules(tape.__path__, f"{tape.__name__}."):
        for each in vars(importlib.import_module(file.name)).values():
            if isinstance(each, type) and issubclass(each, Module) and each.__module__ == file.name:
                found.add(each)
    return {each for each in found if not any(other is not each and issubclass(other, each) for other in found)}
