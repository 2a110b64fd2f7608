"""Files of records: JSON Lines, CSV and TSV. A record is the line of the file it starts at, and its text."""

import csv
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from chainrule.data.delimiters import AUTO, SAMPLED_LINES, choose_delimiter
from chainrule.errors import Argument, UserError, did_you_mean

Record = tuple[int, str]
DEFAULT_FIELD = "text"
FIELD = Argument("field", "NAME")
NAMES_SHOWN = 12


def read_jsonl(name: str, chunks: Iterable[bytes], field: str) -> Iterator[Record]:
    """One JSON object per line, its text in `field`, which reaches into objects with dots ("post.body")."""
    for number, line in enumerate(split_lines(chunks), start=1):
        if not line or line.isspace():
            continue
        where = f"{name}:{number}"
        try:
            value = json.loads(line.decode())
        except (ValueError, RecursionError) as error:
            raise UserError(
                f'{where} is not JSON ({error}); write one object per line, such as {{"{field}": "..."}}'
            ) from error
        yield number, _text_of(value, field, where)


def read_csv(name: str, chunks: Iterable[bytes], field: str, delimiter: str) -> Iterator[Record]:
    """A table with a header row, its text in the column `field`, or in its only column.

    Where the delimiter is 'auto', it is chosen by the first lines.
    """
    allow_long_fields()
    lines: Iterator[str] = (line.decode() + "\n" for line in split_lines(chunks))
    if delimiter == AUTO:
        sample = list(islice(lines, SAMPLED_LINES))
        delimiter, lines = choose_delimiter(sample, field), chain(sample, lines)
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    line = 1
    column, width = -1, 0
    try:
        for row in rows:
            if row and column < 0:
                column, width = choose_column(name, row, field), len(row)
            elif row:
                _check_width(f"{name}:{line}", len(row), width)
                yield line, row[column]
            line = rows.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{name}:{line} is not valid CSV ({error}); put quotes around a field and double those inside it"
        ) from error


def allow_long_fields() -> None:
    """Python's own limit is 128 KiB."""
    csv.field_size_limit(2**31 - 1 if sys.platform == "win32" else sys.maxsize)


def choose_column(name: str, columns: list[str], field: str) -> int:
    """Where the text is: in the column named, or, with no name given, in the only column."""
    if field in columns:
        return columns.index(field)
    if len(columns) == 1 and field == DEFAULT_FIELD:
        return 0
    raise UserError(f"'{name}' has no column {missing(field, columns)}; rename one", FIELD)


def missing(field: str, found: list[str]) -> str:
    """The end of the sentence for a field or column that is not there."""
    shown = ", ".join(f"'{known}'" for known in found[:NAMES_SHOWN]) + (", ..." if len(found) > NAMES_SHOWN else "")
    hint = did_you_mean(field, found) or ";"
    return f"'{field}'{hint} found {shown or 'none'}"


def split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a chunked text without their line feeds, however long a line is."""
    pieces: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        if others:
            yield b"".join(pieces)
            yield from others[:-1]
            pieces = [others[-1]]
    if any(pieces):
        yield b"".join(pieces)


def _check_width(where: str, found: int, expected: int) -> None:
    if found != expected:
        raise UserError(
            f"{where} has {found} column{'s' * (found != 1)} but the header has {expected}; "
            "put quotes around fields that hold the delimiter"
        )


def _text_of(value: object, field: str, where: str) -> str:
    if not isinstance(value, dict):
        raise UserError(f'{where} is {_kind(value)}, not an object; write each line as {{"{field}": "..."}}')
    found = _look_up(value, field)
    if found is _ABSENT:
        raise UserError(f"{where} has no field {missing(field, list(_field_names(value)))}; rename one", FIELD)
    if not isinstance(found, str):
        raise UserError(f"{where} has {_kind(found)} in field '{field}', not a string; convert it", FIELD)
    return found


_ABSENT = object()


def _look_up(value: object, field: str) -> object:
    """A field by its whole name, or else by its dotted path."""
    if isinstance(value, dict) and field in value:
        return value[field]
    for part in field.split("."):
        if not isinstance(value, dict) or part not in value:
            return _ABSENT
        value = value[part]
    return value


def _field_names(value: dict[str, object], prefix: str = "") -> Iterator[str]:
    for name, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from _field_names(inner, f"{prefix}{name}.")
        else:
            yield prefix + name


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    kinds = {dict: "an object", list: "a list", str: "a string", int: "a number", float: "a number"}
    return kinds[type(value)]
