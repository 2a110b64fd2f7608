"""FLOPs by formula are those that torch counts while a model runs."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from chainrule.analysis.plan.compute import PETAFLOP_DAY, attention_flops, training_compute
from chainrule.analysis.plan.parameters import count_parameters
from chainrule.models.transformer import Config, Model


@pytest.mark.parametrize("key_value_heads", [4, 2])
def test_forward_flops_are_those_that_torch_counts(key_value_heads: int):
    time = 32
    config = Config(width=64, num_layers=3, num_heads=4, num_key_value_heads=key_value_heads, context_length=time)
    model = Model(config, 100, 0)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model.step(torch.zeros(1, time, dtype=torch.long), model.start(1))
    found = {str(name): flops for name, flops in counter.get_flop_counts()["Global"].items()}
    parameters = count_parameters(config, 100)
    weights = parameters.multiplied - parameters.parts["norms"]  # norms scale but do not multiply matrices
    assert found["aten.mm"] == 2 * weights * time
    masked = 2 * time / (time + 1)  # torch computes what the causal mask then hides
    assert found["aten.bmm"] == pytest.approx(attention_flops(config) * time * masked)


def test_training_costs_three_times_the_forward_pass():
    compute = training_compute(10**9, 20 * 10**9)
    assert compute.forward_flops_per_token == 2e9
    assert compute.training_flops_per_token == 6e9
    assert compute.training_flops == compute.training_flops_with_attention == 1.2e20
    assert compute.petaflop_days == pytest.approx(1.2e20 / 8.64e19)
    assert PETAFLOP_DAY == 8.64e19
