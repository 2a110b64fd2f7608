"""The model card of an export: what the model is, how to use it there, and who has checked it."""

from pathlib import Path

from chainrule.interop.parity import Check
from chainrule.runs.card import about
from chainrule.runs.folder import Run
from chainrule.runs.records import METRICS, RunConfig, damaged

LIBRARIES = {"huggingface": "transformers", "gguf": "llama.cpp", "onnx": "onnx"}


def write_card(path: Path, run: Run, format: str, name: str, checks: list[Check], notes: list[str]) -> None:
    trained = run.trained
    if trained is None:
        raise damaged(run.path / METRICS)
    data = run.config["data"]
    names = [Path(each).name for each in data["inputs"]]  # the folders they lie in are private
    config: RunConfig = {**run.config, "data": {**data, "inputs": names}}
    lines = [
        "---",
        f"library_name: {LIBRARIES[format]}",
        "pipeline_tag: text-generation",
        "tags: [chainrule]",
        "---",
        *about(run.name, config, trained),
        *[f"- Note: {note}." for note in notes],
        "",
        f"```{'python' if format != 'gguf' else ''}",
        *_usage(format, name),
        "```",
        "",
        "Read back after it was written:",
        "",
        *[f"- {check.sentence()}." for check in checks],
        "",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")


def _usage(format: str, name: str) -> list[str]:
    if format == "gguf":
        return [f"llama-cli -m {name} -p 'The'"]
    if format == "huggingface":
        return [
            "from transformers import AutoModelForCausalLM, AutoTokenizer",
            "",
            f"tokenizer, model = (each.from_pretrained({name!r}) for each in (AutoTokenizer, AutoModelForCausalLM))",
            "ids = model.generate(**tokenizer('The', return_tensors='pt'), do_sample=True, max_new_tokens=50)",
            "print(tokenizer.decode(ids[0], skip_special_tokens=True))",
        ]
    return [
        "import numpy, onnxruntime, tokenizers",
        "",
        f"session = onnxruntime.InferenceSession('{name}/model.onnx')",
        f"ids = tokenizers.Tokenizer.from_file('{name}/tokenizer.json').encode('The').ids",
        "state = {each.name: numpy.zeros((1, each.shape[1]), 'float32') for each in session.get_inputs()[1:]}",
        "logits, *state = session.run(None, {'tokens': numpy.array([ids]), **state})",
    ]
