"""What lines that begin with / do in `chainrule chat`."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chainrule.cli.output import plural, print_rows, say
from chainrule.config import override, parse_assignments
from chainrule.errors import UserError, did_you_mean, one_line
from chainrule.generation.chat_file import ChatFiles
from chainrule.generation.chat_history import PartialMessage
from chainrule.generation.chat_session import Answer, ChatSession
from chainrule.generation.conversation import chat_of
from chainrule.generation.settings import OF_ANSWERS
from chainrule.progress import visible

OTHER_NAMES = {"/show": "/history", "/quit": "/exit", "/bye": "/exit", "/?": "/help"}
KEYS = (
    ('"""', 'begins a message of several lines, which ends with """'),
    ("Ctrl-C", "stops an answer; what it said so far is kept"),
    ("Ctrl-D", "ends the chat"),
)
LONGEST_QUOTED = 50
EditLine = Callable[[str], str]  # a text -> what the person made of it


class ExitChat(Exception):
    """The person wants to leave."""


class ChatCommands:
    """The commands on one session; those that lead to another answer return it."""

    def __init__(self, session: ChatSession, files: ChatFiles, edit_line: EditLine | None = None) -> None:
        self.session, self.files, self._edit_line = session, files, edit_line

    def run(self, line: str) -> Answer | None:
        """Do what a line such as '/save chats.jsonl' says."""
        name, _, argument = line.strip().partition(" ")
        name = OTHER_NAMES.get(name, name)
        if name not in COMMANDS:
            raise UserError(f"unknown command '{name}'{did_you_mean(name, COMMANDS)} (/help lists the commands)")
        return COMMANDS[name].do(self, argument.strip())

    def help(self, argument: str) -> None:
        print_rows([*((f"{name} {each.argument}".strip(), each.about) for name, each in COMMANDS.items()), *KEYS])

    def system(self, text: str) -> None:
        history = self.session.history
        if text:
            history.system = text if text != '""' else None
            say("the system message is changed; the model reads it with the next answer")
            return
        own = chat_of(self.session.tokenizer).system
        shown = history.system or (f"{own} (the model's own)" if own else "there is no system message")
        print_rows([("system", visible(shown))])

    def undo(self, argument: str) -> None:
        say(f"took back: {_quote(self.session.history.undo())}")

    def edit(self, text: str) -> Answer | None:
        question = self.session.history.split()[1]
        if not text and self._edit_line is None:
            raise UserError("type the new question after the command: /edit NEW TEXT")
        text = text or (self._edit_line(question).strip() if self._edit_line else "")
        return self.session.edit(text) if text else None

    def retry(self, argument: str) -> Answer:
        if self.session.sampling.temperature == 0 and self.session.history.unanswered is None:
            raise UserError("at temperature 0 every answer is the same; /set temperature=0.8 first")
        return self.session.retry()

    def save(self, name: str) -> None:
        messages = self.session.history.conversation
        if not any(each.role != "system" for each in messages):
            raise UserError("nothing has been said yet that could be saved")
        saved = self.files.save(_path(name, "/save"), messages)
        say(f"saved as conversation {saved.number} of {saved.count} in {name}")

    def load(self, argument: str) -> None:
        path, number = _path(argument, "/load"), None
        found = re.fullmatch(r"(.*\S)\s+(\d+)", argument)
        if found and not path.exists():
            path, number = _path(found[1], "/load"), int(found[2])
        saved, messages = self.files.load(path, number)
        history = self.session.history
        history.load(messages)
        say(f"loaded conversation {saved.number} of {saved.count} in {path}: {plural(len(messages), 'message')}")
        if history.unanswered is not None:
            say("its last question has no answer yet; /retry asks it")

    def history(self, argument: str) -> None:
        history = self.session.history
        if not history.conversation and history.unanswered is None:
            say("nothing has been said yet")
        rows = [] if history.system is None else [("system", visible(history.system))]
        for each in history.messages:
            why = f" ({each.why})" if isinstance(each, PartialMessage) else ""
            rows.append((each.role, visible(each.text) + why))
        if history.unanswered is not None:
            rows.append(("user", f"{visible(history.unanswered)} (not answered; /retry asks it again)"))
        print_rows(rows)

    def set(self, argument: str) -> None:
        if not argument:
            settings = {name: getattr(self.session.sampling, name) for name in OF_ANSWERS}
            print_rows([(name, _show_setting(value)) for name, value in settings.items()])
            return
        words = argument.split()
        assignments = parse_assignments(words if all("=" in each for each in words) else [argument])
        for name in assignments:
            if name not in OF_ANSWERS:
                raise UserError(f"unknown setting '{name}'{did_you_mean(name, OF_ANSWERS)} (/set lists the settings)")
        changes = {name: _read_setting(name, text) for name, text in assignments.items()}
        self.session.sampling = override(self.session.sampling, changes, "/set")
        say(", ".join(f"{name} is {_show_setting(getattr(self.session.sampling, name))}" for name in changes))

    def clear(self, argument: str) -> None:
        self.session.history.clear()
        self.files.begin()
        say("cleared; the next message begins a new conversation")

    def exit(self, argument: str) -> None:
        raise ExitChat


@dataclass(frozen=True)
class Command:
    """What the help says of a command, and what it does."""

    argument: str
    about: str
    do: Callable[[ChatCommands, str], Answer | None]


COMMANDS = {
    "/help": Command("", "this list", ChatCommands.help),
    "/retry": Command("", "another answer to the last question", ChatCommands.retry),
    "/edit": Command("[TEXT]", "change the last question, and get another answer", ChatCommands.edit),
    "/undo": Command("", "take back the last question and its answer", ChatCommands.undo),
    "/system": Command("[TEXT]", 'show or change the system message ("" for none)', ChatCommands.system),
    "/set": Command("[NAME=VALUE]", "show or change how answers are drawn, as temperature=0.2", ChatCommands.set),
    "/history": Command("", "what was said", ChatCommands.history),
    "/save": Command("FILE", "write the conversation to a file of conversations", ChatCommands.save),
    "/load": Command("FILE [NUMBER]", "go on with one from a file, by default its last", ChatCommands.load),
    "/clear": Command("", "begin a new conversation", ChatCommands.clear),
    "/exit": Command("", "leave", ChatCommands.exit),
}


def _path(name: str, command: str) -> Path:
    if not name:
        raise UserError(f"name a file: {command} chats.jsonl")
    return Path(name).expanduser()


def _quote(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= LONGEST_QUOTED else f"{text[:LONGEST_QUOTED]} ..."


def _read_setting(name: str, text: str) -> object:
    """'none' is no seed and no stop; a stop is one text, whatever it has in it, with quotes around it or without."""
    if name == "stop":
        return () if text in ("", "none") else (_unquote(text),)
    return None if (name, text) == ("seed", "none") else text


def _unquote(text: str) -> str:
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, str) else text


def _show_setting(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(json.dumps, value)) or "none"
    return "none" if value is None else str(value)
