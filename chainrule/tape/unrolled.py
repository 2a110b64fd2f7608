"""An Elman network and attention unrolled over the words of a text, to show how their computation graphs grow.

An Elman network adds the same few nodes for each word. With attention each word attends to all before it: one node per
pair, so the graph grows with the square of the length.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from chainrule.tape.losses import Softmax, SoftmaxCrossEntropy
from chainrule.tape.modules import Add, Concatenate, Dot, Embedding, Linear, Multiply, Reshape, Scale, Slice
from chainrule.tape.recurrent import Elman
from chainrule.tape.tape import Array, Parameter, Tape, Value

WIDTH, VOCABULARY = 8, 20

Parameters = dict[str, Parameter]


def _draw(seed: int, **shapes: tuple[int, ...]) -> Parameters:
    generator = np.random.default_rng(seed)
    return {name: Parameter(generator.normal(0, 0.3, shape)) for name, shape in shapes.items()}


def elman(tape: Tape, words: Array) -> tuple[Value, Parameters]:
    """The summed loss of a text: h_t = tanh(W_x x_t + W_h h_{t-1} + b), softmax(W_y h_t)."""
    p = _draw(
        0, embedding=(VOCABULARY, WIDTH), W_x=(WIDTH, WIDTH), W_h=(WIDTH, WIDTH), b=(WIDTH,), W_y=(VOCABULARY, WIDTH)
    )
    state, losses = tape.value(np.zeros((1, WIDTH))), []
    for word, wanted in pairwise(words):
        x = Embedding()(tape.value(np.array([[word]])), p["embedding"])
        hidden = Elman()(x, state, p["W_x"], p["W_h"], p["b"])  # (1, 1, width)
        state = Reshape(1, WIDTH)(hidden)
        losses.append(SoftmaxCrossEntropy()(Linear()(state, p["W_y"]), tape.value(np.array([wanted]))))
    return _sum(losses), p


def attention(tape: Tape, words: Array) -> tuple[Value, Parameters]:
    """The summed loss of a text: softmax over q_t · k_s / √d for all s ≤ t, then the mean of v_s by these weights."""
    square = (WIDTH, WIDTH)
    p = _draw(0, embedding=(VOCABULARY, WIDTH), W_q=square, W_k=square, W_v=square, W_y=(VOCABULARY, WIDTH))
    keys, values, losses = [], [], []
    for word, wanted in pairwise(words):
        x = Embedding()(tape.value(np.array([word])), p["embedding"])  # (1, width)
        query = Scale(WIDTH**-0.5)(Linear()(x, p["W_q"]))
        keys.append(Linear()(x, p["W_k"]))
        values.append(Linear()(x, p["W_v"]))
        weights = Softmax()(Concatenate()(*(Dot()(query, key) for key in keys)))
        parts = [Multiply()(Slice(s, s + 1)(weights), value) for s, value in enumerate(values)]
        losses.append(SoftmaxCrossEntropy()(Linear()(_sum(parts), p["W_y"]), tape.value(np.array([wanted]))))
    return _sum(losses), p


def _sum(values: list[Value]) -> Value:
    total = values[0]
    for each in values[1:]:
        total = Add()(total, each)
    return total


UNROLLED: dict[str, Callable[[Tape, Array], tuple[Value, Parameters]]] = {"elman": elman, "attention": attention}


def count_nodes(model: str, length: int) -> int:
    """The number of modules on the tape after reading so many words."""
    tape = Tape()
    UNROLLED[model](tape, np.arange(length + 1) % VOCABULARY)
    return len(tape.nodes)
