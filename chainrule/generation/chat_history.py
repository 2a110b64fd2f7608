"""What was said in a conversation, and what can be done with it: ask, take back, ask again."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from chainrule.errors import UserError
from chainrule.text.chat import Message

NOTHING_ASKED = "nothing has been asked yet; type a question first"


@dataclass(frozen=True)
class PartialMessage(Message):
    """An answer that did not come to its end."""

    why: str = "unfinished"  # or stopped, or cut off


@dataclass
class ChatHistory:
    """A conversation: what was said so far, after a `system` message or none."""

    system: str | None = None
    messages: list[Message] = field(default_factory=list)
    unanswered: str | None = None  # a question that got no answer
    _place: int = 0  # how many messages that question came after

    def before(self, messages: Sequence[Message], question: str) -> list[Message]:
        """All that the model reads when it is asked this after these messages."""
        opening = [] if self.system is None else [Message("system", self.system)]
        return [*opening, *messages, Message("user", question)]

    def split(self) -> tuple[list[Message], str]:
        """The last question, answered or not, and the messages before it."""
        if self.unanswered is not None:
            return self.messages[: self._place], self.unanswered
        places = [place for place, each in enumerate(self.messages) if each.role == "user"]
        if not places:
            raise UserError(NOTHING_ASKED)
        return self.messages[: places[-1]], self.messages[places[-1]].text

    def answered(self, messages: Sequence[Message], question: str, answer: Message) -> None:
        """The question was asked after these messages, and answered; what came after them before is gone."""
        self.messages = [*messages, Message("user", question), answer]
        self.unanswered = None

    def refused(self, messages: Sequence[Message], question: str) -> None:
        """The question got no answer: nothing that was said is gone, and it can be asked again."""
        self.unanswered, self._place = question, len(messages)

    def undo(self) -> str:
        """Take back the last question that was answered, with its answer; returns the question.

        One that was refused stays, so that there is room for it now, unless it is all there is.
        """
        places = [place for place, each in enumerate(self.messages) if each.role == "user"]
        if not places and self.unanswered is not None:
            question, self.unanswered = self.unanswered, None
            return question
        if not places:
            raise UserError("there is nothing to take back")
        question = self.messages[places[-1]].text
        self.messages = self.messages[: places[-1]]
        self._place = min(self._place, len(self.messages))
        return question

    def clear(self) -> None:
        """Forget what was said, but for the system message."""
        self.messages, self.unanswered = [], None

    def load(self, conversation: Sequence[Message]) -> None:
        """Go on from a conversation that may begin with a system message and end with a question."""
        messages = list(conversation)
        self.system = messages.pop(0).text if messages and messages[0].role == "system" else None
        self.unanswered = messages.pop().text if messages and messages[-1].role == "user" else None
        self.messages, self._place = messages, len(messages)

    @property
    def conversation(self) -> list[Message]:
        """All of it, from the system message to a question that got no answer, if that is the last thing said."""
        opening = [] if self.system is None else [Message("system", self.system)]
        is_open = self.unanswered is not None and self._place == len(self.messages)
        return [*opening, *self.messages, *([Message("user", self.unanswered or "")] if is_open else [])]
