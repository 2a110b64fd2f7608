"""The one error people are meant to see: what is wrong, what was found, what to do."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

# What would break a line or steer a terminal: names from files may hold it. And halves of characters.
CONTROLS = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
LONGEST = 2000


def one_line(text: str) -> str:
    """Line breaks as spaces, other control characters spelled out: '\\x1b[31m'."""
    text = re.sub(r"[\n-\r\x85\u2028\u2029]+", " ", text)
    text = CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


@dataclass(frozen=True)
class Argument:
    """An argument whose value would avoid an error, as in `truncate=True`."""

    name: str
    value: object = True

    def __str__(self) -> str:
        """As Python writes it: 'truncate=True'."""
        return f"{self.name}={self.value!r}"

    @property
    def flag(self) -> str:
        """As the command line writes it: '--truncate', '--max-tokens 5'."""
        flag = f"--{self.name.replace('_', '-')}"
        return flag if self.value is True else f"{flag} {self.value}"


class UserError(Exception):
    """Bad input or settings. The command line prints it as one line and exits with code 2.

    `sentence` is complete by itself. Where passing an argument would help, too, `remedy` is that argument: str(error)
    adds it as Python writes it, `for_command_line` as a flag, and the server, whose clients can pass neither, answers
    with `sentence` alone.
    """

    def __init__(self, sentence: str, remedy: Argument | None = None):
        self.sentence, self.remedy = one_line(sentence), remedy
        super().__init__(self.sentence if remedy is None else f"{self.sentence} or pass {remedy}")

    @property
    def for_command_line(self) -> str:
        return self.sentence if self.remedy is None else f"{self.sentence} or pass {self.remedy.flag}"


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """'; did you mean 'poems'?' where something known is close to `wrong` or begins so, else the empty string."""
    known = list(known)
    close = get_close_matches(wrong, known, n=1, cutoff=0.7) or [
        each for each in known if wrong and each.startswith(wrong)
    ]
    return f"; did you mean '{close[0]}'?" if close else ""


class Diverged(UserError):
    """Training that went wrong in a way that going on would only repeat."""


class Stopped(Exception):
    """Work that was asked to stop, and stopped in good order: the sentence says how to go on."""

    def __init__(self, sentence: str, exit_code: int):
        super().__init__(sentence)
        self.exit_code = exit_code
