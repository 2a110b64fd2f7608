"""Decoding a few new tokens through all blocks of a Transformer, with a key-value cache, in one compiled call.

The result is that of Block.forward, which calls some sixty operations for each block: with one token, the calls take
longer than the operations. Several threads share every matrix product and the heads of attention, and wait for each
other after each; whatever is small, every thread computes for itself.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.kernels.atomic import BARRIER, BETWEEN, EIGHTH, array_at, claim, claim_some, wait_for_all
from chainrule.kernels.changes import CHANGES
from chainrule.kernels.jit import inlined, kernel, kernel_of_sums
from chainrule.kernels.matvec import FEW, multiply_part, rows_of_piece, share
from chainrule.kernels.thread_pool import THREAD_POOL
from chainrule.layers._choices import ACTIVATIONS
from chainrule.layers.block import Block
from chainrule.layers.cache import KeyValues
from chainrule.layers.linear import NOTHING, are_for_kernels, as_array, as_arrays
from chainrule.layers.lora import lora_parameters
from chainrule.layers.norm import RMSNorm

RELU, SILU, GELU, GELU_TANH, RELU_SQUARED, SWIGLU = range(6)
NO_ROTATION = np.zeros((0, 0), np.float32)
SHARED = 5  # pieces of work that threads share in a block: attention's products and heads, the feed-forward's products

# Columns of the table that tells the kernel the addresses of a block's arrays.
QUERY_KEY_VALUE, ATTENTION_OUTPUT, INPUT, OUTPUT = 0, 3, 6, 9  # each: weights, scales, bias
ATTENTION_NORM, FEEDFORWARD_NORM, QUERY_NORM, KEY_NORM = 12, 14, 16, 17  # the first two: gain, shift
KEYS, VALUES = 18, 19
COLUMNS = 20

Array = np.ndarray
Shape4 = tuple[int, int, int, int]  # rows, heads, places, head_width
Layout = tuple[int, int, int, bool, bool, bool]  # heads, hidden width, activation, RMSNorm?, pre-norm?, parallel?


class BlockSteps:
    """The addresses and sizes of some blocks of the same shape, as the kernel needs them; parameters are not copied."""

    def __init__(self, blocks: nn.ModuleList, norm: nn.Module):
        """`norm` follows the last block; it is an nn.Identity where there is none."""
        self._changes = CHANGES.count
        self._parameters = [*blocks.parameters(), *norm.parameters()]
        self._places = list(map(Tensor.data_ptr, self._parameters))
        self.can_read = _are_alike(blocks) and all(map(_is_plain, self._parameters)) and not lora_parameters(blocks)
        if not self.can_read:
            return
        self._arrays = [_arrays(block) for block in blocks]  # type: ignore[arg-type]  # kept, so that the addresses stay good
        addresses = [[_address(each) for each in arrays] for arrays in self._arrays]
        self._table = np.array(addresses, np.int64)
        self._example = self._arrays[0][0][:0, 0]  # tells float32 from int8
        self._last = [as_array(getattr(norm, "weight", None)), as_array(getattr(norm, "bias", None))]
        self._last_norm = np.array([_address(each) for each in self._last], np.int64)
        block: Block = blocks[0]  # type: ignore[assignment]
        attention, first = block.attention, block.attention_norm
        is_rms = isinstance(first, RMSNorm)
        self._epsilon = np.float32(first.epsilon if is_rms else first.eps)  # type: ignore[arg-type]
        self._hidden = block.feedforward.input.out_features, block.feedforward.output.in_features
        self._layout = (
            attention.num_heads,
            self._hidden[1],
            ACTIVATIONS.index(block.feedforward.activation),
            is_rms,
            block.is_pre,
            block.is_parallel,
        )

    @property
    def is_current(self) -> bool:
        """Whether the parameters are still the same ones, at the same addresses."""
        return self._changes == CHANGES.count and list(map(Tensor.data_ptr, self._parameters)) == self._places

    def read(self, x: Tensor, rotation: tuple[Tensor, Tensor] | None, cache: KeyValues) -> Tensor:
        """x (batch, time, width) after all blocks and the last norm.

        Its keys and values are written into the cache, which must have been extended by `time` tokens.
        """
        batch, time, width = x.shape
        count = batch * time
        angles = (NO_ROTATION, NO_ROTATION)
        if rotation is not None:
            angles = tuple(each.expand(batch, -1, -1).reshape(count, -1).numpy() for each in rotation)  # type: ignore[assignment]
        rows = np.arange(batch).repeat(time)
        places = (cache.lengths[:, None] - time + np.arange(time)).reshape(-1)
        addresses, shape = cache.buffer_addresses
        table = self._table.copy()  # its own: others may be reading with the same blocks
        table[:, KEYS:] = np.reshape(addresses, (2, -1)).T
        widest = max(*self._hidden, width, (self._layout[0] + 2 * shape[1]) * shape[3])
        shared = np.empty((3, count, widest), np.float32)
        counters = np.zeros((len(table) * SHARED + BARRIER) * BETWEEN, np.int64)
        result = x.new_empty(count, width)
        THREAD_POOL.run(
            (self._places[0], count), _read, x.reshape(count, width).numpy(), result.numpy(), *angles, rows, places,
            table, self._last_norm, self._example, shape, self._layout, self._epsilon, shared, counters,
        )  # fmt: skip
        return result.view(batch, time, width)


def is_for_kernels(x: Tensor, blocks: nn.ModuleList) -> bool:
    """Whether `BlockSteps` can compute x (batch, time, width): few tokens, no gradients, float32 on the CPU."""
    weight = blocks[0].attention.output.weight  # type: ignore[union-attr]
    return 0 < len(x) * x.shape[1] <= FEW and not blocks.training and are_for_kernels(x, weight)  # type: ignore[arg-type]


def _are_alike(blocks: nn.ModuleList) -> bool:
    """Whether all blocks have the same shapes, and all matrices the same number format (float32 or int8)."""
    shapes = {tuple(each.shape for each in block.parameters()) for block in blocks}
    bits = {hasattr(each, "int8") for each in blocks.parameters() if each.dim() == 2}
    return len(shapes) == len(bits) == 1


def _is_plain(weight: Tensor) -> bool:
    return weight.dtype == torch.float32 and weight.device.type == "cpu" and weight.is_contiguous()


def _arrays(block: Block) -> list[np.ndarray]:
    """The arrays of a block in the order of the table's columns."""
    attention, feedforward = block.attention, block.feedforward
    found = []
    for product in (attention.query_key_value, attention.output, feedforward.input, feedforward.output):
        found += [*as_arrays(product.weight), as_array(product.bias)]
    for norm in (block.attention_norm, block.feedforward_norm):
        found += [as_array(norm.weight), as_array(getattr(norm, "bias", None))]  # type: ignore[arg-type]
    heads = (attention.query_norm, attention.key_norm) if attention.is_normalised else ()
    return found + [as_array(norm.weight) for norm in heads] + [NOTHING] * (2 - len(heads)) + [NOTHING, NOTHING]


def _address(array: np.ndarray) -> int:
    return array.ctypes.data if array.size else 0


@inlined
def _vector(address: int, size: int) -> np.ndarray:
    """The vector at an address; an empty one where the address is 0, since the block has no such parameter."""
    return array_at(address, NOTHING, (size if address else 0,))


@kernel
def _share_product(
    block: Array,
    column: int,
    example: Array,
    x: Array,
    results: Array,
    counters: Array,
    which: int,
) -> None:
    """One thread's share of W x + b, W being the block's matrix in this column of the table."""
    outputs, width = results.shape[1], x.shape[1]
    weight = array_at(block[column], example, (outputs, width))
    share(weight, _vector(block[column + 1], outputs), x, _vector(block[column + 2], outputs), results, counters, which)


@kernel
def _read(
    x: Array, result: Array, cosine: Array, sine: Array, rows: Array, places: Array, table: Array, last: Array,
    example: Array, shape: Shape4, layout: Layout, epsilon: np.float32, shared: Array, counters: Array,
    thread: int, threads: int,
) -> None:  # fmt: skip
    num_heads, inner, activation, is_rms, is_pre, is_parallel = layout
    count, width = x.shape
    stacked_width = (num_heads + 2 * shape[1]) * shape[3]
    stacked = _some(shared[0], count, stacked_width)
    mixed = _some(shared[1], count, num_heads * shape[3])
    hidden = _some(shared[0], count, inner)
    attended = _some(shared[2], count, width)
    fed = _some(shared[1], count, width)
    x = x.copy()
    normed = np.empty_like(x)
    met = len(table) * SHARED
    for layer in range(len(table)):
        block, first = table[layer], layer * SHARED
        if is_pre:
            _normalise(x, block, ATTENTION_NORM, epsilon, is_rms, normed)
        else:
            normed[:] = x
        _share_product(block, QUERY_KEY_VALUE, example, normed, stacked, counters, first)
        wait_for_all(counters, met, threads)
        _share_heads(stacked, cosine, sine, rows, places, block, shape, num_heads, epsilon, mixed, counters, first + 1)
        wait_for_all(counters, met, threads)
        _share_product(block, ATTENTION_OUTPUT, example, mixed, attended, counters, first + 2)
        if is_parallel:
            _normalise(x, block, FEEDFORWARD_NORM, epsilon, is_rms, normed)
        wait_for_all(counters, met, threads)
        _add(x, attended)
        if is_pre and not is_parallel:
            _normalise(x, block, FEEDFORWARD_NORM, epsilon, is_rms, normed)
        elif not is_pre:
            _normalise(x, block, ATTENTION_NORM, epsilon, is_rms, normed)
            x[:] = normed
        _share_input(block, example, normed, hidden, activation, counters, first + 3)
        wait_for_all(counters, met, threads)
        _share_product(block, OUTPUT, example, hidden, fed, counters, first + 4)
        wait_for_all(counters, met, threads)
        _add(x, fed)
        if not is_pre:
            _normalise(x, block, FEEDFORWARD_NORM, epsilon, is_rms, normed)
            x[:] = normed
    if last[0]:
        _normalise(x, last, 0, epsilon, is_rms, normed)
        x[:] = normed
    if thread == 0:
        result[:] = x
    wait_for_all(counters, met, threads)


@inlined
def _some(buffer: Array, count: int, width: int) -> Array:
    """The start of a buffer as an array (count, width)."""
    return buffer.reshape(-1)[: count * width].reshape(count, width)


@kernel
def _share_heads(
    stacked: Array, cosine: Array, sine: Array, rows: Array, places: Array, block: Array, shape: Shape4, num_heads: int,
    epsilon: np.float32, mixed: Array, counters: Array, which: int,
) -> None:  # fmt: skip
    """One thread's share of attention: for each head of keys and values, norm and rotate its keys and queries, store
    keys and values in the cache, attend."""
    groups, head_width = shape[1], shape[3]
    shared_by = num_heads // groups
    keys = array_at(block[KEYS], NOTHING, shape)
    values = array_at(block[VALUES], NOTHING, shape)
    query_gain, key_gain = _vector(block[QUERY_NORM], head_width), _vector(block[KEY_NORM], head_width)
    vectors = stacked.reshape(len(stacked), num_heads + 2 * groups, head_width)
    results = mixed.reshape(len(stacked), num_heads, head_width)
    group = claim(counters, which, groups)
    while group < groups:
        for token in range(len(stacked)):
            for head in range(group * shared_by, (group + 1) * shared_by):
                _prepare(vectors[token, head], query_gain, epsilon, cosine, sine, token)
            key = vectors[token, num_heads + group]
            _prepare(key, key_gain, epsilon, cosine, sine, token)
            keys[rows[token], group, places[token]] = key
            values[rows[token], group, places[token]] = vectors[token, num_heads + groups + group]
        for token in range(len(stacked)):
            key, value = keys[rows[token], group], values[rows[token], group]
            for head in range(group * shared_by, (group + 1) * shared_by):
                _attend(vectors[token, head], key, value, places[token] + 1, results[token, head])
        group = claim(counters, which, groups)


@kernel_of_sums
def _attend(query: Array, key: Array, value: Array, count: int, result: Array) -> None:
    """result = softmax(q·k/√d) v over the first `count` keys: key and value (places, head_width)."""
    width = len(query)
    scale = np.float32(1 / math.sqrt(width))
    weights = np.empty(count, np.float32)
    top = np.float32(-np.inf)
    for place in range(count):
        score = np.float32(0)
        for i in range(width):
            score += query[i] * key[place, i]
        weights[place] = score * scale
        top = max(top, weights[place])
    total = np.float32(0)
    for place in range(count):
        weights[place] = np.exp(weights[place] - top)
        total += weights[place]
    result[:] = 0
    for place in range(count):
        weight = weights[place] / total
        for i in range(width):
            result[i] += weight * value[place, i]


@kernel
def _share_input(
    block: Array,
    example: Array,
    x: Array,
    hidden: Array,
    activation: int,
    counters: Array,
    which: int,
) -> None:
    """One thread's share of hidden = f(W₁ x), or of silu(W₁ x) ⊙ W₃ x (SwiGLU), whose matrices are one, W₃ below W₁."""
    count, width = x.shape
    inner = hidden.shape[1]
    outputs = 2 * inner if activation == SWIGLU else inner
    weight = array_at(block[INPUT], example, (outputs, width))
    scales, bias = _vector(block[INPUT + 1], outputs), _vector(block[INPUT + 2], outputs)
    size = rows_of_piece(width)
    pieces = (inner + size - 1) // size
    most = size * max(pieces // EIGHTH, 1)
    gates, others = np.empty((count, most), np.float32), np.empty((count, most), np.float32)
    first, last = claim_some(counters, which, pieces)
    while first < pieces:
        begin = first * size
        end = min(last * size, inner)
        multiply_part(weight[begin:end], scales[begin:end], x, bias[begin:end], gates, 0, end - begin)
        if activation == SWIGLU:
            low, high = inner + begin, inner + end
            multiply_part(weight[low:high], scales[low:high], x, bias[low:high], others, 0, end - begin)
        for token in range(count):
            _activate(gates[token], others[token], activation, hidden[token, begin:end])
        first, last = claim_some(counters, which, pieces)


@kernel_of_sums
def _activate(x: Array, other: Array, activation: int, results: Array) -> None:
    if activation == SWIGLU:
        for i in range(len(results)):
            results[i] = x[i] / (1 + np.exp(-x[i])) * other[i]
    elif activation == SILU:
        for i in range(len(results)):
            results[i] = x[i] / (1 + np.exp(-x[i]))
    elif activation == GELU:
        for i in range(len(results)):
            results[i] = np.float32(0.5) * x[i] * (1 + math.erf(x[i] * np.float32(math.sqrt(0.5))))
    elif activation == GELU_TANH:
        for i in range(len(results)):
            inner = np.float32(math.sqrt(2 / math.pi)) * (x[i] + np.float32(0.044715) * x[i] * x[i] * x[i])
            results[i] = x[i] - x[i] / (1 + np.exp(2 * inner))
    else:
        for i in range(len(results)):
            kept = max(x[i], np.float32(0))
            results[i] = kept * kept if activation == RELU_SQUARED else kept


@kernel_of_sums
def _normalise(x: Array, block: Array, column: int, epsilon: np.float32, is_rms: bool, results: Array) -> None:
    width = x.shape[1]
    gain, shift = _vector(block[column], width), _vector(block[column + 1], width)
    for row in range(len(x)):
        mean = np.float32(0)
        if not is_rms:
            for i in range(width):
                mean += x[row, i]
            mean /= np.float32(width)
        square = np.float32(0)
        for i in range(width):
            square += (x[row, i] - mean) * (x[row, i] - mean)
        scale = np.float32(1) / np.sqrt(square / np.float32(width) + epsilon)
        for i in range(width):
            results[row, i] = (x[row, i] - mean) * scale * gain[i]
        for i in range(len(shift)):
            results[row, i] += shift[i]


@kernel_of_sums
def _prepare(x: Array, gain: Array, epsilon: np.float32, cosine: Array, sine: Array, token: int) -> None:
    """Norm and rotate a query or key in place: norm it where there is a gain, rotate it where there are angles."""
    if len(gain):
        square = np.float32(0)
        for i in range(len(x)):
            square += x[i] * x[i]
        scale = np.float32(1) / np.sqrt(square / np.float32(len(x)) + epsilon)
        for i in range(len(x)):
            x[i] *= scale * gain[i]
    half = cosine.shape[1] // 2
    for i in range(half):
        low, high = x[i], x[half + i]
        x[i] = low * cosine[token, i] - high * sine[token, i]
        x[half + i] = high * cosine[token, half + i] + low * sine[token, half + i]


@kernel
def _add(x: Array, added: Array) -> None:
    for row in range(len(x)):
        for i in range(x.shape[1]):
            x[row, i] += added[row, i]
