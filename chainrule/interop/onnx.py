"""ONNX: a graph that onnxruntime runs anywhere. A recurrent model is a step, others read a whole text.

recurrent: tokens (batch, time), the state -> logits (batch, time, vocabulary), the new state
others:    tokens (batch, time) -> logits (batch, time, vocabulary), time at most the context
"""

import importlib.util
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from chainrule.errors import UserError
from chainrule.interop.huggingface_write import write_tokenizer
from chainrule.interop.quiet import quiet
from chainrule.layers.attention import Positions
from chainrule.layers.positions import rotary_angles
from chainrule.models import transformer
from chainrule.models._neural import NeuralModel
from chainrule.models._recurrent import RecurrentModel
from chainrule.models.contract import architecture_of
from chainrule.text.base import Tokenizer

FILE = "model.onnx"


def write_onnx(model: Any, tokenizer: Tokenizer, folder: Path) -> None:
    """model.onnx, and the tokenizer as Hugging Face's library reads it."""
    if not all(importlib.util.find_spec(package) for package in ("onnx", "onnxscript")):
        raise UserError("ONNX files are written with: pip install 'chainrule[onnx]'")
    if isinstance(model, RecurrentModel):
        import onnx

        from chainrule.interop.onnx_recurrent import recurrent_graph

        onnx.save(recurrent_graph(model, architecture_of(model)), folder / FILE)
    elif isinstance(model, NeuralModel):
        _trace(model.eval(), folder / FILE)
    else:
        raise UserError("only models that learn by gradient can leave as ONNX; n-grams go --to arpa")
    write_tokenizer(tokenizer, folder, model.context_length)


class _Logits(nn.Module):
    """A whole text at once."""

    def __init__(self, model: NeuralModel):
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        hidden, _ = self.model.read(tokens, None)
        return self.model.output(hidden)


class _RotaryLogits(nn.Module):
    """The same of a Transformer with its rotations as one table: elsewhere, tables grow with the text."""

    cosines: Tensor
    sines: Tensor

    def __init__(self, model: transformer.Model):
        super().__init__()
        config = model.config
        self.model = model
        cosines, sines = rotary_angles(
            0, config.context_length, config.width_of_rotation, config.rotary_base, torch.device("cpu")
        )
        self.register_buffer("cosines", cosines)
        self.register_buffer("sines", sines)

    def forward(self, tokens: Tensor) -> Tensor:
        time = tokens.shape[1]
        x, _ = self.model._embed(tokens, 0, None)
        places = Positions((self.cosines[:time], self.sines[:time]))
        for block in self.model.blocks:
            x = block(x, places, None)
        return self.model.output(self.model.norm(x))


def _trace(model: NeuralModel, path: Path) -> None:
    """By torch's own exporter, for any number of rows and of steps."""
    is_rotary = isinstance(model, transformer.Model) and model.config.positions == "rotary"
    whole = _RotaryLogits(model) if is_rotary else _Logits(model)  # type: ignore[arg-type]
    most = model.context_length or 1 << 20
    example = torch.zeros(2, min(most, 5), dtype=torch.long)
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("time", max=most)}
    with quiet(), torch.no_grad():
        program = torch.onnx.export(
            whole, (example,), dynamo=True, verbose=False, input_names=["tokens"], output_names=["logits"],
            dynamic_shapes={"tokens": sizes},
        )  # fmt: skip
        assert program is not None
        program.save(path)
