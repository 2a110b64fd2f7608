"""`export` and `import` as a person meets them: there and back, the report, and refusals in one sentence."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from chainrule.api.pairs import load_pairs_run
from chainrule.interop import _parity
from chainrule.interop._parity import Check
from chainrule.runs.folder import Run
from tests.interop.test_llama2c import STORIES, needs_stories

Result = tuple[int, str, str]


@pytest.fixture
def llama(chainrule: Callable[..., Result], cows: Path) -> str:
    code, _, err = chainrule(
        "train", cows, "--model", "transformer", "--size", "llama-tiny", "--steps", 2, "--vocabulary-size", 280
    )
    assert code == 0, err
    return "runs/cows"


def same_weights(first: str, second: str) -> bool:
    ours, theirs = Run(first).model.state_dict(), Run(second).model.state_dict()  # type: ignore[attr-defined]
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(("format", "path"), [("huggingface", "cows-huggingface"), ("gguf", "cows.gguf")])
def test_there_and_back_is_the_same_run(chainrule, llama, format: str, path: str):
    pytest.importorskip("transformers")
    pytest.importorskip("gguf")
    code, out, err = chainrule("export", llama, "--to", format)
    assert (code, out.strip()) == (0, path)
    assert "checked with chainrule: logits differ by 0.0e+00 at most (none allowed), tokenizes text alike" in err
    assert "checked with transformers" in err
    assert chainrule("import", path, "--as", "runs/back")[0] == 0
    assert same_weights(llama, "runs/back")
    assert Run(llama).tokenizer.json == Run("runs/back").tokenizer.json
    texts = [chainrule("sample", run, "--prompt", "on day", "--seed", 7)[1] for run in (llama, "runs/back")]
    assert texts[0] == texts[1]


def test_the_report_is_saved_and_printed(chainrule, llama):
    pytest.importorskip("transformers")
    result = json.loads(chainrule("export", llama, "--to", "huggingface", "-o", "out", "--json")[1])
    saved = json.loads(Path(result["report"]).read_text())
    assert result["report"] == "out/parity.json"
    assert [each["reader"] for each in saved["checks"]] == [each["reader"] for each in result["checks"]]
    assert all(each["agrees"] and each["difference"] <= each["limit"] for each in saved["checks"])
    card = Path("out/README.md").read_text()
    assert "library_name: transformers" in card
    assert "cows.txt" in card
    assert str(Path.cwd()) not in card
    for check in result["checks"]:
        assert check["sentence"] in card


def test_files_that_others_read_otherwise_are_removed(chainrule, llama, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_parity.Question, "ask", lambda question, tokenizer: Check("other", 0.5, 1e-4))
    code, _, err = chainrule("export", llama, "--to", "huggingface", "-o", "out")
    assert code == 2
    assert "the exported files were removed, as they do not compute the same as this model" in err
    assert not Path("out").exists()
    assert not list(Path().glob(".out*"))


def test_export_replaces_only_what_was_exported(chainrule, llama, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_parity.Question, "ask", lambda question, tokenizer: Check(question.package, note="not here"))
    Path("thesis").mkdir()
    Path("thesis/chapter").write_text("years of work")
    for arguments, told in (
        (("-o", "thesis"), "exists already"),
        (("-o", "thesis", "--overwrite"), "was not made by chainrule export, so it is not overwritten"),
        (("-o", "cows.txt", "--overwrite"), "huggingface is a folder, which 'cows.txt' is not"),
    ):
        code, _, err = chainrule("export", llama, "--to", "huggingface", *arguments)
        assert code == 2
        assert told in err
    assert Path("thesis/chapter").read_text() == "years of work"
    assert chainrule("export", llama, "--to", "huggingface", "-o", "out")[0] == 0
    code, _, err = chainrule("export", llama, "--to", "huggingface", "-o", "out", "--overwrite")
    assert code == 0
    assert "not checked with transformers: not here" in err


def test_a_file_and_what_lies_beside_it_are_replaced_only_if_exported(chainrule, llama, monkeypatch):
    pytest.importorskip("gguf")
    monkeypatch.setattr(_parity.Question, "ask", lambda question, tokenizer: Check(question.package, note="not here"))
    kept = ("cows.gguf", "cows.md", "cows.parity.json", "own.gguf.md")
    for name in kept:
        Path(name).write_text("years of work")
    for arguments, told in (
        ((), "'cows.gguf' exists already"),
        (("--overwrite",), "'cows.gguf' was not made by chainrule export, so it is not overwritten"),
        (("-o", "own.gguf"), "'own.gguf.md' exists already"),
        (("-o", "own.gguf", "--overwrite"), "'own.gguf.md' was not made by chainrule export, so it is not overwritten"),
    ):
        code, _, err = chainrule("export", llama, "--to", "gguf", *arguments)
        assert code == 2
        assert told in err
    Path("cows.gguf").unlink()
    for arguments in ((), ("--overwrite",)):
        told = json.loads(chainrule("export", llama, "--to", "gguf", "--json", *arguments)[1])
        assert told["report"] == "cows.gguf.parity.json"
    assert all(Path(name).read_text() == "years of work" for name in kept[1:])
    assert Path("cows.gguf.md").read_text().startswith("---")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--to", "hugging"), "unknown format 'hugging'; did you mean 'huggingface'?"),
        (("--to", "gguf", "--dtype", "q8"), "unknown dtype 'q8'; did you mean 'q8_0'?"),
        (("--to", "onnx", "--dtype", "f16"), "dtype f16 is for the format gguf; onnx keeps all 32 bits"),
        (("--to", "arpa"), "ARPA files hold n-gram models only"),
    ],
)
def test_what_cannot_be_asked_for_is_told(chainrule, llama, arguments, told: str):
    code, _, err = chainrule("export", llama, *arguments)
    assert code == 2
    assert told in err
    assert err.count("\n") == 1


def test_models_that_no_other_program_computes_are_told_what_to_change(chainrule, cows):
    chainrule("train", cows, "--model", "transformer", "--size", "tiny", "--steps", 1, "--as", "runs/fast")
    code, _, err = chainrule("export", "runs/fast", "--to", "gguf")
    assert code == 2
    assert "activation=swiglu (it has relu-squared)" in err
    assert "--size llama-tiny trains one that can be exported" in err
    chainrule("train", cows, "--as", "runs/ngram")
    code, _, err = chainrule("export", "runs/ngram", "--to", "huggingface")
    assert code == 2
    assert "n-grams are exported as arpa" in err


@needs_stories
def test_stories_come_in_and_are_told_to_the_letter(chainrule):
    code, out, _ = chainrule("import", STORIES / "stories260K.bin", "--as", "runs/stories")
    assert (code, out.strip()) == (0, "runs/stories")
    told = json.loads(chainrule("sample", "runs/stories", "--greedy", "--max-tokens", 200, "--json")[1])
    assert told["samples"][0]["text"] == (STORIES / "expected_greedy_200.txt").read_text()


def test_a_translator_comes_in_and_translates(chainrule, tmp_path: Path):
    pytest.importorskip("transformers")
    from tests.interop.test_marian import KINDS, SENTENCES, make

    (tmp_path / "marian").mkdir()
    make(tmp_path / "marian", **KINDS["as published"])
    code, out, err = chainrule("import", "marian", "--as", "runs/de-en")
    assert (code, out.strip()) == (0, "runs/de-en")
    assert "next: chainrule translate runs/de-en YOUR.txt" in err
    Path("in.txt").write_text("\n".join(SENTENCES) + "\n")
    lines = [
        line.split("\t") for line in chainrule("translate", "runs/de-en", "in.txt", "--alignments")[1].splitlines()
    ]
    assert [text for text, _ in lines] == load_pairs_run("runs/de-en").translate(SENTENCES)
    for (text, links), sentence in zip(lines, SENTENCES, strict=True):
        pairs = [tuple(map(int, link.split("-"))) for link in links.split()]
        assert [target for _, target in pairs] == list(range(len(text.split())))
        assert all(source < len(sentence.split()) for source, _ in pairs)
    told = json.loads(chainrule("explain", "runs/de-en", SENTENCES[0], "--json")[1])
    assert (told["text"], told["source"]) == (lines[0][0], [" ein", " mann", " schläft", "</s>"])
    assert np.allclose(np.sum(told["attention"], -1), 1, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nowhere.gguf", "does not exist; give an ARPA file, a .gguf file, a Hugging Face folder"),
        ("model.safetensors", "holds weights alone; name its folder"),
        ("model.gguf", "is not a GGUF file, or is cut off"),
        ("model.pt", "is not a checkpoint of plain tensors"),
        ("model.bin", "is not a llama2.c file"),
    ],
)
def test_what_cannot_be_imported_is_told(chainrule, tmp_path: Path, name: str, told: str):
    if "nowhere" not in name:
        (tmp_path / name).write_bytes(b"not what it is called" * 3)
    code, _, err = chainrule("import", name)
    assert code == 2
    assert told in err
    assert not Path("runs").exists()
