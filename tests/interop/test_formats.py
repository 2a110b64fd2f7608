"""Formats are found by the names of their modules: a new one is one file, for export and for import."""

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import chainrule.interop
from chainrule import registry
from chainrule.cli.main import main
from chainrule.errors import UserError
from chainrule.interop.base import NOT_FORMATS, all_formats, exporters, find_format, importers
from chainrule.interop.read import read_model
from chainrule.interop.write import write_run
from chainrule.runs.folder import Run

TOY = '''
"""A format of one file: an n-gram's arrays, and its tokenizer beside it."""

from chainrule.interop.base import Exporter, Format, ImportedModel, Importer


def write(run, path, dtype):
    run.model.save(path)
    run.tokenizer.save(path.with_suffix(".json"))
    return [f"it is a toy of {run.name} in {dtype}"]


def read(path, tokenizer_path):
    from chainrule.models.ngram import Model
    from chainrule.text.base import Tokenizer

    tokenizer = Tokenizer.load(tokenizer_path or path.with_suffix(".json"))
    return ImportedModel("ngram", Model.load(path), tokenizer, ["from a toy"], FORMAT.name)


FORMAT = Format(
    name="toy",
    description="a .toy file",
    importer=Importer(lambda path: path.suffix == ".toy", read),
    exporter=Exporter(
        write, has_format=lambda path: path.suffix == ".toy", suffix=".toy", dtypes=("f32", "f8"),
        read_by="children read it",
    ),
)
'''

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """The command line, in a folder with a run of an n-gram."""
    monkeypatch.chdir(tmp_path)
    Path("poems.txt").write_text("roses are red\nviolets are blue\n" * 20)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["chainrule", *arguments])
        with pytest.raises(SystemExit) as exit:
            main()
        return int(exit.value.code or 0), *capsys.readouterr()

    assert run("train", "poems.txt", "--order", "2")[0] == 0
    return run


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "formats"
    folder.mkdir()
    (folder / "toy.py").write_text(TOY)
    monkeypatch.setattr(chainrule.interop, "__path__", [*chainrule.interop.__path__, str(folder)])
    importlib.invalidate_caches()
    yield
    sys.modules.pop("chainrule.interop.toy", None)


def test_every_module_is_a_format_of_its_name():
    names = registry.names("chainrule.interop", without=NOT_FORMATS)
    assert names == ["arpa", "gguf", "gguf_adapter", "huggingface", "llama2c", "marian", "nanogpt", "onnx", "peft"]
    assert [each.name for each in all_formats()] == [name.replace("_", "-") for name in names]
    assert list(exporters()) == ["arpa", "gguf", "gguf-adapter", "huggingface", "onnx", "peft"]
    assert list(importers()) == ["arpa", "gguf", "huggingface", "llama2c", "marian", "nanogpt", "peft"]


def test_listing_formats_imports_neither_torch_nor_numpy():
    program = (
        "import sys; from chainrule.interop.base import all_formats; "
        "assert len(all_formats()) == 9; assert not {'torch', 'numpy', 'tokenizers'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_new_file_is_a_new_format_of_the_command_line(call: Call, toy: None):
    code, out, err = call("export", "runs/poems", "--to", "toy")
    assert (code, out.strip()) == (0, "poems.toy"), err
    assert "children read it" in err and "it is a toy of poems in f32" in err
    code, out, _ = call("export", "runs/poems", "--to", "toy", "--dtype", "f8", "--json")
    facts = json.loads(out)
    assert (facts["path"], facts["format"]) == ("poems-f8.toy", "toy")
    assert facts["bytes"] == Path("poems-f8.toy").stat().st_size and "checks" not in facts
    assert call("import", "poems.toy", "--as", "runs/back")[0] == 0
    stream = np.array(Run("runs/poems").tokenizer.encode("violets are red"))
    np.testing.assert_array_equal(Run("runs/back").model.score(stream), Run("runs/poems").model.score(stream))


def test_a_new_format_is_listed_and_guarded_as_the_others(call: Call, toy: None):
    assert (
        "there are: arpa, gguf, gguf-adapter, huggingface, onnx, peft, toy)"
        in call("export", "runs/poems", "--to", "toi")[2]
    )
    assert "dtype f8 is for the format toy; onnx keeps all 32 bits" in call(
        "export", "runs/poems", "--to", "onnx", "--dtype", "f8"
    )[2]  # fmt: skip
    assert call("export", "runs/poems", "--to", "toy")[0] == 0
    assert "'poems.toy' exists already" in call("export", "runs/poems", "--to", "toy")[2]
    assert call("export", "runs/poems", "--to", "toy", "--overwrite")[0] == 0
    assert "toy cannot be written to standard output" in call("export", "runs/poems", "--to", "toy", "-o", "-")[2]
    assert "a .toy file" in call("import", "nowhere")[2]


def test_python_reads_and_writes_the_same(call: Call, toy: None):
    found = write_run(Run("runs/poems"), "toy", Path("other.toy"))
    assert (found.report, found.checks, found.notes) == (None, [], ["it is a toy of poems in f32"])
    assert read_model(Path("other.toy"), Path("other.json")).notes == ["from a toy"]


def test_what_is_no_format_is_refused_with_those_there_are():
    with pytest.raises(UserError, match="unknown format 'ggf'; did you mean 'gguf'"):
        find_format("ggf")
    with pytest.raises(UserError, match="unknown format 'read'"):
        find_format("read")
