"""Pairs of texts, a source and its target: two aligned files, line by line, or one file of records with both.

A TSV or CSV file has a header with the names of the two columns, or no header and just two columns. A JSONL file has
the two fields in every line. Pairs with an empty side are left out and counted; whatever else does not fit is refused.
A text is one line: all white space in it, line ends too, is single spaces.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest

import numpy as np

from chainrule.data.corpus import DEFAULT_READING
from chainrule.data.delimiters import AUTO, SAMPLED_LINES, choose_delimiter, find_delimiter
from chainrule.data.documents import Documents
from chainrule.data.formats import Reader, encode_text
from chainrule.data.records import allow_long_fields, missing, split_lines
from chainrule.data.settings import Reading
from chainrule.data.sources import Source, expand
from chainrule.errors import UserError

TABLES = ("csv", "tsv")
Row = tuple[int, str, str]  # the line it stands at, and both texts


@dataclass(frozen=True)
class Fields:
    """What the two columns or fields are called."""

    source: str = "source"
    target: str = "target"


@dataclass
class Pairs:
    sources: list[str]
    targets: list[str]
    files: list[str]  # the paths read
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.sources)

    def select(self, chosen: np.ndarray) -> "Pairs":
        """Those of a boolean mask or of some indices."""
        places = np.arange(len(self))[chosen].tolist()
        return Pairs([self.sources[i] for i in places], [self.targets[i] for i in places], self.files, self.notes)


def read_pairs(inputs: Sequence[str], fields: Fields, reading: Reading = DEFAULT_READING) -> Pairs:
    """From one file with both sides, or from two files of as many lines."""
    files = [expand([each]) for each in inputs]
    flat = [source for group in files for source in group]
    if len(flat) == 1 and flat[0].format != "text":
        rows = _records(flat[0], fields, reading)
    elif len(flat) == 2 and all(source.format == "text" for source in flat):
        rows = _aligned(flat[0], flat[1], reading.encoding)
    else:
        named = " and ".join(f"'{source.name}'" for source in flat[:3]) + " and more" * (len(flat) > 3)
        raise UserError(
            f"pairs are read from one .tsv, .csv or .jsonl file, or two text files of equal length; got {named}"
        )
    found = Pairs([], [], [source.path for source in flat])
    empty: list[int] = []
    for line, *both in rows:
        source, target = map(in_one_line, both)
        if source and target:
            found.sources.append(source)
            found.targets.append(target)
        else:
            empty.append(line)
    if empty:
        pairs = f"{len(empty):,} pair{'s' * (len(empty) > 1)}"
        found.notes.append(f"{flat[0].name}: {pairs} with an empty side left out, the first at line {empty[0]:,}")
    if not len(found):
        raise UserError(f"'{flat[0].name}' has no pair with two sides, so there is nothing to learn from")
    return found


def in_one_line(text: str) -> str:
    """'a  dog\\nbarks ' -> 'a dog barks'"""
    return " ".join(text.split())


def _lines(source: Source, encoding: str) -> Iterator[str]:
    for line in split_lines(Reader(source, encoding=encoding).text_chunks()):
        yield line.decode()


def _aligned(left: Source, right: Source, encoding: str) -> Iterator[Row]:
    both = zip_longest(_lines(left, encoding), _lines(right, encoding))
    for number, (source, target) in enumerate(both, start=1):
        if source is None or target is None:
            longer, shorter = (left, right) if target is None else (right, left)
            raise UserError(
                f"'{shorter.name}' ends after line {number - 1:,}, but '{longer.name}' has more lines; "
                "the two files must have the same number of lines"
            )
        yield number, source, target


def _records(source: Source, fields: Fields, reading: Reading) -> Iterator[Row]:
    if source.format == "jsonl":
        return _objects(source, fields, reading.encoding)
    if source.format in TABLES:
        return _table(source, fields, reading)
    raise UserError(f"'{source.name}' is not a file of pairs; give a .tsv, .csv or .jsonl file, or two text files")


def _objects(source: Source, fields: Fields, encoding: str) -> Iterator[Row]:
    for number, line in enumerate(_lines(source, encoding), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{source.name}:{number} is not JSON ({error}); write one object per line") from None
        if not isinstance(value, dict):
            raise UserError(f"{source.name}:{number} is not an object; write each line as an object with both sides")
        texts = []
        for name in (fields.source, fields.target):
            if not isinstance(value.get(name), str):
                raise UserError(
                    f"{source.name}:{number} has no text in the field {_missing(name, fields, list(value))}"
                )
            texts.append(value[name])
            encode_text(f"{source.name}:{number}", value[name])
        yield number, texts[0], texts[1]


def _table(source: Source, fields: Fields, reading: Reading) -> Iterator[Row]:
    places: tuple[int, int] | None = None
    width = 2
    for line, row in read_rows(source, reading, (fields.source,)):
        if places is None:
            width = len(row)
            absent = [name for name in (fields.source, fields.target) if name not in row]
            is_header = not absent
            if absent and (width != 2 or len(absent) == 1 or fields != Fields()):
                raise UserError(f"'{source.name}' has no column {_missing(absent[0], fields, row)}")
            places = (row.index(fields.source), row.index(fields.target)) if is_header else (0, 1)
            if is_header:
                continue
        check_width(source, line, row, width)
        yield line, row[places[0]], row[places[1]]


def read_rows(source: Source, reading: Reading, names: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table that are not empty, each with the line at which it begins; `names` are of columns that a
    header may have, by which the delimiter is told.

    TSV files of sentences are seldom quoted, so quotes in them are just quotes.
    """
    delimiter, is_plain = find_delimiter(reading.delimiter), source.format == "tsv"
    lines: Iterator[str] = (line + "\n" for line in _lines(source, reading.encoding))
    if delimiter == AUTO and is_plain:
        delimiter = "\t"
    elif delimiter == AUTO:
        sample = list(islice(lines, SAMPLED_LINES))
        named = next((name for name in names if sample and name in sample[0]), "")
        delimiter, lines = choose_delimiter(sample, named), chain(sample, lines)
    allow_long_fields()
    rows = csv.reader(
        lines, delimiter=delimiter, quoting=csv.QUOTE_NONE if is_plain else csv.QUOTE_MINIMAL, strict=True
    )
    line = 1
    try:
        for row in rows:
            if row:
                yield line, row
            line = rows.line_num + 1
    except csv.Error as error:
        raise UserError(f"{source.name}:{line} is not valid CSV ({error})") from None


def check_width(source: Source, line: int, row: list[str], width: int) -> None:
    if len(row) != width:
        raise UserError(f"{source.name}:{line} has {len(row)} columns, but the first row has {width}")


def _missing(name: str, fields: Fields, found: list[str]) -> str:
    which = "source" if name == fields.source else "target"
    return f"{missing(name, found)}; set {which} to one of them"


def as_documents(texts: Sequence[str], path: str) -> Documents:
    """Texts as documents, to train a tokenizer on and to encode."""
    encoded = [encode_text(f"{path}:{number}", text) for number, text in enumerate(texts, start=1)]
    ends = np.cumsum([len(each) for each in encoded], dtype=np.int64)
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    buffer = np.frombuffer(bytearray(b"".join(encoded)), np.uint8)
    return Documents(buffer, starts, ends, np.arange(1, len(texts) + 1), path, 0)


def read_lines(name: str, encoding: str = "auto") -> list[str]:
    """Every line of a text file, empty ones too, so that what is made of them stays in step."""
    found = expand([name])
    if len(found) != 1 or found[0].format not in ("text",):
        raise UserError(f"'{name}' is not one file of text; give a file with one text a line, or - for standard input")
    return list(_lines(found[0], encoding))
