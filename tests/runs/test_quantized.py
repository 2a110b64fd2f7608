"""Which weights eight bits hold, and on how much text their cost is measured."""

from typing import Any

import numpy as np
import pytest
import torch

from chainrule.data.documents import cut
from chainrule.models import gru, lstm, transformer
from chainrule.models._neural import NeuralModel
from chainrule.runs.quantized import MEASURED_BYTES, _some

SHAPE: dict[str, Any] = {"width": 16, "num_layers": 2, "num_heads": 2}
MODELS: dict[str, tuple[NeuralModel, set[str]]] = {
    "tied and capped": (transformer.Model(transformer.Config(**SHAPE, tied=True, logit_cap=15.0), 31, 0), set()),
    "capped": (transformer.Model(transformer.Config(**SHAPE, logit_cap=15.0), 31, 0), {"embedding.weight"}),
    "gru": (gru.Model(gru.Config(width=16), 31, 0), {"recurrent"}),
    "lstm": (lstm.Model(lstm.Config(width=16, tied=False), 31, 0), {"recurrent", "embedding.weight"}),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_share_tells_of_every_matrix_that_became_eight_bits(name: str):
    model, kept = MODELS[name]
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    share, rounded = model.round_to_int8(), 0
    for name, weight in model.named_parameters():
        if weight.dim() == 1 or any(name.startswith(each) for each in kept):
            assert torch.equal(weight, before[name]) and not hasattr(weight, "int8")
        else:
            torch.testing.assert_close(weight.detach(), weight.int8.to_float())
            rounded += weight.numel()
    assert share == rounded / model.num_parameters


@pytest.mark.parametrize("letter", ["a", "é", "語", "🐄"])
def test_of_a_long_document_only_the_beginning_is_measured(letter: str):
    text = ("x" + letter * 100_000).encode()
    some = _some(cut(np.frombuffer(text, np.uint8), "file", "-"))
    assert MEASURED_BYTES - 4 < len(some.text(0).encode()) <= MEASURED_BYTES
    assert some.text(0) == "x" + letter * (len(some.text(0)) - 1)


def test_of_short_documents_whole_ones_are_measured():
    lines = [f"{i}: " + "moo " * (i % 50) for i in range(500)]
    some = _some(cut(np.frombuffer("\n".join(lines).encode(), np.uint8), "line", "-"))
    assert [some.text(i) for i in range(len(some))] == lines[: len(some)]
    assert MEASURED_BYTES - 300 < some.sizes.sum() <= MEASURED_BYTES
