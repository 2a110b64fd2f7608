"""The computation graph of a small model on our own tape, with every value and, after a walk back, every gradient."""

from typing import Any

import numpy as np

from chainrule import registry
from chainrule.errors import UserError, did_you_mean
from chainrule.tape.graph import Node, graph
from chainrule.tape.models import MODELS, Model
from chainrule.tape.tape import Tape
from chainrule.tape.unrolled import UNROLLED, VOCABULARY

GRAPHS = (*UNROLLED, *(name for name in MODELS if name not in UNROLLED))


def computation(model: str, length: int) -> list[Node]:
    """The graph of the loss of a text of `length` words: word by word for models of UNROLLED, else as in training."""
    tape = Tape()
    words = np.arange(length + 1) % VOCABULARY
    if model in UNROLLED:
        end, parameters = UNROLLED[model](tape, words)
    elif model in MODELS:
        twin = _tiny(model, VOCABULARY)
        end, _ = twin.loss(tape, words[None, :-1], words[None, 1:])
        parameters = twin.parameters
    else:
        raise UserError(f"there is no graph of '{model}'{did_you_mean(model, GRAPHS)} (there are: {', '.join(GRAPHS)})")
    tape.backward(end, keep=True)
    return graph(tape, parameters)


def _tiny(model: str, vocabulary_size: int) -> Model[Any, Any]:
    """The model on our tape in its tiny size, with the weights that torch starts from; the same every time."""
    import torch

    module = registry.find("chainrule.models", model, "model")
    config = module.SIZES["gpt2-tiny" if model == "transformer" else "tiny"]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        theirs = module.Model(config, vocabulary_size, 0)
    return MODELS[model](config, {name: each.detach().numpy() for name, each in theirs.named_parameters()})
