"""Dynamic evaluation: a model goes on learning from the text that it scores (Mikolov et al. 2010, Krause et al. 2018).

A segment is scored; then the gradient of its mean loss, clipped by global norm, makes one step: θ ← θ - rate · ∇. So
every token is scored before it is learned from. Afterwards the weights are what they were.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from chainrule.errors import UserError
from chainrule.layers.clip import clip_by_global_norm
from chainrule.models._neural import NeuralModel, entropy, picked
from chainrule.models.contract import State, check_ids
from chainrule.nest import map_arrays

SEGMENT = 20  # tokens between two steps
CLIP = 1.0
ASTRAY = 10.0  # times worse than guessing


def score_and_learn(
    model: NeuralModel, stream: np.ndarray, rate: float, advance: Callable[[int], None] = lambda tokens: None
) -> tuple[np.ndarray, np.ndarray]:
    """log p in nats of every token after the first of a stream, and the entropy of every prediction."""
    check_ids(stream, model.vocabulary_size)
    ids = torch.from_numpy(np.asarray(stream, np.int64)).to(model.device)
    found = torch.empty(2, max(len(ids) - 1, 0))
    context = model.context_length
    segment = SEGMENT if context is None else min(SEGMENT, context)
    state = model.start(1) if context is None else None
    with _weights_put_back(model), torch.enable_grad():
        for begin in range(0, found.shape[1], segment):
            end = min(begin + segment, found.shape[1])
            hidden, state = _read(model, ids, begin, end, state)
            logits = model.output(hidden)
            scores = picked(logits, ids[begin + 1 : end + 1])
            found[0, begin:end], found[1, begin:end] = scores.detach(), entropy(logits.detach())
            _learn(model, -scores.mean(), rate)
            advance(end - begin)
    guessing = math.log(model.vocabulary_size)  # nats a token that any model has which knows nothing
    if not bool(torch.isfinite(found).all()) or float(-found[0].sum()) > ASTRAY * guessing * found.shape[1]:
        raise UserError(f"learning from the text at a rate of {rate:g} went astray; choose a lower --dynamic")
    return found[0].numpy(), found[1].numpy()


def _read(model: NeuralModel, ids: Tensor, begin: int, end: int, state: State | None) -> tuple[Tensor, State | None]:
    """Hidden vectors for ids[begin:end]; a model of limited context reads as much as it can of what is before them."""
    if model.context_length is None:
        hidden, state = model.read(ids[None, begin:end], state)
        return hidden[0], map_arrays(lambda array: array.detach(), state)
    first = max(0, end - model.context_length)
    hidden, _ = model.read(ids[None, first:end], None)
    return hidden[0, begin - first :], None


def _learn(model: NeuralModel, loss: Tensor, rate: float) -> None:
    model.zero_grad()
    loss.backward()
    clip_by_global_norm(model.parameters(), CLIP)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.add_(parameter.grad, alpha=-rate)


@contextmanager
def _weights_put_back(model: NeuralModel) -> Iterator[None]:
    was_training = model.training
    before = [parameter.detach().clone() for parameter in model.parameters()]
    model.eval()
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(model.parameters(), before, strict=True):
                parameter.copy_(value)
        model.zero_grad()
        model.train(was_training)
