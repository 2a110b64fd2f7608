"""A conversation with a model: questions are answered token by token, and can be taken back and asked again."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

import numpy as np

from chainrule.errors import UserError
from chainrule.generation.batch import Row, Token, draw_token
from chainrule.generation.chat_history import ChatHistory, PartialMessage
from chainrule.generation.conversation import AnswerText, chat_of, encode_conversation
from chainrule.generation.prompt import Prompt, PromptTooLong
from chainrule.generation.prompt_reader import PromptReader
from chainrule.generation.settings import Sampling
from chainrule.models.contract import Steps
from chainrule.text.base import Tokenizer
from chainrule.text.chat import Message

Answer = Generator[str, None, None]
STOPPED = "stopped"  # the finish reason of an answer that the person did not let end


class ChatSession:
    """`ask`, `retry` and `edit` give an answer as pieces of text; the history has it once they are through or closed.

    A piece is empty while the prompt is read or a character is incomplete. Closing an answer stops it: what was said
    stays. Of an answer, `tokens`, `seed` and `finish_reason` ("stop", "length" or "stopped") are kept until the next.
    """

    def __init__(self, model: Steps, tokenizer: Tokenizer, sampling: Sampling, system: str | None = None) -> None:
        self.model, self.tokenizer, self.sampling = model, tokenizer, sampling
        self.style = chat_of(tokenizer).written
        self.history = ChatHistory(system)
        self.reader = PromptReader(model)
        self.tokens: list[Token] = []
        self.seed: int | None = None
        self.finish_reason: str | None = None
        self._attempt = 0  # how many answers the last question had before

    def ask(self, question: str) -> Answer:
        """The answer to the next question."""
        self._attempt = 0
        return self._answer(self.history.messages, question)

    def retry(self) -> Answer:
        """Another answer to the last question, drawn with other random numbers; it takes the place of the first."""
        messages, question = self.history.split()
        self._attempt += 1
        return self._answer(messages, question)

    def edit(self, question: str) -> Answer:
        """The answer to a question that takes the place of the last one."""
        self._attempt = 0
        return self._answer(self.history.split()[0], question)

    def _answer(self, messages: Sequence[Message], question: str) -> Answer:
        text = ""
        self.tokens, self.finish_reason = [], STOPPED
        try:
            prompt = self._encode(self.history.before(messages, question))
            for piece in self._generate(prompt):
                text += piece
                yield piece
        except UserError:
            self.finish_reason = None
            raise
        finally:
            self._keep(messages, question, text)

    def _encode(self, conversation: Sequence[Message]) -> Prompt:
        try:
            return encode_conversation(self.model, self.tokenizer, conversation)
        except PromptTooLong as error:
            raise UserError(
                f"with this question the conversation has {error.tokens:,} tokens, but the model reads "
                f"{error.context_length:,}; /undo takes back the last exchange and /clear all of them, and then "
                "/retry asks it again"
            ) from None

    def _generate(self, prompt: Prompt) -> Iterator[str]:
        sampling = replace(
            self.sampling, stop=(*self.sampling.stop, *self.style.stops), first_sample=self._attempt
        ).seeded()
        self.seed = sampling.seed
        row = Row(self.tokenizer, prompt, sampling, sampling.first_sample)
        shown = AnswerText(self.style.shown)
        for _ in self.reader.read(prompt):
            yield ""
        decoder = self.reader.decoder
        assert decoder is not None
        while True:
            token = draw_token(decoder.logits, row)
            self.tokens.append(token)
            if row.finish_reason is not None:
                self.finish_reason = "length" if row.finish_reason == "length" else "stop"
            yield shown.feed(token.text)
            if row.finish_reason is not None:
                return
            decoder.append(np.array([token.id], np.int64))

    def _keep(self, messages: Sequence[Message], question: str, text: str) -> None:
        """Write down a question with its answer, whole or not, or that it has none."""
        replaces = len(messages) < len(self.history.messages)
        if self.finish_reason is None and not text:
            self.history.refused(messages, question)
        elif self.finish_reason == "stop":
            self.history.answered(messages, question, Message("assistant", text))
        elif text or not replaces:
            why = "cut off" if self.finish_reason == "length" else STOPPED
            self.history.answered(messages, question, PartialMessage("assistant", text, why))
