"""What separates the columns of a table: much of Europe writes CSV with semicolons, spreadsheets also with tabs."""

import csv
from collections.abc import Sequence

from chainrule.errors import UserError

AUTO = "auto"
CANDIDATES = (",", ";", "\t", "|")
NAMES = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": " "}
SAMPLED_LINES = 100


def find_delimiter(given: str) -> str:
    """The character that a setting stands for: ';', 'tab', '\\\\t'; 'auto' stays as it is."""
    delimiter = NAMES.get(given, given)
    if given != AUTO and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise UserError(f"a delimiter is one character such as ';', or one of auto, {', '.join(NAMES)}; got {given!r}")
    return delimiter


def choose_delimiter(lines: Sequence[str], field: str) -> str:
    """The delimiter of a table by its first lines: that with which the header has a column `field`, and all rows have
    as many columns as the header; a comma where no candidate gives two columns."""
    best, chosen = (False, 0.0, 0), ","
    for delimiter in CANDIDATES:
        rows = _rows(lines, delimiter)
        width = len(rows[0]) if rows else 0
        if width < 2:
            continue
        even = sum(len(row) == width for row in rows) / len(rows)
        rank = (field in rows[0], even, width)
        if rank > best:
            best, chosen = rank, delimiter
    return chosen


def _rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """The rows as far as they are sound; a last one that may go on beyond the lines is left out."""
    rows: list[list[str]] = []
    try:
        for row in csv.reader(lines, delimiter=delimiter, strict=True):
            if row:
                rows.append(row)
    except csv.Error:
        pass
    return rows[:-1] if len(lines) == SAMPLED_LINES and len(rows) > 1 else rows
