"""A corpus: the choice of the unit, reading it again, progress, notes, and what cannot be learned from."""

import gzip
import io
import json
import sys
from pathlib import Path

import pytest

from chainrule.data import corpus as corpus_module
from chainrule.data.corpus import DEFAULT_READING, Corpus, Reading
from chainrule.errors import UserError, one_line


def texts(corpus: Corpus) -> list[str]:
    return [batch.text(index) for batch in corpus.batches() for index in range(len(batch))]


def write(path: Path, data: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def sentence(*inputs: str | Path, reading: Reading = DEFAULT_READING) -> str:
    with pytest.raises(UserError) as caught:
        Corpus(inputs, reading)
    return str(caught.value)


def chosen(path: Path, data: str) -> str:
    return Corpus([write(path, data)]).unit


def test_auto_takes_the_coarsest_unit_with_twenty_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    assert chosen(path, "a\nb\n\n" * 20) == "block"
    assert chosen(path, "a\nb\n\n" * 19) == "line"
    assert chosen(path, "a\n" * 20) == "line"
    for number in range(20):
        write(tmp_path / "many" / f"{number}.txt", "a\n\nb\n\n" * 30)
    assert Corpus([tmp_path / "many"]).unit == "file"
    write(tmp_path / "many" / "3.txt", " \n")
    assert Corpus([tmp_path / "many"]).unit == "block"


def test_auto_with_few_documents_takes_the_finest_unit_with_several(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    assert chosen(path, "a\nb\n") == "line"
    assert chosen(path, "a\n\nb") == "line"
    assert chosen(path, "one line only\n") == "file"


def test_auto_leaves_records_whole(tmp_path: Path) -> None:
    records = write(tmp_path / "a.jsonl", "".join(json.dumps({"text": f"{n}\nx"}) + "\n" for n in range(3)))
    corpus = Corpus([records])
    assert (corpus.unit, texts(corpus)) == ("file", ["0\nx", "1\nx", "2\nx"])
    mixed = Corpus([records, write(tmp_path / "b.txt", "a\nb\n\n" * 17)])
    assert mixed.unit == "block"
    assert texts(mixed) == ["0\nx", "1\nx", "2\nx"] + ["a\nb"] * 17


def test_auto_reads_no_further_than_it_needs_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The fault near the end is met only by reading, not by choosing a unit.
    path = write(tmp_path / "a.txt", b"a\n\n" * 1000 + b"\x81")
    monkeypatch.setattr(corpus_module, "PROBE_BYTES", 100)
    corpus = Corpus([path])
    assert corpus.unit == "block"
    with pytest.raises(UserError, match=r"is not UTF-8 at byte 3000 \(line 2001\)"):
        texts(corpus)


def test_a_given_unit_is_used(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "a\nb\n\nc\n")
    assert texts(Corpus([path], Reading(unit="line"))) == ["a", "b", "c"]
    assert texts(Corpus([path], Reading(unit="block"))) == ["a\nb", "c"]
    assert texts(Corpus([path], Reading(unit="file"))) == ["a\nb\n\nc\n"]


def test_a_corpus_reads_the_same_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"from\r\nstdin\r\n")))
    corpus = Corpus(["-", write(tmp_path / "a.txt", "a\nb\n")])
    assert texts(corpus) == texts(corpus) == ["from", "stdin", "a", "b"]
    assert corpus.notes == ["-: 2 CRLF line ends read as LF"]
    assert [batch.path for batch in corpus.batches()] == ["-", str(tmp_path / "a.txt")]


def test_a_single_path_is_a_corpus_too(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "a\nb\n")
    assert texts(Corpus(str(path))) == ["a", "b"]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl", "a.jsonl.gz"])
def test_progress_adds_up_to_the_bytes_on_disk(tmp_path: Path, name: str) -> None:
    line = '{"text": "some words of text"}\n'
    data = (line * 1000).encode()
    path = write(tmp_path / name, gzip.compress(data) if name.endswith("gz") else data)
    corpus = Corpus([path, write(tmp_path / "empty.txt", " \n")])
    seen: list[int] = []
    documents = sum(len(batch) for batch in corpus.batches(seen.append))
    assert documents == 1000
    assert sum(seen) == corpus.total_bytes == path.stat().st_size + 2
    assert all(step > 0 for step in seen)


def test_no_batch_is_empty(tmp_path: Path) -> None:
    for number, data in enumerate(["", "\n\n", "a", " ", "b\n"]):
        write(tmp_path / "texts" / f"{number}.txt", data)
    assert [len(batch) for batch in Corpus([tmp_path / "texts"]).batches()] == [1, 1]


def test_a_corpus_without_text_is_refused(tmp_path: Path) -> None:
    empty = write(tmp_path / "x.txt", "")
    blank = write(tmp_path / "y.txt", " \n\t\n\u3000")
    assert sentence(empty) == f"'{empty}' is empty: nothing to learn from"
    assert sentence(blank) == f"'{blank}' holds only whitespace: nothing to learn from"
    assert sentence(empty, blank) == f"'{empty}' and '{blank}' hold only whitespace: nothing to learn from"
    assert sentence(blank, reading=Reading(unit="file")) == sentence(blank)
    packed = write(tmp_path / "z.txt.gz", gzip.compress(b""))
    assert sentence(packed) == f"'{packed}' is empty: nothing to learn from"
    records = write(tmp_path / "r.jsonl", '{"text": ""}\n')
    assert sentence(records) == f"'{records}' holds no records with text: nothing to learn from"


def test_unknown_settings_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "a")
    assert sentence(path, reading=Reading(unit="lines")) == (
        "unit 'lines' is not known; did you mean 'line'? (units: auto, file, block, line; "
        "or a text that ends documents and has other signs than letters, such as <|endoftext|>)"
    )
    assert sentence(path, reading=Reading(encoding="latin-11")) == (
        "encoding 'latin-11' is not known; did you mean 'latin-1'? "
        "pass auto or a codec of Python such as latin-1 or cp1252"
    )
    for name in ("hex", "qqqqqq", "", "undefined", "a\0b"):
        assert f"encoding '{one_line(name)}' is not known" in sentence(path, reading=Reading(encoding=name))


def test_an_encoding_is_used_for_every_file(tmp_path: Path) -> None:
    inputs = [write(tmp_path / "a.txt", b"caf\xe9"), write(tmp_path / "b.jsonl", b'{"text": "na\xefve"}')]
    assert texts(Corpus(inputs, Reading(encoding="latin-1"))) == ["café", "naïve"]
