"""Cutting a text that arrives in parts where its tokens cannot reach across, so that it is encoded as it is read.

Such a place is before a space that follows something other than white space: the usual patterns put a space at the
beginning of a token, with what follows it, and never after other characters.
"""

import re
from collections.abc import Iterable, Iterator

AT_ONCE = 1 << 15  # characters that are gathered before they are encoded
ACROSS = re.compile(r"\S ")  # a token that holds this reaches across such a place


def cut_before_spaces(texts: Iterable[str], at_once: int = AT_ONCE) -> Iterator[str]:
    """The joined texts in parts of about `at_once` characters, or more where nothing can be cut."""
    held, searched = "", 0
    for piece in _slices(texts, at_once):
        held += piece
        if len(held) < at_once:
            continue
        place = _last_place(held, searched)
        if place > 0:
            yield held[:place]
            held = held[place:]
        searched = len(held)
    if held:
        yield held


def _slices(texts: Iterable[str], size: int) -> Iterator[str]:
    for text in texts:
        for start in range(0, len(text), size):
            yield text[start : start + size]


def _last_place(text: str, start: int) -> int:
    """The last place to cut at or after `start`; -1 where there is none."""
    place = text.rfind(" ", start)
    while place > 0 and text[place - 1].isspace():
        place = text.rfind(" ", start, place)
    return place
