"""CoNLL-U: what is read is written again byte for byte, and what is malformed is refused by its line."""

import gzip
from pathlib import Path

import pytest

from chainrule.data import conllu
from chainrule.errors import UserError
from tests.shared_data import FOLDER, requires

EWT = FOLDER / "ud-english-ewt"


def row(number: str, form: str, upos: str = "_", xpos: str = "_", misc: str = "_") -> str:
    return "\t".join([number, form, "_", upos, xpos, "_", "_", "_", "_", misc])


DONT = "\n".join(
    [
        "# sent_id = 1",
        "# text = I don't",
        row("1", "I", "PRON", "PRP"),
        row("2-3", "don't"),
        row("2", "do", "AUX", "VBP"),
        row("2.1", "really", "ADV", "RB"),
        row("3", "n't", "PART", "RB"),
        "",
    ]
)
GO = row("1", "Go", "VERB", "VB") + "\n"


def parse(text: str) -> list[conllu.Sentence]:
    return list(conllu.parse(text, "a.conllu"))


def test_words_are_neither_multiword_tokens_nor_empty_nodes():
    (sentence,) = parse(DONT)
    assert sentence.words == ("I", "do", "n't")
    assert sentence.column("upos") == ("PRON", "AUX", "PART")
    assert [sentence.line_of(word) for word in range(3)] == [3, 5, 7]


@pytest.mark.parametrize(
    "text",
    [
        DONT + "\n" + GO,
        DONT + "\n" + GO + "\n\n",
        DONT + "\n\n\n" + GO,
        "\n\n" + DONT + "\n",
        (DONT + "\n" + GO + "\n").replace("\n", "\r\n"),
        GO.rstrip("\n"),
    ],
)
def test_what_is_read_is_written_byte_for_byte(text: str):
    assert conllu.write(parse(text)) == text


def test_sentences_know_their_lines_in_the_file():
    first, second = parse(f"\n{DONT}\n\n{GO}")
    assert (first.first_line, second.first_line, second.line_of(0)) == (1, 11, 11)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_tags_are_put_in_and_nothing_else_changes(ending: str):
    text = DONT.replace("\n", ending)
    (sentence,) = parse(text)
    changed = conllu.write([sentence.with_columns({"upos": ["A", "B", "C"], "xpos": ["x", "y", "z"]})])
    expected = text.replace("PRON\tPRP", "A\tx").replace("AUX\tVBP", "B\ty").replace("PART\tRB", "C\tz")
    assert changed == expected


def test_a_new_sentence_can_be_read_again():
    sentence = conllu.make_sentence(["Go", "!"], [False, True], "Go!")
    text = conllu.write([sentence, sentence])
    assert [each.words for each in parse(text)] == [("Go", "!")] * 2
    assert text.splitlines()[:3] == ["# text = Go!", row("1", "Go", misc="SpaceAfter=No"), row("2", "!")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GO + "2\tnow", "'a.conllu' line 2 has 2 columns instead of ten"),
        (f"{GO}\n{row('2', 'now')}", "line 3 has the id 2 after 0 words"),
        (GO + row("1", "now"), "line 2 has the id 1 after 1 words"),
        (GO + row("x", "now"), "line 2 begins with 'x', which is no id"),
        (GO + row("3-4", "now"), "line 2 has the id 3-4 after 1 words"),
        (GO + row("2.1", "now"), "line 2 has the id 2.1 after 1 words"),
        (GO + row("2", ""), "line 2 has nothing in its column form"),
        (GO + "# text = Go", "line 2 is a comment within a sentence"),
        (f"{GO}\n# a comment\n\n{GO}", "line 3 begins a sentence without words"),
    ],
)
def test_malformed_lines_are_refused_by_their_number(text: str, message: str):
    with pytest.raises(UserError, match=message):
        parse(text)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_empty_files_are_refused(tmp_path: Path, text: str):
    (tmp_path / "a.conllu").write_text(text)
    with pytest.raises(UserError, match="a.conllu' is empty: there is no sentence to read"):
        conllu.read([tmp_path / "a.conllu"])


def test_bytes_that_are_no_text_are_refused(tmp_path: Path):
    (tmp_path / "a.conllu").write_bytes(GO.encode() + b"2\t\xff\xfe")
    with pytest.raises(UserError, match=r"a\.conllu"):
        conllu.read([tmp_path / "a.conllu"])


def test_several_files_and_packed_ones_are_read_in_turn(tmp_path: Path):
    (tmp_path / "a.conllu").write_text(DONT)
    (tmp_path / "b.conllu.gz").write_bytes(gzip.compress(GO.encode()))
    found = conllu.read([tmp_path / "a.conllu", tmp_path / "b.conllu.gz"])
    assert [each.words for each in found] == [("I", "do", "n't"), ("Go",)]


@requires("ud-english-ewt")
def test_a_real_treebank_comes_out_as_it_went_in():
    path = EWT / "en_ewt-ud-dev.conllu"
    sentences = conllu.read([path])
    assert (len(sentences), sum(len(each.words) for each in sentences)) == (2001, 25147)
    assert conllu.write(sentences).encode() == path.read_bytes()


def test_files_that_end_within_a_line_are_not_glued_together(tmp_path: Path):
    for name in "ab":
        (tmp_path / f"{name}.conllu").write_text(GO.rstrip("\n"))
    text = conllu.write(conllu.read([tmp_path / "a.conllu", tmp_path / "b.conllu"]))
    assert text == GO + "\n" + GO.rstrip("\n")
    assert [sentence.words for sentence in parse(text)] == [("Go",), ("Go",)]


def test_an_id_of_many_digits_is_no_id():
    with pytest.raises(UserError, match="line 1 begins with '9999.*', which is no id"):
        parse(row("9" * 5000, "Go"))


def test_other_encodings_are_read(tmp_path: Path):
    (tmp_path / "a.conllu").write_bytes(row("1", "grün").encode("latin-1"))
    assert conllu.read([tmp_path / "a.conllu"], "latin-1")[0].words == ("grün",)
