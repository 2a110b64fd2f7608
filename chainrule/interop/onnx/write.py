"""Writes models as ONNX graphs. The graph of a recurrent model is a step; that of any other reads a whole text.

recurrent: tokens (batch, time), the state -> logits (batch, time, vocabulary), the new state
others:    tokens (batch, time) -> logits (batch, time, vocabulary), time at most the context
"""

import importlib.util
from pathlib import Path

import torch
from torch import Tensor, nn

from chainrule.errors import UserError
from chainrule.interop._profile import require_neural
from chainrule.interop._quiet import quiet
from chainrule.interop.huggingface.write import write_tokenizer
from chainrule.layers.attention import Positions
from chainrule.layers.positions import rotary_angles
from chainrule.models import transformer
from chainrule.models._neural import NeuralModel
from chainrule.models._recurrent import RecurrentModel
from chainrule.models.contract import LanguageModel, architecture_of
from chainrule.text.base import Tokenizer

FILE = "model.onnx"
RECURRENT = ("elman", "ugrnn", "gru", "lstm")  # written node by node, in recurrent.py


def write_onnx(model: LanguageModel, tokenizer: Tokenizer, folder: Path) -> None:
    """model.onnx, and the tokenizer as Hugging Face's library reads it."""
    if not all(importlib.util.find_spec(package) for package in ("onnx", "onnxscript")):
        raise UserError("ONNX files are written with: pip install 'chainrule[onnx]'")
    model = require_neural(model)
    if isinstance(model, RecurrentModel) and architecture_of(model) in RECURRENT:
        import onnx

        from chainrule.interop.onnx.recurrent import recurrent_graph

        onnx.save(recurrent_graph(model, architecture_of(model)), folder / FILE)
    else:
        _trace(model.eval(), folder / FILE)
    write_tokenizer(tokenizer, folder, model.context_length)


class _Logits(nn.Module):
    """The logits of a whole text at once."""

    def __init__(self, model: NeuralModel):
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        hidden, _ = self.model.read(tokens, None)
        return self.model.output(hidden)


class _RotaryLogits(nn.Module):
    """The same for a Transformer with rotary positions, whose angles are one table of fixed size in the graph."""

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
    """Write the graph by torch's own exporter, for any number of rows and of steps."""
    is_rotary = isinstance(model, transformer.Model) and model.config.positions == "rotary"
    whole = _RotaryLogits(model) if is_rotary else _Logits(model)  # type: ignore[arg-type]
    most = model.context_length or 1 << 20
    example = torch.zeros(2, min(most, 5), dtype=torch.long)
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("time", max=most)}
    with quiet(), torch.no_grad():
        try:
            program = torch.onnx.export(
                whole, (example,), dynamo=True, verbose=False, input_names=["tokens"], output_names=["logits"],
                dynamic_shapes={"tokens": sizes},
            )  # fmt: skip
        except Exception as error:  # an architecture with an operation that torch cannot trace
            why = " ".join(str(error).split())[:160]
            kind = architecture_of(model)
            raise UserError(f"torch cannot write a model of kind {kind} as an ONNX graph ({why})") from None
        assert program is not None
        program.save(path)
