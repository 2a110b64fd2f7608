"""The inputs with which torch tests its own operators, given to ours: values and all gradients are torch's.

Samples that ask for what an operation here does not have (other layouts, weights of classes, ...) are left out by name,
and every operation must be left with some.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from chainrule.tape.attention import Attention
from chainrule.tape.losses import IGNORE, LogSoftmax, Softmax, SoftmaxCrossEntropy
from chainrule.tape.modules import GELU, Embedding, LayerNorm, Linear, ReLU, RMSNorm, Sigmoid, SiLU, Tanh
from chainrule.tape.shapes import Concatenate
from chainrule.tape.tape import Parameter, Value

pytest.importorskip("expecttest")  # which the module of samples asks for


class LeftOut(Exception):
    """What a sample asks for is not an operation of the tape."""


def require(condition: bool) -> None:
    if not condition:
        raise LeftOut


def axes(dim: Any) -> Any:
    """All of them are None here; torch also has an empty list for them."""
    return tuple(dim) or None if isinstance(dim, (list, tuple)) else dim


def softmax_of(module: type) -> Callable[..., Value]:
    def apply(a: Value, dim: int, dtype: Any = None) -> Value:
        require(dtype in (None, torch.float64) and a.array.ndim > 0)
        return module(dim)(a)

    return apply


def gelu(a: Value, *, approximate: str = "none") -> Value:
    return GELU("tanh" if approximate == "tanh" else "exact")(a)


def layer_norm(a: Value, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Value:
    require(len(shape) == 1 and weight is not None)
    return LayerNorm(eps)(a, weight, *([] if bias is None else [bias]))


def rms_norm(a: Value, shape: Any, weight: Any = None, eps: float | None = None) -> Value:
    require(len(shape) == 1)
    return RMSNorm(np.finfo(np.float64).eps if eps is None else eps)(a, *([] if weight is None else [weight]))


def embedding(table: Value, words: np.ndarray, **settings: Any) -> Value:
    require(not any(settings.get(name) for name in ("max_norm", "scale_grad_by_freq", "sparse")))
    require(settings.get("padding_idx") is None)
    return Embedding()(words, table)


def cross_entropy(logits: Value, targets: Any, **settings: Any) -> Value:
    require(settings.get("weight") is None and not settings.get("label_smoothing"))
    require(settings.get("reduction", "mean") == "mean" and logits.array.ndim == 2)
    require(not isinstance(targets, Value) and targets.dtype.kind == "i")  # ids, not probabilities
    ignored = targets == settings.get("ignore_index", -100)
    require(not ignored.all())
    return SoftmaxCrossEntropy()(logits, np.where(ignored, IGNORE, targets))


def attention(query: Value, key: Value, value: Value, attn_mask: Any = None, **settings: Any) -> Value:
    """torch's dimensions are (batch, heads, time, width), or one head; ours has the heads side by side."""
    require(query.array.ndim == key.array.ndim and not settings.get("dropout_p") and settings.get("scale") is None)
    if query.array.ndim == 3:
        (batch, time, _), heads = query.shape, 1
    else:
        batch, heads, time, _ = query.shape
    beside = [
        each if each.array.ndim == 3 else each.transpose(0, 2, 1, 3).reshape(batch, each.shape[2], -1)
        for each in (query, key, value)
    ]
    if settings.get("is_causal"):  # torch lets the first query see the first key, ours the last the last
        attn_mask = np.tri(time, key.shape[-2], dtype=bool)
    found = Attention(heads, is_causal=False)(*beside, *([] if attn_mask is None else [attn_mask]))
    return found if query.array.ndim == 3 else found.reshape(batch, time, heads, -1).transpose(0, 2, 1, 3)


def index(a: Value, key: Any) -> Value:
    return a[np.array(key) if isinstance(key, list) and all(type(each) is int for each in key) else key]


def reshape(a: Value, shape: Any) -> Value:
    return a.reshape(*shape)


def concatenate(parts: Any, dim: int = 0) -> Value:
    require(all(part.array.ndim == parts[0].array.ndim for part in parts))
    return Concatenate(dim)(*parts)


def transpose(a: Value, first: int, second: int) -> Value:
    order = list(range(a.array.ndim))
    require(bool(order))
    order[first], order[second] = order[second], order[first]
    return a.transpose(*order)


OURS: dict[str, Callable[..., Value]] = {
    "add": lambda a, b, alpha=1: a + b * alpha,
    "sub": lambda a, b, alpha=1: a - b * alpha,
    "mul": lambda a, b: a * b,
    "div": lambda a, b, rounding_mode=None: require(rounding_mode is None) or a / b,
    "pow": lambda a, b: a**b,
    "__radd__": lambda a, b: b + a,
    "__rsub__": lambda a, b: b - a,
    "__rmul__": lambda a, b: b * a,
    "__rdiv__": lambda a, b: b / a,
    "__rpow__": lambda a, b: b**a,
    "neg": lambda a: -a,
    "exp": lambda a: a.exp(),
    "log": lambda a: a.log(),
    "matmul": lambda a, b: a @ b,
    "sum": lambda a, dim=None, keepdim=False: a.sum(axes(dim), keepdim),
    "mean": lambda a, dim=None, keepdim=False: a.mean(axes(dim), keepdim),
    "amax": lambda a, dim=None, keepdim=False: a.max(axes(dim), keepdim),
    "amin": lambda a, dim=None, keepdim=False: a.min(axes(dim), keepdim),
    "__getitem__": index,
    "reshape": reshape,
    "transpose": transpose,
    "permute": lambda a, dims: a.transpose(*dims),
    "cat": concatenate,
    "sigmoid": lambda a: Sigmoid()(a),
    "tanh": lambda a: Tanh()(a),
    "nn.functional.relu": lambda a, inplace=False: ReLU()(a),
    "nn.functional.silu": lambda a: SiLU()(a),
    "nn.functional.gelu": gelu,
    "softmax": softmax_of(Softmax),
    "log_softmax": softmax_of(LogSoftmax),
    "nn.functional.linear": lambda a, weight, bias=None: Linear()(a, weight, *([] if bias is None else [bias])),
    "nn.functional.embedding": embedding,
    "nn.functional.layer_norm": layer_norm,
    "nn.functional.rms_norm": rms_norm,
    "nn.functional.cross_entropy": cross_entropy,
    "nn.functional.scaled_dot_product_attention": attention,
}


@cache
def operators() -> dict[str, list[Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    found: dict[str, list[Any]] = {}
    for each in op_db:
        found.setdefault(each.name, []).append(each)
    return found


def samples(name: str) -> Iterator[tuple[Callable[..., Any], Any]]:
    for operator in operators()[name]:
        if torch.float64 in operator.dtypes and not operator.variant_test_name.startswith("with_dtype"):
            for sample in operator.sample_inputs("cpu", torch.float64, requires_grad=True):
                yield operator.op, sample


def to_ours(given: Any, leaves: list[tuple[Any, Any]]) -> Any:
    """The same for the tape: tensors that have gradients are parameters, which are listed beside their tensors."""
    if isinstance(given, torch.Tensor):
        array = given.detach().numpy().copy()
        if not given.requires_grad:
            return array
        leaves.append((Parameter(array), given))
        return leaves[-1][0]
    if isinstance(given, (list, tuple)):
        return type(given)([to_ours(each, leaves) for each in given])
    return {key: to_ours(each, leaves) for key, each in given.items()} if isinstance(given, dict) else given


@pytest.mark.parametrize("name", OURS)
def test_an_operation_agrees_with_torch_on_its_own_samples(name: str) -> None:
    compared = 0
    for of_torch, sample in samples(name):
        leaves: list[tuple[Any, Any]] = []
        first, rest, settings = (to_ours(each, leaves) for each in (sample.input, sample.args, sample.kwargs))
        try:
            with np.errstate(invalid="ignore", divide="ignore"):  # torch does not warn of them either
                ours = OURS[name](first, *rest, **settings)
        except LeftOut:
            continue
        theirs = of_torch(sample.input, *sample.args, **sample.kwargs)
        said = sample.summary() if hasattr(sample, "summary") else repr(sample)
        assert ours.shape == theirs.shape, said
        np.testing.assert_allclose(ours.array, theirs.detach().numpy(), rtol=1e-9, atol=1e-9, err_msg=said)
        if theirs.requires_grad:
            weights = np.random.default_rng(0).normal(size=ours.shape)
            with np.errstate(invalid="ignore", divide="ignore"):
                ours.backward(weights)
            gradients = torch.autograd.grad(
                theirs, [tensor for _, tensor in leaves], torch.tensor(weights), allow_unused=True
            )
            for (parameter, tensor), expected in zip(leaves, gradients, strict=True):
                wanted = np.zeros(tensor.shape) if expected is None else expected.numpy()
                found = np.zeros(tensor.shape) if parameter.gradient is None else parameter.gradient
                np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-9, err_msg=said)
        compared += 1
    assert compared, f"no sample of {name} could be compared"
