"""The corpora that come with Python."""

import sysconfig
from pathlib import Path
from pydoc_data.topics import topics

import pytest

from chainrule.data.corpus import Corpus, Reading
from chainrule.errors import UserError


def texts(corpus: Corpus) -> list[str]:
    return [batch.text(index) for batch in corpus.batches() for index in range(len(batch))]


def test_the_docs_are_the_topics_in_the_order_of_their_names() -> None:
    corpus = Corpus(["builtin:python-docs"])
    assert corpus.unit == "file"
    assert texts(corpus) == [topics[name] for name in sorted(topics)]
    assert corpus.total_bytes == sum(len(text.encode()) for text in topics.values())


def test_the_source_is_the_standard_library_without_its_tests() -> None:
    documents = texts(Corpus(["builtin:python-source"]))
    library = Path(sysconfig.get_path("stdlib"))
    assert (library / "difflib.py").read_text(encoding="utf-8") in documents
    assert (library / "json" / "decoder.py").read_text(encoding="utf-8") in documents
    assert not any("class TestJsonDecoder" in text or "idlelib.idle_test.mock" in text for text in documents)
    assert len(documents) > 300


def test_source_that_is_not_utf8_is_left_out_with_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, data in {
        "b.py": b"b = 1\n",
        "a.py": b"\xef\xbb\xbfa = 1\n",
        "latin.py": b"# caf\xe9\n",
        "notes.txt": b"no source",
        "test/test_a.py": b"left out",
        "site-packages/other.py": b"left out",
        "json/empty.py": b"",
        "json/tool.py": b"tool = 1\r\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    corpus = Corpus(["builtin:python-source"])
    seen: list[int] = []
    assert [batch.text(i) for batch in corpus.batches(seen.append) for i in range(len(batch))] == [
        "a = 1\n",
        "b = 1\n",
        "tool = 1\n",
    ]
    assert sorted(corpus.notes) == [
        "builtin:python-source: 1 CRLF line end read as LF",
        "builtin:python-source: 1 empty record skipped",
        "builtin:python-source: 1 file left out for not being UTF-8",
    ]
    assert sum(seen) == corpus.total_bytes == 9 + 6 + 7 + 10


def test_a_unit_cuts_the_docs_further() -> None:
    documents = texts(Corpus(["builtin:python-docs"], Reading(unit="line")))
    assert documents == [line for name in sorted(topics) for line in topics[name].split("\n") if line.strip()]


def test_an_unknown_built_in_is_refused_with_the_list() -> None:
    with pytest.raises(UserError) as caught:
        Corpus(["builtin:python-doc"])
    assert str(caught.value) == (
        "'builtin:python-doc' is not built in; did you mean 'builtin:python-docs'? "
        "(there are builtin:python-docs and builtin:python-source)"
    )
