"""Greedy answers to many questions of conversations at a time, and those of two models side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chainrule.generation.batch import Row, SampleBatch, Token
from chainrule.generation.conversation import chat_of, encode_conversation
from chainrule.generation.settings import Sampling
from chainrule.kernels.threads import threads_for
from chainrule.text.base import Tokenizer
from chainrule.text.chat import Message

MOST_TOKENS = 80  # of an answer
AT_ONCE = 32  # conversations that are answered as one batch

Question = Sequence[Message]  # a conversation up to where the assistant speaks


@dataclass(frozen=True)
class Answer:
    text: str
    ended: bool  # by itself, with a token that ends answers


@dataclass(frozen=True)
class AnswersCompared:
    """A question, and what two models answer to it, one before some training and the other after it."""

    question: tuple[Message, ...]
    expected: str | None  # what was answered in the data, where that is known
    before: Answer
    after: Answer


def answer(
    model: Any, tokenizer: Tokenizer, questions: Sequence[Question], most_tokens: int = MOST_TOKENS
) -> list[Answer]:
    """The greedy answer to each question. One that is too long for the model is refused with a UserError."""
    was_training = bool(getattr(model, "training", False))
    if was_training:
        model.eval()
    try:
        found: list[Answer] = []
        for start in range(0, len(questions), AT_ONCE):
            found += _answer_together(model, tokenizer, questions[start : start + AT_ONCE], most_tokens)
        return found
    finally:
        if was_training:
            model.train()


def compare_answers(
    before: tuple[Any, Tokenizer],
    after: tuple[Any, Tokenizer],
    questions: Sequence[Question],
    expected: Sequence[str | None] = (),
    most_tokens: int = MOST_TOKENS,
) -> list[AnswersCompared]:
    """What two models, each with its tokenizer, answer to the same questions, side by side."""
    first, second = (answer(model, tokenizer, questions, most_tokens) for model, tokenizer in (before, after))
    right = [*expected, *[None] * (len(questions) - len(expected))]
    return [
        AnswersCompared(tuple(question), text, one, other)
        for question, text, one, other in zip(questions, right, first, second, strict=True)
    ]


def _answer_together(model: Any, tokenizer: Tokenizer, questions: Sequence[Question], most: int) -> list[Answer]:
    style = chat_of(tokenizer).written
    batch = SampleBatch(model, tokenizer)
    sampling = Sampling(temperature=0.0, max_tokens=most, stop=style.stops, seed=0)
    rows: list[Row] = []
    written: dict[Row, list[Token]] = {}
    with threads_for(model, len(questions)):
        for question in questions:
            rows += batch.add(encode_conversation(model, tokenizer, question), sampling)
            written[rows[-1]] = []
        while batch.rows:
            for row, token in batch.emit():
                written[row].append(token)
            batch.advance()
    return [
        Answer(style.shown("".join(token.text for token in written[row])), row.finish_reason in ("eos", "stop"))
        for row in rows
    ]
