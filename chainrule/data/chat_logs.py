"""Conversations as people write them down: 'User: Hello' on a line, then 'Assistant: Hi'; a message may have several
lines.

A line of --- before a user's message stands between conversations. Where there is none, a blank line does; and where
answers, too, have a blank line before them, two blank lines or more.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from chainrule.errors import UserError, did_you_mean

NAMES = {
    **dict.fromkeys(("user", "human", "customer"), "user"),
    **dict.fromkeys(("assistant", "ai", "bot", "agent"), "assistant"),
    "system": "system",
}
LETTERS = {"Q": "user", "A": "assistant"}  # small ones are words of a text
FIRST = ("user", "system")  # who may speak first in a conversation
_NAME = re.compile(r"\s{0,3}(?:#+ *|\*\*)?(\w[\w ]{0,30}?)(?:\*\*)? ?:(?:\*\*)?(?!//)[ \t]*(.*)", re.DOTALL)
_RULE = re.compile(r"\s*([-=*_])(?:\s*\1){2,}\s*")


@dataclass
class _Line:
    number: int
    text: str  # without the speaker
    role: str | None  # None: it goes on with the message of the line before
    blanks: int  # the blank lines before it
    is_after_rule: bool


@dataclass
class LoggedMessage:
    role: str
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip()


def read_log(name: str, lines: Sequence[str]) -> Iterator[tuple[int, list[LoggedMessage]]]:
    """Each conversation with the line at which it begins; `name` is the file, for errors."""
    parsed = list(_parse(lines))
    if parsed and parsed[0].role is None:
        raise _no_speaker(name, parsed[0])
    begins = _separator(parsed)
    start, messages = 1, list[LoggedMessage]()
    for line in parsed:
        if begins(line) and messages:
            yield start, messages
            messages = []
        if not messages:
            start = line.number
        if line.role is not None:
            messages.append(LoggedMessage(line.role))
        elif not messages:
            raise _no_speaker(name, line)
        else:
            messages[-1].lines += [""] * line.blanks
        messages[-1].lines.append(line.text)
    if messages:
        yield start, messages


def _parse(lines: Sequence[str]) -> Iterator[_Line]:
    """The lines that are not blank; a rule is one of them where no user speaks after it."""
    blanks, rule = 0, None
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            blanks += 1
            continue
        role, said = _speaker(text)
        if rule is not None and role not in FIRST:
            yield rule
        if role is None and _RULE.fullmatch(text):
            rule, blanks = _Line(number, text, None, blanks, False), 0
            continue
        yield _Line(number, said, role, blanks, rule is not None and role in FIRST)
        blanks, rule = 0, None


def _speaker(line: str) -> tuple[str | None, str]:
    """'User: Hello' -> ('user', 'Hello'); None where a line begins with no speaker."""
    found = _NAME.fullmatch(line)
    role = found and (LETTERS.get(found[1]) or NAMES.get(found[1].lower()))
    return (role, found[2]) if found and role else (None, line)


def _separator(lines: list[_Line]) -> Callable[[_Line], bool]:
    """What tells whether a line begins a conversation."""
    if any(line.is_after_rule for line in lines):
        return lambda line: line.is_after_rule
    between_turns = any(line.blanks and line.role == "assistant" for line in lines)
    fewest = 2 if between_turns else 1
    return lambda line: line.blanks >= fewest and line.role in FIRST


def _no_speaker(name: str, line: _Line) -> UserError:
    found = _NAME.fullmatch(line.text)
    known = [*(each.upper() if each == "ai" else each.capitalize() for each in NAMES), *LETTERS]
    hint = did_you_mean(found[1].capitalize(), known) if found else ""
    begins = f"{found[1]}:" if found else line.text.strip()[:40]
    return UserError(
        f"{name}:{line.number} is no message of a conversation: it begins with {begins!r}{hint} "
        f"(messages begin with {', '.join(f'{each}:' for each in known)})"
    )
