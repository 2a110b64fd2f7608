"""What the user names: every way to name files, and the sentence for every way to name them wrongly."""

import io
import os
import socket
import sys
import threading
from pathlib import Path

import pytest

from chainrule.data.sources import expand
from chainrule.errors import UserError


def names(*inputs: str | Path) -> list[str]:
    return [source.name for source in expand(inputs)]


def sentence(*inputs: str | Path) -> str:
    with pytest.raises(UserError) as caught:
        expand(inputs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of files, which is also where relative names are looked up."""
    for name in (
        "b.txt",
        "a.md",
        "picture.bin",
        ".hidden.txt",
        "sub/c.jsonl.gz",
        "sub/deep/d.PY",
        ".git/e.txt",
    ):
        path = tmp_path / "texts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_gives_its_known_files_sorted_and_without_hidden_ones(folder: Path) -> None:
    assert names("texts") == ["texts/a.md", "texts/b.txt", "texts/sub/c.jsonl.gz", "texts/sub/deep/d.PY"]


def test_a_pattern_gives_what_it_matches(folder: Path) -> None:
    assert names("texts/*.txt") == ["texts/b.txt"]
    assert names("texts/**/*.[Pm]*") == ["texts/a.md", "texts/sub/deep/d.PY"]
    assert names("texts/s*") == ["texts/sub/c.jsonl.gz", "texts/sub/deep/d.PY"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(folder: Path) -> None:
    (folder / "draft[1].txt").write_text("x")
    assert names("draft[1].txt") == ["draft[1].txt"]


def test_inputs_keep_their_order_and_a_file_named_twice_is_read_once(folder: Path) -> None:
    os.symlink(folder / "texts" / "b.txt", folder / "link.txt")
    assert names("texts/b.txt", "texts", "./texts/a.md", folder / "texts/b.txt", "link.txt") == [
        "texts/b.txt",
        "texts/a.md",
        "texts/sub/c.jsonl.gz",
        "texts/sub/deep/d.PY",
    ]


@pytest.mark.parametrize(
    ("name", "form", "compression"),
    [
        ("a.txt", "text", ""),
        ("a.unknown", "text", ""),
        ("README", "text", ""),
        ("a.jsonl", "jsonl", ""),
        ("a.NDJSON", "jsonl", ""),
        ("a.csv.gz", "csv", "gz"),
        ("a.tsv.zst", "tsv", "zst"),
        ("a.parquet", "parquet", ""),
        ("a.gz", "text", "gz"),
    ],
)
def test_the_ending_tells_the_format(tmp_path: Path, name: str, form: str, compression: str) -> None:
    (tmp_path / name).write_bytes(b"12345")
    [source] = expand([tmp_path / name])
    assert (source.format, source.compression, source.size) == (form, compression, 5)


def test_standard_input_can_be_read_twice_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"from a pipe")))
    [source] = expand(["-", "-"])
    path = Path(source.path)
    assert (source.name, source.size) == ("-", 11)
    assert path.read_bytes() == path.read_bytes() == b"from a pipe"
    del source
    assert not path.exists()


def test_a_named_pipe_is_read_once_into_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b'{"text": "a"}',))
    writer.start()
    [source] = expand([pipe, pipe])
    writer.join()
    assert (source.name, source.format, source.size) == (str(pipe), "jsonl", 13)
    assert Path(source.path).read_bytes() == b'{"text": "a"}'


def test_a_missing_file_is_named_with_the_nearest_name_beside_it(folder: Path) -> None:
    assert sentence("texts/bb.txt") == "'texts/bb.txt' not found; did you mean 'texts/b.txt'?"
    assert sentence("text") == "'text' not found; did you mean 'texts'?"
    assert sentence("qqqqqq") == "'qqqqqq' not found; name a file, a folder or a quoted pattern"
    assert "there is no folder 'nowhere'" in sentence("nowhere/a.txt")
    assert r"'a\x00b' not found" in sentence("a\0b")


def test_a_broken_link_is_called_one(tmp_path: Path) -> None:
    os.symlink(tmp_path / "gone", tmp_path / "link.txt")
    assert f"'{tmp_path}/link.txt' is a link to a file that does not exist" in sentence(tmp_path / "link.txt")


def test_a_pattern_without_a_match_is_refused(folder: Path) -> None:
    assert sentence("texts/*.csv").startswith("no file matches 'texts/*.csv'; ")


def test_a_folder_without_text_files_is_refused_with_the_endings_looked_for(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_bytes(b"")
    said = sentence(tmp_path / "photos")
    assert said.startswith(f"folder '{tmp_path}/photos' holds no text files; ")
    for ending in (".txt", ".md", ".py", ".jsonl", ".csv", ".tsv", ".parquet", ".gz", ".zst"):
        assert ending in said
    assert "matches only folders without text files" in sentence(f"{tmp_path}/p*")


def test_a_file_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("secret")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert sentence(tmp_path / "a.txt").startswith(f"cannot read '{tmp_path}/a.txt': permission denied; ")


def test_a_folder_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "listdir", refuse)
    assert sentence(tmp_path) == f"cannot list folder '{tmp_path}': permission denied"


def test_a_socket_and_a_device_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("wire")
        assert sentence("wire").startswith("'wire' is a socket, not a file of text; ")
    assert sentence("/dev/null").startswith("'/dev/null' is a device, not a file of text; ")


def test_a_folder_that_leads_back_to_itself_is_refused(folder: Path) -> None:
    os.symlink(folder / "texts", folder / "texts" / "sub" / "loop")
    assert sentence("texts").startswith("folder 'texts/sub/loop' leads back to a folder above it; ")


def test_a_link_that_leads_back_to_itself_is_refused(tmp_path: Path) -> None:
    os.symlink(tmp_path / "a.txt", tmp_path / "a.txt")
    assert "it is a link that leads back to itself" in sentence(tmp_path / "a.txt")


def test_naming_nothing_is_refused() -> None:
    assert sentence().startswith("no input was named; ")


def test_standard_input_that_is_closed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert sentence("-") == "'-' stands for standard input, which is closed; name a file"
