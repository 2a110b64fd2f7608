"""Documents as spans of one UTF-8 buffer, and the ways to cut a buffer: by line, by block, by a text that ends
documents, such as <|endoftext|>, or as one file.

Only a line feed ends a line, and two of them in a row end a block. A text that ends documents may stand on a line of
its own, whose line feeds are then no part of them. Spans of only whitespace are no documents.
"""

import re
from dataclasses import dataclass, replace

import numpy as np

from chainrule.data.blank import are_blank

NEWLINE = ord("\n")
SEPARATORS = {"line": b"\n", "block": b"\n\n", "file": b""}
# Newlines are sought in slices that stay in the processor's cache, which also bounds the memory it takes.
SEARCH_BYTES = 1 << 20


@dataclass(frozen=True)
class Documents:
    """A batch of documents in one UTF-8 buffer: document i is buffer[starts[i]:ends[i]]."""

    buffer: np.ndarray  # uint8, contiguous
    starts: np.ndarray  # int64
    ends: np.ndarray  # int64
    lines: np.ndarray  # int64, the 1-based line (or record) of the file at which each document starts
    path: str  # the file as the user named it, "-" for standard input
    separator_bytes: int  # bytes that the end of a document stands for: 1 for lines, 2 for blocks, 0 for files

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def sizes(self) -> np.ndarray:
        """The bytes of the original text that each document stands for, its separator included."""
        sizes: np.ndarray = self.ends - self.starts + self.separator_bytes
        return sizes

    def text(self, index: int) -> str:
        """One document as a string."""
        return self.buffer[self.starts[index] : self.ends[index]].tobytes().decode()

    def select(self, mask: np.ndarray) -> "Documents":
        """The documents that a boolean mask (or an array of indices) picks, over the same buffer."""
        return replace(self, starts=self.starts[mask], ends=self.ends[mask], lines=self.lines[mask])


def separator(unit: str) -> bytes:
    """What stands between two documents; a unit that is none of the usual ones is that text itself."""
    return SEPARATORS[unit] if unit in SEPARATORS else unit.encode()


def cut(buffer: np.ndarray, unit: str, path: str, first_line: int = 1, continues: bool = False) -> Documents:
    """Cut a buffer of valid UTF-8 into documents.

    `first_line` is the line of the file at which the buffer begins. `continues` says that an earlier part of
    the file ended in a separator: then newlines in front belong to the first block and are not dropped.
    """
    newlines = find_newlines(buffer) if unit != "file" else np.zeros(0, np.int64)
    if unit == "line":
        starts, ends = _line_spans(buffer, newlines)
    elif unit == "block":
        starts, ends = _block_spans(buffer, newlines, continues)
    elif unit == "file":
        starts, ends = np.zeros(1, np.int64), np.full(1, len(buffer), np.int64)
    else:
        starts, ends = _marked_spans(buffer, separator(unit), continues)
    written = ~are_blank(buffer, starts, ends)
    starts, ends = starts[written], ends[written]
    lines = first_line + np.searchsorted(newlines, starts)
    return Documents(buffer, starts, ends, lines.astype(np.int64), path, len(separator(unit)))


def find_newlines(buffer: np.ndarray) -> np.ndarray:
    """The positions of all line feeds."""
    slices = range(0, len(buffer), SEARCH_BYTES)
    found = [np.flatnonzero(buffer[start : start + SEARCH_BYTES] == NEWLINE) + start for start in slices]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _line_spans(buffer: np.ndarray, newlines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    starts = np.concatenate(([0], newlines + 1))
    ends = np.concatenate((newlines, [len(buffer)]))
    return starts, ends


def _block_spans(buffer: np.ndarray, newlines: np.ndarray, continues: bool) -> tuple[np.ndarray, np.ndarray]:
    """Each run of two or more newlines loses its first two; the rest of the run opens the next block."""
    if not len(newlines):
        return np.zeros(1, np.int64), np.full(1, len(buffer), np.int64)
    follows = np.diff(newlines) == 1  # newline i + 1 comes right after newline i
    opens_run = np.concatenate(([True], ~follows))
    has_second = np.concatenate((follows, [False]))
    first = 0 if continues else _leading(newlines)
    last = len(buffer) - _trailing(newlines, len(buffer))
    if first >= last:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    separators = newlines[opens_run & has_second]
    separators = separators[(separators > 0) & (separators >= first) & (separators < last)]
    return np.concatenate(([first], separators + 2)), np.concatenate((separators, [last]))


def _marked_spans(buffer: np.ndarray, mark: bytes, continues: bool) -> tuple[np.ndarray, np.ndarray]:
    """What is between the marks, without a line feed before or after them."""
    found = [match.span() for match in re.finditer(b"\n?" + re.escape(mark) + b"\n?", buffer.data)]
    places = np.array(found, np.int64).reshape(-1, 2)
    first = 1 if continues and len(buffer) and buffer[0] == NEWLINE else 0
    starts, ends = np.append(first, places[:, 1]), np.append(places[:, 0], len(buffer))
    return starts, np.maximum(ends, starts)


def _leading(newlines: np.ndarray) -> int:
    """How many newlines the buffer begins with."""
    gaps = np.flatnonzero(newlines != np.arange(len(newlines)))
    return int(gaps[0]) if len(gaps) else len(newlines)


def _trailing(newlines: np.ndarray, size: int) -> int:
    """How many newlines the buffer ends with."""
    return _leading(size - 1 - newlines[::-1])
