"""Where nonsense came from: weights are poisoned one at a time, and the module that has them is named."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from chainrule.errors import Diverged
from chainrule.training import trainer as loop
from chainrule.training.callbacks import CallbackList
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.trainer import Trainer
from chainrule.training.worker_pool import CAN_FORK
from tests.training.trainings import HARD, build, windows


def diverge(model: nn.Module, **changes) -> str:
    recipe = replace(HARD, **changes)
    trainer = Trainer(model, recipe, TrainingContext(windows(recipe), Budget(steps=recipe.steps)), CallbackList(), None)
    with pytest.raises(Diverged) as problem:
        trainer.run()
    assert all(not module._forward_hooks for module in model.modules())
    return str(problem.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("architecture", "parameter", "named"),
    [
        ("transformer", "blocks.1.feedforward.input.weight", "blocks.1.feedforward.input"),
        ("transformer", "blocks.0.attention.query_key_value.weight", "blocks.0.attention.query_key_value"),
        ("transformer", "ngrams.weight", "ngrams"),
        ("lstm", "recurrent.cells.1.input_weight", "recurrent.cells.1"),
        ("gru", "embedding.weight", "embedding"),
        ("mlp", "hidden.weight", "hidden"),
        ("lstm", "output_bias", "the output layer or the loss itself"),
    ],
)
def test_the_innermost_module_with_a_poisoned_weight_is_named(architecture, parameter, named, value):
    model = build(architecture)
    model.get_parameter(parameter).data.view(-1)[:] = value
    message = diverge(model)
    assert f"at step 0 (a batch), first in {named}, so training stopped before" in message


def test_a_poisoned_weight_is_found_in_the_middle_of_a_chain_and_by_the_part_of_another_process():
    if not CAN_FORK:
        pytest.skip("this system cannot fork processes safely")
    model = build("lstm")
    model.get_parameter("recurrent.cells.0.bias").data[3] = float("nan")
    assert "first in recurrent.cells.0," in diverge(model, workers=2)


class Bad(nn.Module):
    """Leaves values as they are, but the slope of √ at 0 is infinite, and 0 · ∞ is not a number."""

    def forward(self, x):
        return x + (x.detach() * 0 + x * 0).sqrt()


def test_a_gradient_that_is_not_finite_is_named_where_it_first_was():
    """Back from the loss: the output of dropout is well, that of `hidden` before it is not."""
    model = build("mlp")
    model.dropout = Bad()
    message = diverge(model)
    assert message.startswith("the gradient's norm is nan at step 0 (a batch), first in the gradient at hidden,")


def test_masks_of_distances_are_no_nonsense():
    """ALiBi's -inf is meant; the weight after it is not."""
    from chainrule.models import transformer

    torch.manual_seed(0)
    model = transformer.Model(replace(transformer.SIZES["tiny"], positions="alibi"), 11, 10)
    model.get_parameter("blocks.1.feedforward.output.weight").data[0, 0] = float("nan")
    assert "first in blocks.1.feedforward.output," in diverge(model)


def test_nothing_is_watched_while_all_is_well(monkeypatch):
    monkeypatch.setattr(loop, "watched", lambda model: pytest.fail("hooks on a healthy path"))
    recipe = replace(HARD, steps=4)
    Trainer(build("transformer"), recipe, TrainingContext(windows(recipe), Budget(steps=4)), CallbackList(), None).run()
