"""ONNX: onnxruntime computes what the model does, in any number of rows and steps, states handed on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chainrule import registry
from chainrule.errors import UserError
from chainrule.interop.onnx.write import FILE, write_onnx
from chainrule.models import ngram
from tests.interop.models import bpe, random_model

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
RECURRENT: list[tuple[str, dict[str, Any]]] = [
    ("elman", {}),
    ("elman", {"nonlinearity": "relu"}),
    ("elman", {"nonlinearity": "logistic", "tied": False, "embedding_width": 16}),
    ("ugrnn", {"input_scale": 2.0}),
    ("gru", {"residual": True, "num_layers": 3}),
    ("lstm", {"tied": False, "embedding_width": 16}),
]
WHOLE: list[tuple[str, dict[str, Any]]] = [
    ("transformer", {}),
    ("transformer", {"positions": "learned", "norm": "layer", "bias": True, "ngram_order": 0, "parallel": True}),
    ("transformer", {"positions": "alibi", "logit_cap": 4.0}),
    ("attention", {}),
    ("mlp", {}),
    ("bow", {}),
]


def exported(name: str, changes: dict[str, Any], folder: Path) -> tuple[Any, Any]:
    module = registry.find("chainrule.models", name, "model")
    tokenizer = bpe()
    model = module.Model(replace(module.SIZES["tiny"], **changes), tokenizer.vocabulary_size, tokenizer.eos)
    write_onnx(random_model(model), tokenizer, folder)
    return model, onnxruntime.InferenceSession(folder / FILE)


@pytest.mark.parametrize(("name", "changes"), RECURRENT)
@torch.no_grad()
def test_a_recurrent_model_is_a_step_from_state_to_state(name: str, changes: dict[str, Any], tmp_path: Path):
    model, session = exported(name, changes, tmp_path)
    words = torch.randint(model.vocabulary_size, (3, 12), generator=torch.Generator().manual_seed(1))
    state = model.start(3)
    names = [each.name for each in session.get_inputs()[1:]]
    fed = {each: part.numpy() for each, part in zip(names, (p for cell in state for p in cell), strict=True)}
    for piece in words.split([5, 1, 6], 1):
        expected, state = model.step(piece, state)
        logits, *after = session.run(None, {"tokens": piece.numpy(), **fed})
        fed = dict(zip(names, after, strict=True))
        np.testing.assert_allclose(logits, expected.numpy(), atol=1e-4)
        for part, found in zip((p for cell in state for p in cell), after, strict=True):
            np.testing.assert_allclose(found, part.numpy(), atol=1e-4)


@pytest.mark.parametrize(("name", "changes"), WHOLE)
@torch.no_grad()
def test_others_read_a_whole_text(name: str, changes: dict[str, Any], tmp_path: Path):
    model, session = exported(name, changes, tmp_path)
    for rows, time in ((1, 1), (3, 8), (2, 31)):
        words = torch.randint(model.vocabulary_size, (rows, time), generator=torch.Generator().manual_seed(time))
        expected, _ = model.step(words, model.start(rows))
        np.testing.assert_allclose(session.run(None, {"tokens": words.numpy()})[0], expected.numpy(), atol=1e-4)


def test_models_that_count_are_told_where_they_can_go(tmp_path: Path):
    with pytest.raises(UserError, match="n-grams are exported as arpa"):
        write_onnx(ngram.Model(ngram.Config(), 10, 9), bpe(), tmp_path)
