"""Conversations from files, whatever form they have, which is told by what is in them.

One object of JSON each: OpenAI's {"messages": [{"role", "content"}]}, ShareGPT's {"conversations": [{"from",
"value"}]}, Alpaca's {"instruction", "input", "output"}, or a question and its answer under usual names such as
{"prompt", "completion"}; also tables with columns so named, tables of two columns, and plain logs (see chat_logs).

What is no conversation, or has a speaker that nobody knows, is refused by its line. A conversation that cannot be
learned from is left out, and so are messages before the first question and after the last answer; both are counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from chainrule.data.chat_logs import read_log
from chainrule.data.corpus import DEFAULT_READING
from chainrule.data.formats import Reader, encode_text
from chainrule.data.json_values import read_values
from chainrule.data.pairs import check_width, read_rows
from chainrule.data.settings import Reading
from chainrule.data.sources import Source, expand
from chainrule.errors import UserError, did_you_mean
from chainrule.text.chat import Message

MOST_BYTES = 4 << 20  # of one message; what is longer is hardly anything that was said
ROLES = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human", "customer"), "user"),
    **dict.fromkeys(("assistant", "gpt", "ai", "bot", "agent", "model", "chatgpt"), "assistant"),
    **dict.fromkeys(("tool", "function", "function_call", "observation", "ipython"), "tool"),
}
LISTS = ("messages", "conversations", "conversation", "dialogue")  # fields that hold all messages
QUESTIONS = ("prompt", "instruction", "question", "user", "human", "customer", "query", "input", "source")
ANSWERS = ("completion", "response", "answer", "output", "assistant", "agent", "bot", "reply", "target")
MATERIAL = ("input", "context")  # what an instruction is about: Alpaca's field and Dolly's
SPEAKER, SAID = ("role", "from", "speaker"), ("content", "value", "text")  # fields of a message
FORMS = '{"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}'

# Why a conversation is left out, as the end of "3 conversations ..."
EMPTY = "without any message"
SILENT = "in which no assistant answers a user"
BLANK = "with an empty message"
REPEATED = "in which somebody speaks twice in a row"
LATE_SYSTEM = "with a system message that does not come first"
TOOLS = "with calls of tools"
NOT_TEXT = "with pictures or other parts that are not text"


@dataclass(frozen=True)
class Conversation:
    """A user and an assistant in turn, the assistant last; before them there may be system messages."""

    messages: tuple[Message, ...]
    place: str  # the file and the line at which it begins


@dataclass
class Conversations:
    all: list[Conversation]
    files: list[str]  # the paths read
    notes: list[str] = field(default_factory=list)


class Unusable(Exception):
    """A conversation that cannot be learned from; the reason ends a sentence about several of them."""


def read_conversations(inputs: Sequence[str], reading: Reading = DEFAULT_READING) -> Conversations:
    """All conversations of some files, with notes on what was left out."""
    sources = expand(inputs)
    found, tally = list[Conversation](), Tally()
    for source in sources:
        for line, value in _read(source, reading, tally):
            place = f"{source.name}:{line}"
            try:
                found.append(Conversation(learnable(_of_value(value, place), place, tally), place))
            except Unusable as reason:
                tally.add(f"conversation{{s}} {reason}", place)
    if not found:
        named = " and ".join(f"'{source.name}'" for source in sources[:3]) + " and more" * (len(sources) > 3)
        why = (
            f": {'; '.join(tally.notes())}" if tally.notes() else "; write one object of JSON a line, such as " + FORMS
        )
        raise UserError(f"{named} has no conversation to learn from{why}")
    return Conversations(found, [source.path for source in sources], tally.notes())


class Tally:
    """How often something was left out, and where first."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}
        self.others: list[str] = []  # sentences about what was read otherwise than it is written

    def add(self, what: str, place: str) -> None:
        count, first = self._found.get(what, (0, place))
        self._found[what] = count + 1, first

    def notes(self) -> list[str]:
        return self.others + [
            f"{count:,} {what.format(s='s' * (count > 1))} left out, the first at {place}"
            for what, (count, place) in self._found.items()
        ]


def _read(source: Source, reading: Reading, tally: Tally) -> Iterator[tuple[int, object]]:
    """What may be a conversation as JSON would have it, an object or a list of messages, and the line it begins at."""
    if source.format in ("csv", "tsv"):
        yield from _rows(source, reading)
        return
    if source.format not in ("text", "jsonl"):
        raise UserError(f"'{source.name}' is not a file of conversations; write them as .jsonl, .csv or .txt")
    reader = Reader(source, encoding=reading.encoding)
    text = b"".join(reader.text_chunks()).decode()
    tally.others += [note for note in reader.tally.notes(source.name) if "line end" not in note]
    if source.format == "jsonl" or looks_like_json(text):
        yield from read_values(source.name, text, _is_message)
        return
    for line, logged in read_log(source.name, text.split("\n")):
        yield line, [{"role": each.role, "content": each.text} for each in logged]


def looks_like_json(text: str) -> bool:
    """'{...' or '[{...', but not '[12:30] User: ...'"""
    start = text.lstrip()[:200]
    return start[:1] == "{" or (start[:1] == "[" and start[1:].lstrip()[:1] in ("{", "[", "]"))


def _rows(source: Source, reading: Reading) -> Iterator[tuple[int, dict[str, str]]]:
    """Columns named like the fields of objects, or just two columns: what is asked and what is answered."""
    header: list[str] | None = None
    width = 2
    for line, row in read_rows(source, reading, (*QUESTIONS, *ANSWERS)):
        if header is None:
            width, names = len(row), [name.strip().casefold() for name in row]
            is_header = any(name in QUESTIONS for name in names) and any(name in ANSWERS for name in names)
            if not is_header and width != 2:
                raise UserError(
                    f"'{source.name}' has {width} columns, and the first row names none of {', '.join(QUESTIONS)} and "
                    f"none of {', '.join(ANSWERS)}; name a column of each, or give two columns"
                )
            header = names if is_header else [QUESTIONS[0], ANSWERS[0]]
            if is_header:
                continue
        check_width(source, line, row, width)
        yield line, {name: cell.strip() for name, cell in zip(header, row, strict=True)}


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and first_named(SPEAKER, value) is not None and first_named(SAID, value) is not None


def _of_value(value: object, place: str) -> list[Message]:
    if isinstance(value, list):
        return _of_list(value, place)
    if not isinstance(value, dict):
        raise UserError(f"{place} is no conversation but {shown(value)}; write an object such as {FORMS}")
    return _of_object({str(name).casefold(): each for name, each in value.items()}, place)


def _of_object(record: Mapping[str, object], place: str) -> list[Message]:
    """An object, or a row of a table, by the names of its fields."""
    opening = [Message("system", _text(record["system"], place))] if record.get("system") else []
    name = first_named(LISTS, record)
    if name is not None:
        return [*opening, *_of_list(record[name], place)]
    question, answer = first_named(QUESTIONS, record), first_named(ANSWERS, record)
    if question is None or answer is None:
        raise UserError(f"{place} is no conversation: {_fields(record)}")
    asked = [*messages_of(record[question], "user", place)]
    more = first_named(MATERIAL, record)
    if question == "instruction" and more is not None and record[more]:
        asked = [Message("user", f"{asked[0].text}\n\n{_text(record[more], place)}")]
    return [*opening, *asked, *messages_of(record[answer], "assistant", place)]


def messages_of(value: object, role: str, place: str) -> list[Message]:
    """A question or an answer: a text, or a list of messages."""
    return _of_list(value, place) if isinstance(value, list) else [Message(role, _text(value, place))]


def first_named(names: Sequence[str], record: Mapping[str, object]) -> str | None:
    return next((name for name in names if name in record), None)


def _fields(record: Mapping[str, object]) -> str:
    names = list(record)[:12]
    if "chosen" in record and "rejected" in record:
        return "it has a chosen and a rejected answer, which are for learning preferences (--task preferences)"
    hint = next(filter(None, (did_you_mean(name, (*LISTS, *QUESTIONS, *ANSWERS)) for name in names)), "")
    listed = ", ".join(f"'{name}'" for name in names) or "none"
    return f"its fields are {listed}{hint or f'; write an object such as {FORMS}'}"


def _of_list(values: object, place: str) -> list[Message]:
    if not isinstance(values, list):
        raise UserError(f"{place} has {shown(values)} where a list of messages is needed, such as {FORMS}")
    return [_message(each, f"{place}, message {number},") for number, each in enumerate(values, start=1)]


def _message(value: object, place: str) -> Message:
    """OpenAI's {"role", "content"} or ShareGPT's {"from", "value"}."""
    fields = value if isinstance(value, dict) else {}
    speaker, said = first_named(SPEAKER, fields), first_named(SAID, fields)
    if speaker is None or not isinstance(fields[speaker], str):
        raise UserError(f'{place} does not say who speaks; write it as {{"role": "user", "content": "..."}}')
    role = ROLES.get(fields[speaker].strip().casefold())
    if role is None:
        known = [name for name, each in ROLES.items() if each != "tool"]
        hint = did_you_mean(fields[speaker].casefold(), known) or f" (roles are {', '.join(known)})"
        raise UserError(f"{place} has the unknown role {fields[speaker]!r}{hint}")
    if role == "tool" or fields.get("tool_calls") or fields.get("function_call"):
        return Message("tool", "")
    return Message(role, _text(None if said is None else fields[said], place))


def _text(value: object, place: str) -> str:
    """A text, or the text of a list of parts, OpenAI's {"type": "text", "text": "..."}."""
    if isinstance(value, list):
        value = "".join(_part(each, place) for each in value)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UserError(f"{place} has {shown(value)} where a text is needed")
    size = len(encode_text(place, value))
    if size > MOST_BYTES:
        raise UserError(
            f"{place} has a message of {size / 1e6:,.1f} MB, and at most {MOST_BYTES / 1e6:,.1f} MB are read as one; "
            "is that something else than text? Cut it, or leave the conversation out"
        )
    return value.replace("\r\n", "\n").replace("\r", "\n")


def _part(part: object, place: str) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    if isinstance(part, dict):
        raise Unusable(NOT_TEXT)
    raise UserError(f"{place} has {shown(part)} where a text is needed")


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def learnable(messages: Sequence[Message], place: str, tally: Tally) -> tuple[Message, ...]:
    """From the first question to the last answer, after what the system says; refuses what no model should learn."""
    if not messages:
        raise Unusable(EMPTY)
    if any(message.role == "tool" for message in messages):
        raise Unusable(TOOLS)
    if any(not message.text.strip() for message in messages):
        raise Unusable(BLANK)
    opening = next((at for at, each in enumerate(messages) if each.role != "system"), len(messages))
    turns = list(messages[opening:])
    if any(message.role == "system" for message in turns):
        raise Unusable(LATE_SYSTEM)
    if any(one.role == other.role for one, other in pairwise(turns)):
        raise Unusable(REPEATED)
    first = 1 if turns and turns[0].role == "assistant" else 0
    last = len(turns) - 1 if turns and turns[-1].role == "user" else len(turns)
    if last - first < 2:
        raise Unusable(SILENT)
    if first:
        tally.add("first message{s} of an assistant, before any question,", place)
    if last < len(turns):
        tally.add("last message{s} of a user, which nobody answers,", place)
    return (*messages[:opening], *turns[first:last])
