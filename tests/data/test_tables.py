"""Tables and texts as spreadsheets and Windows write them, and folders in which something else lies about."""

import json
from pathlib import Path

import pytest

import chainrule
from chainrule.data.corpus import Corpus, Reading
from chainrule.errors import UserError

ROWS = [("1", "Das Bier kostet 3,50 €; gut!"), ("2", "“Schön”, sagte\nsie – na ja…"), ("3", 'ein "Zitat"')]


def table(delimiter: str, names: tuple[str, ...] = ("id", "text")) -> str:
    """As Excel writes it: fields are quoted where they must be."""
    lines = []
    for row in (names, *ROWS):
        quoted = ['"' + each.replace('"', '""') + '"' if set(each) & {delimiter, '"', "\n"} else each for each in row]
        lines.append(delimiter.join(quoted))
    return "\r\n".join(lines) + "\r\n"


def texts(corpus: Corpus) -> list[str]:
    return [batch.text(i) for batch in corpus.batches() for i in range(len(batch))]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_table_is_read_whatever_separates_its_columns_and_whatever_it_is_encoded_in(
    tmp_path: Path, delimiter: str, encoding: str
):
    (tmp_path / "a.csv").write_bytes(table(delimiter).encode(encoding))
    assert texts(Corpus([str(tmp_path / "a.csv")])) == [text for _, text in ROWS]
    for given in (delimiter, {"\t": "tab"}.get(delimiter, delimiter), {"\t": "\\t"}.get(delimiter, delimiter)):
        assert texts(Corpus([str(tmp_path / "a.csv")], Reading(delimiter=given))) == [text for _, text in ROWS]


def test_the_column_that_is_asked_for_tells_the_delimiter(tmp_path: Path):
    """Each line has as many commas as it has semicolons."""
    (tmp_path / "a.csv").write_text("id;review, in full\n1;good, really\n2;bad, sadly\n")
    assert texts(Corpus([str(tmp_path / "a.csv")], Reading(field="review, in full"))) == ["good, really", "bad, sadly"]
    with pytest.raises(UserError, match="delimiter is one character such as ';'"):
        Corpus([str(tmp_path / "a.csv")], Reading(delimiter="::"))


def test_one_column_needs_no_delimiter(tmp_path: Path):
    (tmp_path / "a.csv").write_text('text\nhello; there\n"well, well"\n')
    assert texts(Corpus([str(tmp_path / "a.csv")])) == ["hello; there", "well, well"]


# Windows-1252


def test_windows_text_is_recognised_and_noted(tmp_path: Path):
    text = "It’s “fine” – 5 € for a café…\n" * 30
    (tmp_path / "a.txt").write_bytes(text.encode("cp1252"))
    corpus = Corpus([str(tmp_path / "a.txt")], Reading(unit="line"))
    assert texts(corpus) == text.splitlines()
    assert corpus.notes == [f"{tmp_path}/a.txt: {7 * 30} characters read as Windows-1252, since the file is not UTF-8"]


@pytest.mark.parametrize(
    "data",
    [
        "naïve café ".encode() * 3 + b"caf\xe9",  # UTF-8 with a fault
        b"caf\xe9 " + "naïve café ".encode() * 3,
        "Привет, мир! ".encode("cp1251") * 5,
        "日本語のテキスト".encode("shift_jis") * 5,
        b"\xff\xfe\x01\x02 text",
        b"an undefined byte: \x81",
    ],
)
def test_what_is_neither_utf8_nor_like_windows_is_refused(tmp_path: Path, data: bytes):
    (tmp_path / "a.txt").write_bytes(data.replace(b"\0", b""))
    with pytest.raises(UserError, match="is not UTF|binary"):
        texts(Corpus([str(tmp_path / "a.txt")], Reading(unit="file")))


# A folder with bad files in it


def test_bad_files_of_a_folder_are_skipped_counted_and_named(tmp_path: Path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text(f"text number {number}\n")
    (folder / "paper.txt").write_bytes(b"%PDF-1.7 ...")
    (folder / "table.csv").write_text("name,age\nBo,3\n")
    (folder / "broken.txt.gz").write_bytes(b"\x1f\x8b\x08 no")
    for name in (folder, folder / "*"):
        corpus = Corpus([str(name)], Reading(unit="file"))
        assert texts(corpus) == [f"text number {number}\n" for number in range(3)]
        (note,) = corpus.notes
        assert note.startswith("3 of 6 files skipped: ")
        for each in ("broken.txt.gz", "paper.txt' is a PDF document, not text", "table.csv"):
            assert each in note
    for bad in ("paper.txt", "table.csv", "broken.txt.gz"):
        with pytest.raises(UserError, match=bad):
            texts(Corpus([str(folder / bad)], Reading(unit="file")))
    with pytest.raises(UserError, match=r"nothing can be read: 1 of 1 files skipped: .*paper.txt' is a PDF"):
        Corpus([str(folder / "pap*")])


def test_training_on_a_folder_tells_what_was_skipped(tmp_path: Path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "good.txt").write_text("cows eat hay\n" * 30)
    (folder / "photo.txt").write_bytes(b"\xff\xd8\xff\xe0 picture")
    run = chainrule.train(folder, order=2)
    assert any("1 of 2 files skipped" in note and "photo.txt" in note for note in run.config["notes"])


# Documents that a text ends


@pytest.mark.parametrize("layout", ["{}<|endoftext|>", "{}\n<|endoftext|>\n", "<|endoftext|>\n{}\n"])
def test_documents_end_where_a_text_of_ones_own_says(tmp_path: Path, layout: str):
    stories = [f"Story {number}.\n\nIt has two blocks & lines." for number in range(50)]
    (tmp_path / "a.txt").write_text("".join(layout.format(story) for story in stories))
    corpus = Corpus([str(tmp_path / "a.txt")], Reading(unit="<|endoftext|>"))
    found = list(corpus.batches())
    assert [batch.text(i).removesuffix("\n") for batch in found for i in range(len(batch))] == stories
    lines = (tmp_path / "a.txt").read_text().split("\n")
    assert all("Story" in lines[number - 1] for batch in found for number in batch.lines)
    assert found[0].separator_bytes == len("<|endoftext|>")


@pytest.mark.parametrize("batch_bytes", [1, 7, 64])
def test_documents_are_the_same_in_chunks_of_any_size(tmp_path: Path, batch_bytes: int):
    from chainrule.data.formats import Reader
    from chainrule.data.sources import expand

    (tmp_path / "a.txt").write_text("one\n###\ntwo###three\n\n###\n###\nfour")
    reader = Reader(expand([tmp_path / "a.txt"])[0], batch_bytes=batch_bytes)
    assert [b.text(i) for b in reader.batches("###") for i in range(len(b))] == ["one", "two", "three\n", "four"]


def test_records_are_cut_by_it_too_and_a_run_remembers_it(tmp_path: Path):
    rows = [json.dumps({"text": "cows eat hay<|endoftext|>sheep eat grass"})] * 20
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    run = chainrule.train(tmp_path / "a.jsonl", unit="<|endoftext|>", order=2, validation_fraction=0)
    assert run.config["data"]["unit"] == "<|endoftext|>"
    assert run.config["data"]["text"]["train"]["documents"] == 40
    measured = run.evaluate(tmp_path / "a.jsonl", unit="<|endoftext|>")
    assert measured["seen"]["documents"] == measured["documents"] == 40
