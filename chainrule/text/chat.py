"""How a conversation is written for a model: a fixed set of styles, as data; no template of a file is ever run.

In a style, <s> and </s> stand for the tokens that begin and end the tokenizer's texts, and names such as <|im_start|>
for special tokens of it. Only what is ours is searched for such names: whatever people say stays text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chainrule.errors import UserError


@dataclass(frozen=True)
class Message:
    role: str  # system, user or assistant
    text: str


@dataclass(frozen=True)
class Piece:
    text: str
    is_ours: bool  # and may name special tokens


@dataclass(frozen=True)
class Around:
    before: str
    after: str


@dataclass(frozen=True)
class Style:
    """What stands around the messages of each role.

    Where systems have no turn of their own, what they say goes into the first user's message, or the last one.
    """

    user: Around
    assistant: Around
    system: Around | None = None
    within: Around = Around("", "\n\n")
    joins_last: bool = False
    opening: str = ""
    ends: tuple[str, ...] = ()  # tokens that end an answer, beside the tokenizer's own
    stops: tuple[str, ...] = ()  # texts that do
    trims: tuple[str, ...] = ()  # roles whose messages lose the spaces around them

    @property
    def is_plain(self) -> bool:
        """Text like any other, without special tokens."""
        return bool(self.stops)

    def pieces(self, messages: Sequence[Message], continues_last: bool = False) -> Iterator[Piece]:
        """The conversation up to where the assistant speaks; a space there belongs to the answer's first token.

        With `continues_last`, the last message is what the assistant has said so far, and stays open.
        """
        begun = ""
        if continues_last:
            *messages, last = messages
            begun = last.text.lstrip() if "assistant" in self.trims else last.text
        yield from self.turns(messages)
        yield Piece(self.assistant.before if begun else self.assistant.before.rstrip(" "), True)
        if begun:
            yield Piece(begun, False)

    def turns(self, messages: Sequence[Message]) -> Iterator[Piece]:
        """The conversation as it stands, with what comes after its last message."""
        around = {"user": self.user, "assistant": self.assistant, "system": self.system}
        yield Piece(self.opening, True)
        for message in messages if self.system else self._without_systems(messages):
            here = around[message.role]
            assert here is not None
            yield Piece(here.before, True)
            yield Piece(self.said(message), False)
            yield Piece(here.after, True)

    def said(self, message: Message) -> str:
        """What the style writes of a message's text: some leave out the spaces around it."""
        return message.text.strip() if message.role in self.trims else message.text

    def _without_systems(self, messages: Sequence[Message]) -> list[Message]:
        said = "\n\n".join(each.text for each in messages if each.role == "system")
        rest = [each for each in messages if each.role != "system"]
        if not said:
            return rest
        places = [place for place, each in enumerate(rest) if each.role == "user"]
        if not places:
            return [Message("user", said), *rest]
        place = places[-1 if self.joins_last else 0]
        text = f"{self.within.before}{said}{self.within.after}{rest[place].text}"
        return [*rest[:place], Message("user", text), *rest[place + 1 :]]

    def shown(self, answer: str) -> str:
        """Without the space that the style has before every answer."""
        return answer.removeprefix(" ") if self.assistant.before.endswith(" ") else answer


def _header(role: str) -> Around:
    return Around(f"<|start_header_id|>{role}<|end_header_id|>\n\n", "<|eot_id|>")


STYLES = {
    "transcript": Style(
        system=Around("", "\n\n"), user=Around("User: ", "\n"), assistant=Around("Assistant: ", "\n"),
        stops=("\nUser:", "\nAssistant:"),
    ),
    "chatml": Style(
        system=Around("<|im_start|>system\n", "<|im_end|>\n"), user=Around("<|im_start|>user\n", "<|im_end|>\n"),
        assistant=Around("<|im_start|>assistant\n", "<|im_end|>\n"), ends=("<|im_end|>",),
    ),
    "llama-2": Style(
        user=Around("<s>[INST] ", " [/INST]"), assistant=Around(" ", " </s>"),
        within=Around("<<SYS>>\n", "\n<</SYS>>\n\n"), trims=("user", "assistant"),
    ),
    "llama-3": Style(
        opening="<s>", system=_header("system"), user=_header("user"), assistant=_header("assistant"),
        ends=("<|eot_id|>",), trims=("system", "user", "assistant"),
    ),
    "zephyr": Style(
        system=Around("<|system|>\n", "</s>\n"), user=Around("<|user|>\n", "</s>\n"),
        assistant=Around("<|assistant|>\n", "</s>\n"),
    ),
    "mistral": Style(opening="<s>", user=Around("[INST] ", " [/INST]"), assistant=Around("", "</s>")),
    "mistral-v1": Style(opening="<s>", user=Around(" [INST] ", " [/INST]"), assistant=Around(" ", "</s>")),
    "mistral-v3": Style(
        opening="<s>", user=Around("[INST] ", "[/INST]"), assistant=Around(" ", "</s>"), joins_last=True,
        trims=("assistant",),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Chat:
    """How one model reads conversations; `system` opens those that do not begin with a system message."""

    style: str = "transcript"
    system: str | None = None

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise UserError(f"unknown style of conversations '{self.style}' (there are: {', '.join(STYLES)})")

    @property
    def written(self) -> Style:
        return STYLES[self.style]

    def pieces(self, messages: Sequence[Message], continues_last: bool = False) -> list[Piece]:
        """The conversation up to where the assistant speaks, or within what it says: the prompt of its answer."""
        return list(self.written.pieces(self._with_system(messages), continues_last))

    def turns(self, messages: Sequence[Message]) -> list[Piece]:
        """The conversation as it stands, its last message included."""
        return list(self.written.turns(self._with_system(messages)))

    def _with_system(self, messages: Sequence[Message]) -> Sequence[Message]:
        if self.system is not None and (not messages or messages[0].role != "system"):
            return [Message("system", self.system), *messages]
        return messages


def read_chat(facts: Mapping[str, object] | None) -> Chat | None:
    """The chat format that a run keeps in its config.json; None where it keeps none."""
    if facts is None:
        return None
    style, system = facts["style"], facts["system"]
    if not isinstance(style, str) or not (system is None or isinstance(system, str)):
        raise TypeError("style and system are texts")
    return Chat(style, system)
