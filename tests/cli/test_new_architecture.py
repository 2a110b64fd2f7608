"""An architecture of one file, the convolution in tests/architectures: what the commands find out about it.

That every command takes it or refuses in one sentence is tested in tests/contracts, as for all architectures.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import architectures


@pytest.fixture
def convolution() -> Iterator[None]:
    with architectures.added():
        yield


@pytest.fixture
def runs(chainrule, cows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, convolution: None) -> None:
    """A convolution and an n-gram of the same tokens."""
    monkeypatch.chdir(tmp_path)
    settings = ("--model", "convolution", "--steps", 5, "--validation-fraction", 0.3)
    code, _, err = chainrule("train", cows, *settings, "--as", "runs/convolution")
    assert code == 0, err
    assert chainrule("train", cows, "--tokenizer", "bytes", "--validation-fraction", 0.3, "--as", "runs/ngram")[0] == 0


def test_the_doctor_examines_it_and_it_is_planned_by_the_number_of_its_parameters(chainrule, runs: None):
    code, out, err = chainrule("doctor", "runs/convolution", "--json")
    assert code == 0, err
    findings = {each["name"]: each for each in json.loads(out)["findings"]}
    assert {"learning rate", "quality"} <= findings.keys()
    depth = next(each for name, each in findings.items() if name.startswith("gradients"))
    assert "at filters" in depth["found"] and "at words" in depth["found"]
    assert any(name in findings for name in ("units", "dead units")), "those of its nn.ReLU"
    assert Path("runs/convolution/report/depth.svg").is_file()
    code, out, err = chainrule("plan", "runs/convolution", "--json", "--machine", "a100")
    assert code == 0, err
    plan = json.loads(out)
    assert plan["model"]["parameters"]["total"] == 257 * 16 + 16 * 16 * 3 + 16 + 16 * 257 + 257
    assert plan["model"]["shape"] is None and plan["compute"]["tokens"] > 0
    code, _, err = chainrule("plan", "runs/convolution", "--context-length", 10)
    assert code == 2 and "is not a Transformer" in err and err.count("\n") == 1


def test_it_is_compared_and_mixed(chainrule, runs: None, cows: Path):
    arguments = ("--models", "convolution:steps=5 runs/convolution ngram:order=2", "--tokenizer", "bytes", "--json")
    code, out, err = chainrule("compare", cows, *arguments)
    assert code == 0, err
    rows = {row["model"]: row for row in json.loads(out)["models"]}
    assert rows.keys() == {"convolution-steps=5", "convolution", "ngram-2"}
    for by in ("all", "entropy"):
        code, out, err = chainrule("mix", "runs/convolution", "runs/ngram", "--by", by, "--as", f"runs/{by}", "--json")
        assert code == 0, err
        figures = json.loads(out)["validation"]
        assert figures["loss"] <= min(part["loss"] for part in figures["parts"]) + 1e-3


def test_it_is_exported_or_refused(chainrule, runs: None):
    for format in ("huggingface", "gguf", "arpa"):
        code, _, err = chainrule("export", "runs/convolution", "--to", format)
        assert code == 2 and err.count("\n") == 1
        assert "onnx" in err, "which takes it"
        assert not list(Path().glob(".*unfinished")), "nothing is left behind"
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    code, out, err = chainrule("export", "runs/convolution", "--to", "onnx")
    assert (code, out.strip()) == (0, "convolution-onnx"), err
    assert "checked with onnxruntime" in err
