"""Pairs come out of every kind of file as they went in, and what does not fit is refused by its line."""

import gzip
import json

import pytest

from chainrule.data.pairs import Fields, read_lines, read_pairs
from chainrule.data.settings import Reading
from chainrule.errors import UserError

SOURCES, TARGETS = ["ein Hund", 'er sagt "ja"', "größer, älter"], ["a dog", 'he says "yes"', "bigger, older"]
NAMES = Fields("de", "en")


def write(path, text):
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return str(path)


def lines(texts):
    return "".join(f"{text}\n" for text in texts)


@pytest.mark.parametrize("ending", ["txt", "gz"])
def test_two_aligned_files(tmp_path, ending):
    names = [write(tmp_path / f"train.{side}.{ending}", lines(t)) for side, t in (("de", SOURCES), ("en", TARGETS))]
    found = read_pairs(names, Fields())
    assert (found.sources, found.targets, found.notes) == (SOURCES, TARGETS, [])


def test_tables_with_and_without_a_header(tmp_path):
    rows = list(zip(SOURCES, TARGETS, strict=True))
    plain = write(tmp_path / "plain.tsv", lines(f"{s}\t{t}" for s, t in rows))
    named = write(tmp_path / "named.tsv", "en\tyear\tde\n" + lines(f"{t}\t1999\t{s}" for s, t in rows))
    quoted = [f'"{s.replace(chr(34), chr(34) * 2)}","{t.replace(chr(34), chr(34) * 2)}"' for s, t in rows]
    table = write(tmp_path / "table.csv", lines(["de,en", *quoted]))
    for name, fields in ((plain, Fields()), (named, NAMES), (table, NAMES)):
        found = read_pairs([name], fields)
        assert (found.sources, found.targets) == (SOURCES, TARGETS), name


@pytest.mark.parametrize(("between", "given"), [(";", "auto"), (";", ";"), ("|", "auto"), ("#", "#"), ("\t", "tab")])
def test_tables_of_other_delimiters(tmp_path, between, given):
    rows = [["de", "year", "en"], *([s, "1999", t] for s, t in zip(SOURCES, TARGETS, strict=True))]
    cells = [[f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row] for row in rows]
    name = write(tmp_path / "table.csv", lines(between.join(row) for row in cells))
    found = read_pairs([name], NAMES, Reading(delimiter=given))
    assert (found.sources, found.targets) == (SOURCES, TARGETS)


def test_json_lines(tmp_path):
    rows = [json.dumps({"en": t, "de": s, "id": 3}) for s, t in zip(SOURCES, TARGETS, strict=True)]
    found = read_pairs([write(tmp_path / "pairs.jsonl", lines(rows))], NAMES)
    assert (found.sources, found.targets) == (SOURCES, TARGETS)


def test_pairs_with_an_empty_side_are_left_out_and_counted(tmp_path):
    found = read_pairs([write(tmp_path / "pairs.tsv", "a\tb\nc\t \n\td\ne\tf\n")], Fields())
    assert (found.sources, found.targets) == (["a", "e"], ["b", "f"])
    assert found.notes[0].endswith("2 pairs with an empty side left out, the first at line 2")


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("pairs.tsv", "a\tb\nc\n", "pairs.tsv:2 has 1 columns, but the first row has 2"),
        ("pairs.tsv", "a\tb\tc\n", "has no column 'source'"),
        ("pairs.csv", "source,year,text\na,1,b\n", "has no column 'target'; found 'source', 'year', 'text'"),
        ("pairs.tsv", "source\ttext\na\tb\n", "has no column 'target'"),
        ("pairs.csv", 'a,b\nc,"d\ne,f\n', "pairs.csv:2 is not valid CSV"),
        ("pairs.jsonl", '{"source": "a \\ud800", "target": "b"}\n', "pairs.jsonl:1 has half a surrogate pair"),
        ("pairs.jsonl", '{"source": "a"}\n', "pairs.jsonl:1 has no text in the field 'target'"),
        ("pairs.jsonl", "a\n", "pairs.jsonl:1 is not JSON"),
        ("pairs.jsonl", "[1]\n", "pairs.jsonl:1 is not an object"),
        ("pairs.txt", "a\n", "one .tsv, .csv or .jsonl file, or two text files"),
        ("pairs.tsv", "\t\n", "has no pair with two sides"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, name, text, sentence):
    with pytest.raises(UserError, match=sentence):
        read_pairs([write(tmp_path / name, text)], Fields())


@pytest.mark.parametrize(("left", "right"), [(3, 2), (2, 3)])
def test_files_of_unequal_length_are_refused_by_the_line_without_a_partner(tmp_path, left, right):
    names = [write(tmp_path / "a.txt", "x\n" * left), write(tmp_path / "b.txt", "y\n" * right)]
    with pytest.raises(UserError, match="ends after line 2, but .* has more lines"):
        read_pairs(names, Fields())


def test_lines_keep_their_places_where_some_are_empty(tmp_path):
    assert read_lines(write(tmp_path / "a.txt", "one\n\nthree\n")) == ["one", "", "three"]


def test_columns_that_were_named_must_be_there(tmp_path):
    with pytest.raises(UserError, match="has no column 'de'"):
        read_pairs([write(tmp_path / "pairs.tsv", "german\tenglish\nein\ta\n")], NAMES)


def test_a_text_is_one_line_whatever_white_space_it_has(tmp_path):
    row = json.dumps({"source": " ein\u00a0 Hund\nbellt\t", "target": "a\r\n\r\ndog"})
    found = read_pairs([write(tmp_path / "pairs.jsonl", row)], Fields())
    assert (found.sources, found.targets) == (["ein Hund bellt"], ["a dog"])


def test_a_field_may_be_long(tmp_path):
    found = read_pairs([write(tmp_path / "pairs.tsv", f"{'a ' * 100_000}\tb\n")], Fields())
    assert found.sources == [" ".join("a" * 100_000)]
