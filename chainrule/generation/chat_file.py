"""Conversations in a file, as OpenAI has them: a JSON object a line, {"messages": [{"role": ..., "content": ...}]}.

An answer that did not come to its end has OpenAI's "weight": 0, which keeps it out of what is learned from the file.
"""

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chainrule.errors import UserError
from chainrule.generation.chat_history import PartialMessage
from chainrule.text.chat import Message

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


@dataclass(frozen=True)
class SavedChat:
    """One conversation of a file: its line, and which one it is (from 1) of how many."""

    line: str
    number: int
    count: int


def load_chat(path: Path, number: int | None = None) -> tuple[SavedChat, list[Message]]:
    """A conversation of a file, by its number; the last one where no number is given."""
    lines = [line for line in _read_lines(path) if line.strip()]
    if not lines:
        raise UserError(f"'{path}' is empty; it holds no conversation")
    if number is not None and not 1 <= number <= len(lines):
        raise UserError(f"'{path}' has no conversation {number}; they are numbered from 1 to {len(lines)}")
    number = number or len(lines)
    return SavedChat(lines[number - 1], number, len(lines)), _parse(lines[number - 1], path, number)


def save_chat(path: Path, messages: Iterable[Message], before: SavedChat | None = None) -> SavedChat:
    """Write a conversation into a file, in place of what it was `before` or, where that is not there, at the end.

    Everything else in the file stays; a file of something else is refused.
    """
    lines = [line for line in _read_lines(path) if line.strip()] if path.exists() else []
    for number, line in enumerate(lines, 1):
        _parse(line, path, number)
    line = json.dumps({"messages": [_to_json(each) for each in messages]}, ensure_ascii=False)
    place = lines.index(before.line) if before is not None and before.line in lines else len(lines)
    lines[place : place + 1] = [line]
    _write(path, "".join(f"{each}\n" for each in lines))
    return SavedChat(line, place + 1, len(lines))


class ChatFiles:
    """Where the present conversation stands in the files that it came from or went to."""

    def __init__(self) -> None:
        self._saved: dict[Path, SavedChat] = {}

    def load(self, path: Path, number: int | None = None) -> tuple[SavedChat, list[Message]]:
        """Another conversation, which is the present one from now on."""
        saved, messages = load_chat(path, number)
        self._saved = {path.resolve(): saved}
        return saved, messages

    def save(self, path: Path, messages: Iterable[Message]) -> SavedChat:
        """Write the present conversation; saved again, it takes the place of what it was before."""
        saved = save_chat(path, messages, self._saved.get(path.resolve()))
        self._saved[path.resolve()] = saved
        return saved

    def begin(self) -> None:
        """The conversation that comes now is a new one."""
        self._saved = {}


def check_chat_file(path: Path) -> None:
    """Refuse a file that conversations cannot be saved to, before there is one to lose."""
    if path.exists():
        for number, line in enumerate((line for line in _read_lines(path) if line.strip()), 1):
            _parse(line, path, number)
    elif not path.parent.is_dir():
        raise UserError(f"cannot write '{path}': there is no folder '{path.parent}'")


def _to_json(message: Message) -> dict[str, object]:
    found: dict[str, object] = {"role": message.role, "content": message.text}
    return {**found, "weight": 0} if isinstance(message, PartialMessage) else found


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"'{path}' is not UTF-8 (byte {error.start}), so it is no file of conversations") from None
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole, so that one that cannot be written is not lost."""
    target = path.resolve()  # a link stays a link
    new = target.with_name(f".{target.name}.new")
    try:
        new.write_bytes(text.encode("utf-8", "replace"))
        if target.exists():
            shutil.copymode(target, new)
        os.replace(new, target)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise UserError(f"cannot write '{path}': {error.strerror}") from None


def _parse(line: str, path: Path, number: int) -> list[Message]:
    where = f"conversation {number} of '{path}'"
    try:
        found = json.loads(line)
    except ValueError:
        raise UserError(f"{where} is not a JSON object; a conversation a line is expected") from None
    messages = found.get("messages") if isinstance(found, dict) else None
    if not isinstance(messages, list) or not messages:
        raise UserError(f"{where} has no list of messages, as in {{'messages': [...]}}")
    return [_parse_message(each, f"message {place} of {where}") for place, each in enumerate(messages, 1)]


def _parse_message(message: object, where: str) -> Message:
    role, text = (message.get("role"), message.get("content")) if isinstance(message, dict) else (None, None)
    if role not in ROLES:
        raise UserError(f"the role in {where} must be system, user or assistant, got {role!r}")
    if not isinstance(text, str):
        raise UserError(f"the content of {where} must be text, got {text!r}")
    if role == "assistant" and isinstance(message, dict) and message.get("weight") == 0:
        return PartialMessage("assistant", text)
    return Message(ROLES[role], text)
