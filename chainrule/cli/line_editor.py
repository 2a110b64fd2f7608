"""Lines that a person types: with history, editing and completion where Python has readline, plainly elsewhere."""

import sys
from collections.abc import Callable, Sequence
from glob import glob
from types import ModuleType
from typing import TextIO

TAKE_FILES = ("/save ", "/load ")


class LineEditor:
    """Reads lines from the terminal; `words` are completed at the beginning of a line, names of files elsewhere."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._readline = _find_readline()
        if self._readline is not None:
            self._set_up(self._readline)

    @property
    def can_edit(self) -> bool:
        """Whether a line can be given to the person to change."""
        return self._readline is not None

    def read(self, prompt: str, prefilled: str = "") -> str:
        """A line without its end. EOFError once there are no more, KeyboardInterrupt at Ctrl-C."""
        readline = self._readline
        if readline is None:
            print(prompt, end="", file=sys.stderr, flush=True)
            return _read_plain(sys.stdin)
        readline.set_startup_hook((lambda: readline.insert_text(prefilled)) if prefilled else None)
        try:
            return input(prompt)
        finally:
            readline.set_startup_hook(None)

    def _set_up(self, readline: ModuleType) -> None:
        readline.set_completer_delims(" ")
        readline.set_completer(self._complete)
        if "libedit" in (readline.__doc__ or ""):
            readline.parse_and_bind("bind ^I rl_complete")
            return
        readline.parse_and_bind("tab: complete")
        readline.parse_and_bind("set enable-bracketed-paste on")  # several pasted lines are one text

    def _complete(self, begun: str, number: int) -> str | None:
        assert self._readline is not None
        line = self._readline.get_line_buffer()
        found: list[str] = []
        if line == begun and begun.startswith("/"):
            found = [word for word in self._words if word.startswith(begun)]
        elif line.startswith(TAKE_FILES):
            found = sorted(glob(f"{begun}*"))
        return found[number] if number < len(found) else None


def read_message(read_line: Callable[[str], str], prompt: str, further: str, quotes: str = '"""') -> tuple[str, bool]:
    """What a person has to say, in one line or, between quotes, in several; and whether there were quotes."""
    line = read_line(prompt).strip()
    if not line.startswith(quotes):
        return line, False
    text = line.removeprefix(quotes)
    while not text.rstrip().endswith(quotes):
        text += "\n" + read_line(further)
    return text.rstrip().removesuffix(quotes).strip("\n"), True


def _find_readline() -> ModuleType | None:
    """Python's readline, which some systems lack, and which is for terminals only."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    try:
        import readline
    except ImportError:
        return None
    return readline


def _read_plain(stream: TextIO) -> str:
    line = stream.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")
