"""What is asked for of a conversation, and that a model reads the same tokens in training as in use."""

from itertools import pairwise

import numpy as np
import pytest

from chainrule.errors import UserError
from chainrule.generation.conversation import encode_conversation
from chainrule.interop._chat_template import template_of
from chainrule.text.base import Tokenizer
from chainrule.text.chat import STYLES, Chat, Message
from chainrule.text.rendering import LEARN_FROM, Rendered, encode_prompt, render
from chainrule.text.role_tokens import with_roles
from tests.text.samples import CLOSED, LINES, OPEN, train
from tests.text.test_chat import LONG, SYSTEM, kinds_of, theirs, tokenizer_of

ANSWER = Message("assistant", "On the mat,\nthat day.")
TALKS = {
    "once": [Message("user", "Who sat on the mat?"), ANSWER],
    "twice": [*LONG, ANSWER],
    "with a system": [*SYSTEM, ANSWER],
    "with lines around": [LONG[0], Message("assistant", "\n\n the cat\n"), LONG[0], Message("assistant", "\tcat")],
    "names of marks": [
        Message("user", "<|im_end|></s>"), Message("assistant", "<|im_start|>[INST]</s>"), LONG[0], ANSWER,
    ],
}  # fmt: skip


def tokenizers() -> list[tuple[str, Tokenizer]]:
    """Every style with every kind of tokenizer that has its marks."""
    found = []
    for style in STYLES:
        for kind in kinds_of(style):
            tokenizer = Tokenizer(tokenizer_of(kind).backend)
            tokenizer.start, tokenizer.chat = tokenizer_of(kind).start, Chat(style)
            found.append((f"{style}-{kind}", tokenizer))
    return found


STYLED = dict(tokenizers())


def spans(row: Rendered) -> list[tuple[int, int]]:
    """Where what is asked for begins and ends."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.is_asked.astype(int), [0]])))
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]


@pytest.mark.parametrize("talk", TALKS)
@pytest.mark.parametrize("name", STYLED)
def test_before_every_answer_stand_the_tokens_of_its_prompt(name: str, talk: str):
    tokenizer, messages = STYLED[name], TALKS[talk]
    rows = render(tokenizer, messages)
    asked = [(row, start, end) for row in rows for start, end in spans(row)]
    places = [place for place, message in enumerate(messages) if message.role == "assistant"]
    assert len(asked) == len(places)
    for place, (row, start, end) in zip(places, asked, strict=True):
        prompt = encode_conversation(None, tokenizer, messages[:place])
        assert row.ids[:start].tolist() == prompt.ids.tolist() == encode_prompt(tokenizer, messages[:place]).tolist()
        stream = prompt.continuation(tokenizer)
        text = "".join(stream.feed(int(id)) for id in row.ids[start:end]) + stream.flush()
        style = STYLES[tokenizer.chat.style]
        said = style.said(messages[place])
        assert style.shown(text).removesuffix(" ") == said.removesuffix(" ")  # llama-2 puts a space after an answer
        assert row.ids[end - 1] in (tokenizer.eos, *prompt.ends)
        assert not np.isin(row.ids[start : end - 1], [tokenizer.eos, *prompt.ends]).any()
    assert sum(row.answer_bytes for row in rows) == sum(
        len(STYLES[tokenizer.chat.style].said(messages[place]).encode()) + 1 for place in places
    )


@pytest.mark.parametrize("name", [name for name in STYLED if not name.startswith("transcript")])
def test_the_whole_is_what_transformers_makes_of_the_exported_template(name: str):
    """Its last row; a style that keeps the system for the last question has a row for every question."""
    tokenizer = STYLED[name]
    reader = theirs(tokenizer, template_of(tokenizer.chat) or "")
    for messages in (TALKS["once"], TALKS["twice"], TALKS["with a system"]):
        said = [{"role": each.role, "content": each.text} for each in messages]
        expected = list(reader.apply_chat_template(said, tokenize=True, return_dict=False))
        rows = render(tokenizer, messages)
        is_split = name.startswith("mistral-v3") and messages[0].role == "system"
        assert len(rows) == (2 if is_split else 1)
        ids = rows[-1].ids.tolist()
        assert ids == expected[: len(ids)]
        assert tokenizer.decode(expected[len(ids) :]).strip() == ""


def test_the_mask_by_hand():
    tokenizer = with_roles(train("bytes", LINES))
    begin, end = (tokenizer.special[name] for name in ("<|im_start|>", "<|im_end|>"))
    messages = [Message("user", "a?"), Message("assistant", "b"), Message("user", "c?"), Message("assistant", "de")]
    [row] = render(tokenizer, messages)
    shown = [
        *(begin, *b"user\na?", end, *b"\n", begin, *b"assistant\n"), *b"b", end,
        *(*b"\n", begin, *b"user\nc?", end, *b"\n", begin, *b"assistant\n"), *b"de", end,
    ]  # fmt: skip
    asked = [*[0] * 21, 1, 1, *[0] * 22, 1, 1, 1]
    assert row.ids.tolist() == shown and row.is_asked.astype(int).tolist() == asked
    assert (row.asked, row.answer_bytes) == (5, len("b") + 1 + len("de") + 1)
    [last] = render(tokenizer, messages, "last")
    assert last.ids.tolist() == shown and last.is_asked.astype(int).tolist() == [*[0] * 45, 1, 1, 1]
    [all_of_it] = render(tokenizer, messages, "all")
    assert all_of_it.ids.tolist() == shown and all_of_it.is_asked.tolist() == [False] + [True] * (len(shown) - 1)
    [first] = render(tokenizer, messages[:3])  # nothing answers the last question
    assert first.ids.tolist() == shown[:23]


@pytest.mark.parametrize("name", STYLED)
def test_all_asks_for_every_token_once(name: str):
    """Also where an answer has a row of its own: there, for what was not in the row before."""
    for messages in TALKS.values():
        rows = render(STYLED[name], messages, "all")
        assert not any(row.is_asked[0] for row in rows)
        assert [row.ids.tolist() for row in rows] == [row.ids.tolist() for row in render(STYLED[name], messages)]
        for before, row in pairwise(rows):
            [(start, end)] = spans(row)
            assert end == len(row.ids) and row.ids[:start].tolist() == before.ids[:start].tolist()


def test_a_way_to_learn_that_is_not_there_is_refused():
    with pytest.raises(UserError, match="learn_from must be one of assistant, last, all, got 'asistant'; did you mean"):
        render(STYLED["chatml-bytes"], LONG, "asistant")
    assert LEARN_FROM[0] == "assistant"


@pytest.mark.parametrize("kind", [*OPEN, *CLOSED])
def test_what_a_conversation_says_can_be_read_back(kind: str):
    """Of every kind of tokenizer of our own, once it has role tokens."""
    tokenizer = with_roles(train(kind, LINES))
    messages = [
        Message("user", "the cat sat"),
        Message("assistant", "on the mat"),
        Message("user", "the world is"),
        ANSWER,
    ]
    [row] = render(tokenizer, messages)
    answers = [row.ids[start:end] for start, end in spans(row)]
    assert all(ids[-1] == tokenizer.special["<|im_end|>"] for ids in answers)
    if not tokenizer.is_closed:
        assert [tokenizer.decode(ids) for ids in answers] == ["on the mat", ANSWER.text]
