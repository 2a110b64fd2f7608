"""Stop strings cut the same text however it arrives."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.generation.stop import StopStrings

TEXT = st.text("abé", max_size=12)
STRINGS = st.lists(st.text("abé", min_size=1, max_size=4), max_size=3).map(tuple)


def run(strings: tuple[str, ...], pieces: list[str]) -> tuple[str, bool]:
    stop, text = StopStrings(strings), ""
    for piece in pieces:
        text += stop.feed(piece)
        if stop.found:
            return text, True
    return text + stop.flush(), False


def naive(strings: tuple[str, ...], text: str) -> tuple[str, bool]:
    """Add one character at a time, and cut before the longest stop string the text then ends with."""
    for end in range(1, len(text) + 1):
        ending = [string for string in strings if text[:end].endswith(string)]
        if ending:
            return text[: end - max(map(len, ending))], True
    return text, False


@given(STRINGS, TEXT, st.lists(st.integers(0, 12), max_size=4))
def test_pieces_give_what_the_whole_text_gives(strings: tuple[str, ...], text: str, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(edges)]
    assert run(strings, pieces) == naive(strings, text)


@given(STRINGS, TEXT)
def test_text_is_held_back_only_while_it_may_begin_a_stop_string(strings: tuple[str, ...], text: str) -> None:
    stop, given_out = StopStrings(strings), ""
    for character in text:
        given_out += stop.feed(character)
        if stop.found:
            return
        held = stop.held
        assert held == "" or any(string.startswith(held) for string in strings)


@pytest.mark.parametrize(
    ("strings", "pieces", "text"),
    [
        (("\n\n",), ["one\n", "\ntwo"], "one"),
        (("END", "."), ["a E", "N.", " END"], "a EN"),
        (("abc", "b"), ["abc"], "a"),
        (("bc", "abc"), ["a", "b", "c"], ""),
        (("aab",), ["a", "a", "a", "b"], "a"),
        (("火事",), ["山火", "事だ"], "山"),
    ],
)
def test_hand_worked_cuts(strings: tuple[str, ...], pieces: list[str], text: str) -> None:
    assert run(strings, pieces) == (text, True)
