"""ONNX: a graph that onnxruntime runs anywhere, with the tokenizer beside it."""

from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.interop.base import Exporter, Format

if TYPE_CHECKING:
    from chainrule.interop._parity import Question
    from chainrule.runs.folder import Run


def _check(run: "Run") -> None:
    from chainrule.interop._profile import require_gradient

    require_gradient(run, FORMAT.name)


def _write(run: "Run", folder: Path, dtype: str) -> list[str]:
    from chainrule.interop.onnx.write import write_onnx

    write_onnx(run.model, run.tokenizer, folder)
    return []


def _verify(run: "Run", folder: Path, dtype: str) -> "list[Question]":
    from chainrule.interop._parity import Question
    from chainrule.interop._profile import require_neural
    from chainrule.interop.onnx.verify import OnnxRuntime
    from chainrule.interop.onnx.write import FILE

    model = require_neural(run.model)
    return [Question("onnxruntime", "onnxruntime", lambda: OnnxRuntime(folder / FILE), model)]


def _usage(name: str) -> list[str]:
    return [
        "import numpy, onnxruntime, tokenizers",
        "",
        f"session = onnxruntime.InferenceSession('{name}/model.onnx')",
        f"ids = tokenizers.Tokenizer.from_file('{name}/tokenizer.json').encode('The').ids",
        "state = {each.name: numpy.zeros((1, each.shape[1]), 'float32') for each in session.get_inputs()[1:]}",
        "logits, *state = session.run(None, {'tokens': numpy.array([ids]), **state})",
    ]


FORMAT = Format(
    name="onnx",
    description="a folder with an ONNX graph",
    exporter=Exporter(
        _write,
        _verify,
        _check,
        is_file=False,
        suffix="-onnx",
        read_by="onnxruntime reads it",
        library="onnx",
        usage=_usage,
    ),
)
