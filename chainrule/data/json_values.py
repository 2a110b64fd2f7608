"""The values of a file of JSON, however it is laid out: one object a line, one after the other, or all in one array."""

import json
import re
from collections.abc import Callable, Iterator

from chainrule.errors import UserError

_SPACES = re.compile(r"\s*")
_DECODER = json.JSONDecoder()


def read_values(name: str, text: str, is_one: Callable[[object], bool]) -> Iterator[tuple[int, object]]:
    """Each value with the line of the file at which it begins. An array is the values in it, unless `is_one` says of
    its first value that the array is one value itself."""
    scanner = _Scanner(name, text)
    while not scanner.is_at_end:
        if scanner.next == "[" and not is_one(scanner.first_inside()):
            yield from scanner.inside()
        else:
            yield scanner.take()


class _Scanner:
    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self.place = self.line_place = 0
        self.line = 1
        self.skip()

    @property
    def is_at_end(self) -> bool:
        return self.place == len(self.text)

    @property
    def next(self) -> str:
        return self.text[self.place : self.place + 1]

    def skip(self, count: int = 0) -> None:
        """Go on by so many characters, and over white space."""
        self.place = _SPACES.match(self.text, self.place + count).end()  # type: ignore[union-attr]

    def take(self) -> tuple[int, object]:
        self.line += self.text.count("\n", self.line_place, self.place)
        self.line_place = self.place
        value, end = self._decode(self.place)
        self.skip(end - self.place)
        return self.line, value

    def first_inside(self) -> object:
        """The first value of the array that comes next."""
        place = _SPACES.match(self.text, self.place + 1).end()  # type: ignore[union-attr]
        return None if self.text[place : place + 1] == "]" else self._decode(place)[0]

    def inside(self) -> Iterator[tuple[int, object]]:
        """The values of the array that comes next."""
        self.skip(1)
        while self.next != "]":
            yield self.take()
            if self.next == ",":
                self.skip(1)
            elif self.next != "]":
                raise self._error(self.place, "a comma or ] is missing after a value of the array")
        self.skip(1)

    def _decode(self, place: int) -> tuple[object, int]:
        try:
            return _DECODER.raw_decode(self.text, place)
        except json.JSONDecodeError as error:
            raise self._error(error.pos, error.msg) from None
        except (ValueError, RecursionError) as error:
            raise self._error(place, str(error)) from None

    def _error(self, place: int, what: str) -> UserError:
        line = 1 + self.text.count("\n", 0, place)
        return UserError(f"{self.name}:{line} is not JSON ({what}); write one object a line, or an array of objects")
