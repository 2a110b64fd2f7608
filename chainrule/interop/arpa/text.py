"""The text of an ARPA file, read into arrays: numbers as written (log10), words as ids.

    \\data\\, then "ngram 1=37" for every order; a section \\1-grams: for every order with lines of
    "log-probability words [back-off weight]"; and \\end\\. Whatever stands before \\data\\ is a comment.

Compiled code reads the lines of the usual form; any other line is read again here, to say what is wrong with it.
"""

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chainrule.errors import UserError
from chainrule.interop.arpa.scan import WordTable, read_rows
from chainrule.text.base import EOS, UNKNOWN

BEGIN, END = "<s>", "</s>"
NO_PROBABILITY = -100.0  # what KenLM gives a special word that the file lacks
BLANKS = " \t\r"  # what may separate fields; other white space may be part of a word, as for KenLM
DATA = re.compile(rb"(?:^|\A\xef\xbb\xbf)[ \t]*\\data\\[ \t\r]*$", re.MULTILINE)
COUNT = re.compile(rb"ngram[ \t]+(\d{1,3})[ \t]*=[ \t]*(\d{1,18})")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|-inf(inity)?", re.ASCII | re.IGNORECASE)
LARGEST_TEXT, LARGEST_RATIO = 1 << 30, 200  # of what is compressed: fewer bytes than that, or times its own
LARGEST = 1e30  # of a back-off weight; far more than any, far less than what a 32-bit number holds

Advance = Callable[[int], None]


@dataclass
class Level:
    """The n-grams of one order; `offset` is where each one's line starts in the file, -1 for those added here."""

    words: np.ndarray  # int32 (n-grams, order)
    probability: np.ndarray  # float64 (n-grams), log10
    backoff: np.ndarray  # float64 (n-grams), log10
    offset: np.ndarray  # int64 (n-grams)

    def select(self, rows: np.ndarray) -> "Level":
        return Level(self.words[rows], self.probability[rows], self.backoff[rows], self.offset[rows])


@dataclass
class Arpa:
    """A whole file. The id of <unk> is 0, words follow in the file's order, and the last, `eos`, is <s> and </s>."""

    words: list[str]  # of ids 0 ... eos - 1
    levels: list[Level]  # levels[k - 1] holds the k-grams; the 1-grams are sorted by id and all there
    notes: list[str]

    @property
    def eos(self) -> int:
        return len(self.words)


class ArpaText:
    """The bytes of a file, line by line; its errors name the line of a mistake."""

    def __init__(self, path: Path, data: bytes):
        self.path, self.data = path, data

    def error(self, offset: int, message: str) -> UserError:
        line = self.data.count(b"\n", 0, offset) + 1
        return UserError(f"'{self.path}' line {line}: {message}")

    def line(self, offset: int) -> tuple[int, bytes, int]:
        """(start, line, start of the next one) of the first line from `offset` that is not blank; b"" at the end."""
        while offset < len(self.data):
            found = self.data.find(b"\n", offset)
            after = found + 1 if found >= 0 else len(self.data)
            line = self.data[offset:after].strip(b" \t\r\n")
            if line:
                return offset, line, after
            offset = after
        return offset, b"", offset

    def expect(self, offset: int, mark: str, before: str = "") -> int:
        """Where the line after `mark` starts."""
        start, line, after = self.line(offset)
        if line != mark.encode():
            raise self.error(start, f"expected '{mark}'{before}, found {shown(line)}")
        return after


def shown(line: bytes) -> str:
    text = line[:60].decode("utf-8", "backslashreplace") + ("..." if len(line) > 60 else "")
    return f"'{text}'" if line else "the end of the file (is it cut off?)"


def load(path: Path) -> ArpaText:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None
    return ArpaText(path, _decompress(path, data) if data[:2] == b"\x1f\x8b" else data)


def _decompress(path: Path, data: bytes) -> bytes:
    """gzip, of one or more members, telling how far it could be read where it is damaged."""
    parts: list[bytes] = []
    room = max(LARGEST_TEXT, LARGEST_RATIO * len(data))
    problem = ""
    while data and not problem:
        stream = zlib.decompressobj(wbits=31)
        try:
            parts.append(stream.decompress(data, room + 1))
            room -= len(parts[-1])
            problem = "" if stream.eof else "is cut off here"
        except zlib.error as error:
            problem = f"is damaged around here ({error})"
        if room < 0:
            raise UserError(f"'{path}' unpacks to more than {LARGEST_RATIO} times its size, which no ARPA file does")
        data = stream.unused_data.lstrip(b"\0")  # members may be padded
    text = b"".join(parts)
    if problem:
        raise ArpaText(path, text).error(len(text), f"the compressed file {problem}; download it again")
    return text


def parse(text: ArpaText, advance: Advance = lambda amount: None) -> Arpa:
    """Everything but the back-off structure is checked here; `advance` hears of bytes read."""
    counts, offset = _read_counts(text)
    advance(offset)
    names, unigrams, after = _read_unigrams(text, offset, counts[0])
    advance(after - offset)
    words, first, notes = _arrange(names, unigrams)
    ids = {word.encode(): id for id, word in enumerate(words)}
    ids |= {b"<UNK>": 0, END.encode(): len(words), BEGIN.encode(): len(words) + 1}
    levels = [first]
    table = WordTable(ids)
    for k, count in enumerate(counts[1:], 2):
        offset, (level, after) = after, _read_section(text, after, k, count, table)
        levels.append(level)
        advance(after - offset)
    text.expect(after, "\\end\\", _after_section(len(counts), counts[-1]))
    return Arpa(words, levels, notes)


def _after_section(k: int, count: int) -> str:
    return f" after the {count} {k}-grams that were declared"


def _read_counts(text: ArpaText) -> tuple[list[int], int]:
    """The number of n-grams of each order, and where the sections start."""
    if not text.data.strip():
        raise text.error(0, "the file is empty; expected an ARPA file, with a line '\\data\\'")
    data = DATA.search(text.data)
    if data is None:
        raise text.error(len(text.data), "there is no line '\\data\\' up to here; is this an ARPA file?")
    counts: list[int] = []
    offset = data.end() + 1
    while True:
        start, line, after = text.line(offset)
        if not line or line.startswith(b"\\"):
            break
        match = COUNT.fullmatch(line)
        if match is None or int(match[1]) != len(counts) + 1:
            raise text.error(start, f"expected 'ngram {len(counts) + 1}=' and a number, found {shown(line)}")
        if not counts and not int(match[2]):
            raise text.error(start, "expected at least one 1-gram, found 'ngram 1=0'")
        counts.append(int(match[2]))
        offset = after
    if not counts:
        raise text.error(start, f"expected 'ngram 1=' and a number after '\\data\\', found {shown(line)}")
    return counts, offset


def _number(field: str, what: str) -> float:
    if not NUMBER.fullmatch(field):
        raise ValueError(f"the {what} '{field}' is not a number")
    return float(field)


def read_line(line: bytes, k: int) -> tuple[list[str], float, float]:
    """'-0.48 <s> looking -0.47' -> (['<s>', 'looking'], -0.48, -0.47); a ValueError says what is wrong with it."""
    try:
        fields = [field for field in re.split(f"[{BLANKS}]+", line.decode()) if field]
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} of the line (0x{line[error.start]:02x}) is not UTF-8") from None
    if len(fields) not in (k + 1, k + 2):
        words = "1 word" if k == 1 else f"{k} words"
        raise ValueError(f"expected a log-probability, {words} and perhaps a back-off weight, found {shown(line)}")
    probability = _number(fields[0], "log-probability")
    backoff = _number(fields[k + 1], "back-off weight") if len(fields) == k + 2 else 0.0
    if probability > 0 and fields[k] != BEGIN:  # <s> is never predicted: some write 0, some -99, some anything
        raise ValueError(f"the log-probability {fields[0]} is above zero")
    if backoff > LARGEST:
        raise ValueError(f"the back-off weight {fields[k + 1]} is too large")
    return fields[1 : k + 1], probability, backoff


def _too_few(text: ArpaText, start: int, k: int, found: int, count: int, line: bytes) -> UserError:
    return text.error(start, f"expected {count} {k}-grams as declared, found {found} before {shown(line)}")


def _read_unigrams(text: ArpaText, offset: int, count: int) -> tuple[dict[str, int], Level, int]:
    """Which row each word has; the rows as they come; where the section ends."""
    offset = text.expect(offset, "\\1-grams:")
    names: dict[str, int] = {}
    rows: list[tuple[float, float, int]] = []
    for row in range(count):
        start, line, after = text.line(offset)
        if not line or line.startswith(b"\\"):
            raise _too_few(text, start, 1, row, count, line)
        try:
            (word,), probability, backoff = read_line(line, 1)
        except ValueError as error:
            raise text.error(start, str(error)) from None
        word = UNKNOWN if word == "<UNK>" else word
        if word in names:
            raise text.error(start, f"the 1-gram '{word}' occurs twice")
        if word == EOS:
            raise text.error(start, f"the word '{EOS}' has a meaning of its own here; rename it in the file")
        names[word] = row
        rows.append((probability, backoff, start))
        offset = after
    columns = np.array(rows, np.float64).reshape(-1, 3)
    words = np.zeros((count, 1), np.int32)
    return names, Level(words, columns[:, 0], columns[:, 1], columns[:, 2].astype(np.int64)), offset


def _arrange(names: dict[str, int], unigrams: Level) -> tuple[list[str], Level, list[str]]:
    """The words in the order of their ids, and the 1-grams in that order; the last is </s>, with the weight of <s>."""
    words = [UNKNOWN, *(word for word in names if word not in (UNKNOWN, BEGIN, END))]
    rows = np.array([names.get(word, -1) for word in [*words, END]])
    first = unigrams.select(rows)
    first.words = np.arange(len(rows), dtype=np.int32)[:, None]
    absent = rows < 0
    first.probability[absent], first.backoff[absent], first.offset[absent] = NO_PROBABILITY, 0.0, -1
    first.backoff[-1] = unigrams.backoff[names[BEGIN]] if BEGIN in names else 0.0
    missing = [name for name in (UNKNOWN, END) if name not in names]
    notes = [f"the file has no {name}: it is given the log10 probability {NO_PROBABILITY:g}" for name in missing]
    if BEGIN not in names:
        notes.append(f"the file has no {BEGIN}: the first word of a document is scored as if anything stood before it")
    if spaced := sum(len(word.split()) != 1 for word in words):
        notes.append(f"{spaced:,} words contain white space, at which texts are cut: they will not be found in any")
    return words, first, notes


def _read_section(text: ArpaText, offset: int, k: int, count: int, table: WordTable) -> tuple[Level, int]:
    offset = text.expect(offset, f"\\{k}-grams:", f" after the {k - 1}-grams that were declared")
    most = min(count, (len(text.data) - offset) // (2 * k + 1) + 1)  # a line takes that many bytes at least
    level = Level(np.empty((most, k), np.int32), np.empty(most), np.zeros(most), np.empty(most, np.int64))
    arrays = (level.words, level.probability, level.backoff, level.offset)
    buffer = np.frombuffer(text.data, np.uint8)
    row = 0
    while True:
        offset, row = read_rows(buffer, offset, row, *arrays, *table.arrays)
        if row == count:
            return level, offset
        start, line, after = text.line(offset)
        if not line or line.startswith(b"\\"):
            raise _too_few(text, start, k, row, count, line)
        try:
            words, level.probability[row], level.backoff[row] = read_line(line, k)
            level.words[row] = [table.id(word) for word in words]
        except ValueError as error:
            raise text.error(start, str(error)) from None
        level.offset[row] = start
        offset, row = after, row + 1
