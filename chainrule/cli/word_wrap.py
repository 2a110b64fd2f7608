"""Breaking lines between words in text that arrives piece by piece, on a terminal."""

import re

BACK = "\x1b[{}D\x1b[K"  # so many columns back, and erase from there
TAB = 8


class WordWrap:
    """`feed` returns what to print: the text, where a word that crosses the edge begins on the next line instead.

    The beginning of such a word was printed before its end was known, so it is erased. A word that is longer than a
    line is left to the terminal. The text must have no control characters but tabs and line ends.
    """

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._column = 0  # of the cursor
        self._word = ""  # what was printed of the last word
        self._is_long = False  # whether that word began at the left edge and fills the line

    def feed(self, text: str) -> str:
        return "".join(map(self._feed_space_or_character, re.findall(r"\s|\S", text)))

    def _feed_space_or_character(self, character: str) -> str:
        return self._feed_space(character) if character.isspace() else self._feed_character(character)

    def _feed_space(self, space: str) -> str:
        self._word, self._is_long = "", False
        self._column += TAB - self._column % TAB if space == "\t" else 1
        if space == "\n" or self._column >= self._columns:
            self._column, space = 0, "\n"
        return space

    def _feed_character(self, character: str) -> str:
        width, former = _width(character), self._word
        self._word += character
        self._column += width
        if self._column < self._columns:
            return character
        if self._is_long or _width(former) + width == self._column:  # it began at the left edge
            self._is_long = True
            self._column %= self._columns
            return character
        self._column = _width(self._word)
        return (BACK.format(_width(former)) if former else "") + "\n" + self._word


def _width(text: str) -> int:
    """How many columns a terminal takes for a text; some characters take two, or none."""
    from rich.cells import cell_len

    return cell_len(text)
