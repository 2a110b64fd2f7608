"""Text that a command is given by standard input or in a file rather than as an argument."""

import sys
from pathlib import Path

from chainrule.errors import UserError


def read_standard_input(why: str = "'-' stands for standard input", otherwise: str = "give the text itself") -> str:
    """All of it; where that cannot be, the error says `why` it was to be read and what to do `otherwise`."""
    if sys.stdin is None or sys.stdin.closed:
        raise UserError(f"{why}, which is closed; {otherwise}")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UserError(f"standard input is not UTF-8 (byte {error.start}); convert it first") from None
    except OSError as error:
        raise UserError(f"cannot read standard input: {error.strerror}; {otherwise}") from None


def read_text_file(path: Path) -> str:
    """A prompt in a file, without the line end that editors add."""
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"'{path}' is not UTF-8 (byte {error.start}); convert it first") from None
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None
