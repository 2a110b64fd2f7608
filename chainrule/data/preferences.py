"""Preferences from files: pairs of a better and a worse answer to the same prompt.

One object of JSON each, {"prompt", "chosen", "rejected"}, of texts or of OpenAI's messages; {"chosen", "rejected"} of
two whole conversations that begin alike, as messages or as one text with 'Human:' and 'Assistant:'; and tables with
columns so named. What is no pair is refused by its line; a pair that cannot be learned from is left out and counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from chainrule.data.chat_logs import read_log
from chainrule.data.conversations import (
    QUESTIONS,
    Tally,
    Unusable,
    first_named,
    learnable,
    looks_like_json,
    messages_of,
    shown,
)
from chainrule.data.corpus import DEFAULT_READING
from chainrule.data.formats import Reader
from chainrule.data.json_values import read_values
from chainrule.data.pairs import check_width, read_rows
from chainrule.data.settings import Reading
from chainrule.data.sources import Source, expand
from chainrule.errors import UserError, did_you_mean
from chainrule.text.chat import Message

CHOSEN, REJECTED = "chosen", "rejected"
FORM = '{"prompt": "...", "chosen": "...", "rejected": "..."}'
EQUAL = "of two equal answers"  # the end of "3 pairs ..."
EMPTY = "with an empty answer"


@dataclass(frozen=True)
class Preference:
    """A conversation up to where the assistant speaks, a better answer and a worse one."""

    prompt: tuple[Message, ...]
    chosen: Message
    rejected: Message
    place: str  # the file and the line at which it begins

    @property
    def answers(self) -> tuple[Message, Message]:
        return self.chosen, self.rejected


@dataclass
class Preferences:
    all: list[Preference]
    files: list[str]  # the paths read
    notes: list[str] = field(default_factory=list)


def read_preferences(inputs: Sequence[str], reading: Reading = DEFAULT_READING) -> Preferences:
    """All pairs of some files, with notes on what was left out."""
    sources = expand(inputs)
    found, tally = list[Preference](), Tally()
    for source in sources:
        for line, value in _read(source, reading):
            place = f"{source.name}:{line}"
            try:
                found.append(_pair(value, place, tally))
            except Unusable as reason:
                tally.add(f"pair{{s}} {reason}", place)
    if not found:
        named = " and ".join(f"'{source.name}'" for source in sources[:3]) + " and more" * (len(sources) > 3)
        why = f": {'; '.join(tally.notes())}" if tally.notes() else f"; write one object of JSON a line, such as {FORM}"
        raise UserError(f"{named} has no pair of answers to learn from{why}")
    return Preferences(found, [source.path for source in sources], tally.notes())


def _read(source: Source, reading: Reading) -> Iterator[tuple[int, object]]:
    """What may be a pair as JSON would have it, and the line at which it begins."""
    if source.format in ("csv", "tsv"):
        yield from _rows(source, reading)
        return
    text = ""
    if source.format in ("text", "jsonl"):
        text = b"".join(Reader(source, encoding=reading.encoding).text_chunks()).decode()
    if source.format != "jsonl" and not looks_like_json(text):
        raise UserError(
            f"'{source.name}' is not a file of pairs of answers; write them as .jsonl, one object a line such as "
            f"{FORM}, or as .csv with columns so named"
        )
    yield from read_values(source.name, text, lambda value: False)


def _rows(source: Source, reading: Reading) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a table by the names in its header."""
    header: list[str] | None = None
    for line, row in read_rows(source, reading, (CHOSEN, REJECTED)):
        if header is None:
            header = [name.strip().casefold() for name in row]
            _check_fields(dict.fromkeys(header), f"'{source.name}'", "column")
            if first_named(QUESTIONS, dict.fromkeys(header)) is None:
                raise UserError(f"'{source.name}' has no column 'prompt' {_found(header)}")
            continue
        check_width(source, line, row, len(header))
        yield line, {name: cell.strip() for name, cell in zip(header, row, strict=True)}


def _pair(value: object, place: str, tally: Tally) -> Preference:
    if not isinstance(value, dict):
        raise UserError(f"{place} is no pair of answers but {shown(value)}; write an object such as {FORM}")
    record = {str(name).casefold(): each for name, each in value.items()}
    _check_fields(record, place, "field")
    prompt, chosen, rejected = _common_prompt(*_sides(record, place), place)
    if not chosen.text.strip() or not rejected.text.strip():
        raise Unusable(EMPTY)
    if chosen.text.strip() == rejected.text.strip():
        raise Unusable(EQUAL)
    *before, _ = learnable([*prompt, chosen], place, tally)
    return Preference(tuple(before), chosen, rejected, place)


def _check_fields(record: Mapping[str, object], place: str, what: str) -> None:
    for name in (CHOSEN, REJECTED):
        if name not in record:
            hint = did_you_mean(name, list(record))
            raise UserError(f"{place} has no {what} '{name}'{hint or ' ' + _found(list(record))}")


def _found(names: Sequence[str]) -> str:
    """The end of the sentence for a field that is not there."""
    listed = ", ".join(f"'{name}'" for name in names[:12])
    return f"(found {listed or 'none'}); a pair has prompt, chosen and rejected"


Sides = tuple[list[Message], list[Message], list[Message]]  # a prompt, and what was chosen and rejected


def _sides(record: Mapping[str, object], place: str) -> Sides:
    """As they are written: the prompt may be empty, and the others whole conversations."""
    opening = messages_of(record["system"], "system", place) if record.get("system") else []
    name = first_named(QUESTIONS, record)
    prompt = messages_of(record[name], "user", place) if name is not None and record[name] else []
    chosen, rejected = (record[each] for each in (CHOSEN, REJECTED))
    if not prompt and isinstance(chosen, str) and isinstance(rejected, str):
        return opening, _logged(chosen, place), _logged(rejected, place)
    both = (messages_of(record[each], "assistant", f"{place}, {each},") for each in (CHOSEN, REJECTED))
    return [*opening, *prompt], *both  # type: ignore[return-value]


def _logged(text: str, place: str) -> list[Message]:
    """A conversation in one text: 'Human: Hello\\n\\nAssistant: Hi'; an answer alone where there is no such thing."""
    try:
        found = list(read_log(place, text.split("\n")))
    except UserError:
        found = []
    if len(found) != 1:
        return [Message("assistant", text)]
    return [Message(each.role, each.text) for each in found[0][1]]


def _common_prompt(
    prompt: list[Message], chosen: list[Message], rejected: list[Message], place: str
) -> tuple[list[Message], Message, Message]:
    """The prompt with all that both conversations begin with, and the answer at the end of each."""
    if chosen and chosen == rejected:
        raise Unusable(EQUAL)
    if not chosen or not rejected:
        raise Unusable(EMPTY)
    common = next((at for at, (one, other) in enumerate(zip(chosen, rejected, strict=False)) if one != other), None)
    common = min(len(chosen), len(rejected)) if common is None else common
    shared, ends = chosen[:common], (chosen[common:], rejected[common:])
    if not prompt and not shared:
        raise UserError(
            f"{place} has no prompt, and chosen and rejected do not begin alike; write it as {FORM}, or write both as "
            "conversations with the same beginning"
        )
    for name, end in zip((CHOSEN, REJECTED), ends, strict=True):
        if len(end) != 1 or end[0].role != "assistant":
            found = f"{len(end)} messages" if len(end) != 1 else f"a message of the {end[0].role}"
            raise UserError(
                f"{place} must have one answer of the assistant as chosen and one as rejected: after what both begin "
                f"with, {name} has {found}"
            )
    is_repeated = bool(prompt) and prompt in (shared[: len(prompt)], shared[-len(prompt) :])
    return shared if is_repeated else [*prompt, *shared], ends[0][0], ends[1][0]
