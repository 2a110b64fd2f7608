"""Bytes by formula are those that torch keeps."""

from typing import Any

import pytest
import torch

from chainrule.analysis.plan.memory import training_memory
from chainrule.models.contract import Batch
from chainrule.models.transformer import Config, Model

KINDS: dict[str, dict[str, Any]] = {
    "gpt2": {"norm": "layer", "activation": "gelu-tanh", "positions": "learned", "tied": True, "bias": True},
    "post": {"norm": "layer", "activation": "gelu", "positions": "sinusoidal", "norm_placement": "post"},
    "rotary": {},
    "swiglu": {"activation": "swiglu"},
    "relu": {"activation": "relu"},
    "grouped": {"num_key_value_heads": 2},
    "qk norm": {"qk_norm": True},
    "alibi": {"positions": "alibi"},
    "relative": {"positions": "relative"},
}


def kept_for_backward(model: Model, batch: Batch) -> int:
    """Bytes of all that autograd saves, weights aside."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model.loss(batch)
    assert loss.count
    return sum(storage.nbytes() for storage in kept.values())


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
def test_activations_are_what_autograd_keeps(changes: dict[str, Any]):
    config = Config(**{"width": 64, "num_layers": 4, "num_heads": 4, "context_length": 128, **changes})
    ids = torch.arange(4 * 128).view(4, 128) % 200
    found = kept_for_backward(Model(config, 200, 0).train(), Batch(ids, ids))
    planned = training_memory(1, config, 200, 4)
    assert planned.activations == 4 * planned.activations_per_sequence
    assert found == pytest.approx(planned.activations, rel=0.06)


def test_training_holds_sixteen_bytes_for_every_parameter():
    model = torch.nn.Linear(10, 10)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 10)).sum().backward()
    optimizer.step()
    moments = [state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    memory = training_memory(110)
    assert memory.weights == memory.gradients == sum(p.nbytes for p in model.parameters())
    assert memory.optimizer == sum(moment.nbytes for moment in moments)
    assert memory.total == 16 * 110


def test_the_cache_is_what_the_state_holds():
    config = Config(width=64, num_layers=3, num_heads=4, num_key_value_heads=2, context_length=32)
    model = Model(config, 100, 0)
    with torch.no_grad():
        _, state = model.step(torch.zeros(1, 32, dtype=torch.long), model.start(1))
    held = sum(each.numel() * each.element_size() for each in state["cache"]._tensors)
    memory = training_memory(1, config, 100)
    assert memory.cache_per_context == held
    assert memory.cache_per_token == held // 32
