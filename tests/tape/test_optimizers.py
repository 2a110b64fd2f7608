"""Optimizers on the tape against torch's, where not every parameter has a gradient at every step."""

import numpy as np
import pytest
import torch

from chainrule.tape.optimizers import SGD, AdamW
from chainrule.tape.tape import Parameter

START = np.array([[1.0, -2.0], [0.5, 3.0]])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (
            lambda each: AdamW(each, 0.1, (0.8, 0.9), decay=0.2),
            lambda each: torch.optim.AdamW(each, 0.1, (0.8, 0.9), weight_decay=0.2),
        ),
        (lambda each: SGD(each, 0.1, momentum=0.9), lambda each: torch.optim.SGD(each, 0.1, momentum=0.9)),
    ],
    ids=["AdamW", "SGD"],
)
def test_a_parameter_that_is_used_now_and_then_steps_as_in_torch(ours, theirs):
    """Adam corrects its bias by the steps that this parameter made, not by all."""
    often, seldom = Parameter(START.copy()), Parameter(START.copy())
    tensors = [torch.tensor(START, requires_grad=True) for _ in range(2)]
    mine, other = ours([often, seldom]), theirs(tensors)
    for step in range(10):
        used = 2 if step % 3 == 2 else 1
        sum((each * each * (step + 1.0)).sum() for each in (often, seldom)[:used]).backward()
        sum((each * each * (step + 1.0)).sum() for each in tensors[:used]).backward()
        mine.step()
        other.step()
        other.zero_grad()
        for each, tensor in zip((often, seldom), tensors, strict=True):
            np.testing.assert_allclose(each.array, tensor.detach(), rtol=1e-12)
