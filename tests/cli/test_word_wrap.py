"""Lines are broken between words, however the text is cut into pieces, and what a terminal then shows is the text."""

import re

import pytest

from chainrule.cli.word_wrap import WordWrap

TEXT = "The sea is everything. It covers seven tenths of the terrestrial globe.\n\nIts breath\tis pure and healthy."


def shown(printed: str, columns: int) -> list[str]:
    """The lines on a terminal of so many columns."""
    lines, column = [""], 0
    for part in re.findall(r"\x1b\[\d+D\x1b\[K|.|\n", printed, re.DOTALL):
        if part.startswith("\x1b"):
            column -= int(part[2:].partition("D")[0])
            assert column >= 0
            lines[-1] = lines[-1][:column]
        elif part == "\n":
            lines.append("")
            column = 0
        else:
            if column == columns:
                lines.append("")
                column = 0
            part = " " * (8 - column % 8) if part == "\t" else part
            lines[-1] += part
            column += len(part)
    return lines


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("columns", [14, 20, 37, 80])
def test_no_word_is_cut_at_the_edge(size: int, columns: int):
    wrap = WordWrap(columns)
    printed = "".join(wrap.feed(TEXT[place : place + size]) for place in range(0, len(TEXT), size))
    lines = shown(printed, columns)
    assert max(map(len, lines)) < columns
    assert " ".join(lines).split() == TEXT.split()
    words = TEXT.split()
    assert all(word in words for line in lines for word in line.split())


def test_what_fits_is_printed_as_it_is():
    assert WordWrap(80).feed("Hello, world.\n  indented\n") == "Hello, world.\n  indented\n"


def test_a_word_that_crosses_the_edge_is_erased_and_begun_again():
    wrap = WordWrap(10)
    assert [wrap.feed(piece) for piece in ("the ba", "na", "nas", " are")] == [
        "the ba", "na", "n\x1b[5D\x1b[K\nbananas", " a\x1b[1D\x1b[K\nare"
    ]  # fmt: skip


def test_a_word_that_is_longer_than_a_line_is_left_to_the_terminal():
    address = "https://example.org/a/very/long/address"
    wrap = WordWrap(12)
    printed = "".join(wrap.feed(character) for character in f"see {address} now")
    assert shown(printed, 12)[0] == "see "
    assert address in printed.replace("\n", "") and printed.count("\x1b") <= 2
    assert printed.endswith("now")


def test_characters_of_two_columns_count_twice():
    assert WordWrap(10).feed("ab 日本語") == "ab 日本語"
    assert WordWrap(8).feed("ab 日本語") == "ab 日本\x1b[4D\x1b[K\n日本語"
