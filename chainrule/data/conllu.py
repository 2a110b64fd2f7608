"""CoNLL-U: a word a line with ten columns, a blank line after each sentence (universaldependencies.org/format.html).

A sentence keeps its lines as they stand, so what is read is written again byte for byte: comments, words that
stand for two (1-2), empty nodes (1.1), line ends. Only tags are ever put in.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from chainrule.data.decoding import TextDecoder
from chainrule.data.sources import Source, expand
from chainrule.data.streams import Meter, read_chunks
from chainrule.errors import UserError

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
NOTHING = "_"  # a column that is left open
IDENTIFIER = re.compile(r"([0-9]{1,9})(?:([-.])([0-9]{1,9}))?")
NO_SPACE_AFTER = "SpaceAfter=No"


@dataclass(frozen=True)
class Sentence:
    """Its lines, blank ones after it too, and which of them are words."""

    lines: tuple[str, ...]
    places: tuple[int, ...]
    path: str
    first_line: int  # of the file, counted from 1

    @cached_property
    def words(self) -> tuple[str, ...]:
        return self.column("form")

    def column(self, name: str) -> tuple[str, ...]:
        """One column of every word."""
        index = COLUMNS.index(name)
        return tuple(self.lines[place].rstrip("\r").split("\t")[index] for place in self.places)

    def line_of(self, word: int) -> int:
        """The line of the file at which a word stands."""
        return self.first_line + self.places[word]

    def with_columns(self, columns: Mapping[str, Sequence[str]]) -> "Sentence":
        """The same with these columns of its words filled in; lines that are no words stay as they are."""
        lines = list(self.lines)
        for word, place in enumerate(self.places):
            cells = lines[place].split("\t")
            for name, values in columns.items():
                cells[COLUMNS.index(name)] = values[word]
            lines[place] = "\t".join(cells)
        return replace(self, lines=tuple(lines))


def read(inputs: Iterable[str | os.PathLike[str]], encoding: str = "auto") -> list[Sentence]:
    """All sentences of these files, of which there must be one."""
    sources = expand(inputs)
    sentences = [sentence for source in sources for sentence in parse(read_text(source, encoding), source.name)]
    if not sentences:
        named = " and ".join(f"'{source.name}'" for source in sources[:3])
        raise UserError(f"{named} {'is' if len(sources) == 1 else 'are'} empty: there is no sentence to read")
    return sentences


def read_text(source: Source, encoding: str = "auto") -> str:
    """A file's text with its line ends as they are."""
    chunks = TextDecoder(source.name, encoding).decode(read_chunks(source, Meter()))
    return b"".join(chunks).decode()


def is_conllu(text: str) -> bool:
    """Whether the first line that is no comment has columns, which raw text has not."""
    first = next((line for line in text.split("\n") if line.strip() and not line.startswith("#")), "")
    return first.count("\t") >= 2


def parse(text: str, path: str) -> Iterator[Sentence]:
    """Sentences whose lines, all in a row, are those of the text."""
    lines = text.split("\n")
    begin, has_words, is_over = 0, False, False
    for at, line in enumerate(lines):
        if not line.strip():
            is_over = has_words
            continue
        if is_over:
            yield _sentence(lines[begin:at], path, begin + 1)
            begin, is_over = at, False
        has_words = True
    if has_words:
        yield _sentence(lines[begin:], path, begin + 1)


def write(sentences: Iterable[Sentence]) -> str:
    """The text that these sentences are parsed from; two have a blank line between them."""
    lines: list[str] = []
    for sentence in sentences:
        if lines and lines[-1].strip():
            lines.append("")
        lines += sentence.lines
    return "\n".join(lines)


def make_sentence(words: Sequence[str], spaced: Sequence[bool], text: str) -> Sentence:
    """A new sentence, all columns but the form open; `spaced` says after which words there is a space."""
    rows = [
        "\t".join([str(number), word, *[NOTHING] * 7, NOTHING if is_spaced else NO_SPACE_AFTER])
        for number, (word, is_spaced) in enumerate(zip(words, spaced, strict=True), 1)
    ]
    return Sentence((f"# text = {text}", *rows, ""), tuple(range(1, len(words) + 1)), "", 1)


def _sentence(lines: list[str], path: str, first_line: int) -> Sentence:
    """The words among these lines; what is no CoNLL-U is refused with the number of its line."""
    places: list[int] = []
    reached = -1  # the last line of a token
    for at, line in enumerate(lines):
        where = f"'{path}' line {first_line + at}"
        if not line.strip():
            continue
        if line.startswith("#"):
            if reached >= 0:
                raise UserError(f"{where} is a comment within a sentence; a blank line must come before it")
            continue
        if _is_word(line, len(places), where):
            places.append(at)
        reached = at
    if not places:
        raise UserError(f"'{path}' line {first_line} begins a sentence without words; remove it, or add its words")
    return Sentence(tuple(lines), tuple(places), path, first_line)


def _is_word(line: str, words: int, where: str) -> bool:
    """Whether a line is a word; or else it is one that stands for several, or an empty node."""
    cells = line.rstrip("\r").split("\t")
    if len(cells) != len(COLUMNS):
        raise UserError(f"{where} has {len(cells)} columns instead of ten with tabs between them; found {line[:60]!r}")
    if not all(cells):
        name = COLUMNS[cells.index("")]
        raise UserError(f"{where} has nothing in its column {name}; write _ for what is left open")
    match = IDENTIFIER.fullmatch(cells[0])
    if match is None:
        raise UserError(f"{where} begins with '{cells[0][:30]}', which is no id; ids are 1, 1-2 or 1.1")
    number, kind = int(match[1]), match[2]
    if kind == "." and number == words:
        return False
    if kind == "-" and number == words + 1 and int(match[3]) >= number:
        return False
    if kind is None and number == words + 1:
        return True
    raise UserError(f"{where} has the id {cells[0]} after {words} words; ids count up from 1 in each sentence")
