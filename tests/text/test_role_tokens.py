"""Role tokens: a vocabulary grows by two, and everything else in it stays as it was."""

from pathlib import Path

import numpy as np
import pytest
import tokenizers

from chainrule.errors import UserError
from chainrule.text.base import Tokenizer
from chainrule.text.chat import Chat, Message
from chainrule.text.rendering import encode_prompt
from chainrule.text.role_tokens import ROLES, has_roles, with_roles
from tests.text.samples import CLOSED, LINES, OPEN, as_documents, train
from tests.text.test_chat import tokenizer_of

TEXT = "the cat <|im_end|> sat\non the mat <eos> user: 日本語"


def all_kinds() -> dict[str, Tokenizer]:
    """Our own kinds, and some as they are imported."""
    backend = tokenizers.Tokenizer.from_str(tokenizer_of("spaces").json)
    gpt2 = tokenizers.Tokenizer.from_str(train("bpe", LINES).json.replace("<eos>", "<|endoftext|>"))
    odd = tokenizers.Tokenizer.from_str(train("bpe", LINES).json.replace("<eos>", "<|fin|>"))
    imported = {"sentencepiece": Tokenizer(backend), "gpt2": Tokenizer(gpt2), "odd end": Tokenizer(odd, "<|fin|>")}
    imported["sentencepiece"].start = 1
    return {kind: train(kind, LINES) for kind in (*OPEN, *CLOSED)} | imported


KINDS = all_kinds()


@pytest.mark.parametrize("kind", KINDS)
def test_every_other_token_keeps_its_id(kind: str):
    old, new = KINDS[kind], with_roles(KINDS[kind])
    added = new.vocabulary_size - old.vocabulary_size
    assert (added == 2) if not old.is_closed else (2 <= added <= 5)
    assert (new.special["<|im_start|>"], new.special["<|im_end|>"]) == (old.vocabulary_size, old.vocabulary_size + 1)
    assert new.named_token_bytes[: old.vocabulary_size] == old.named_token_bytes
    assert (new.eos, new.end, new.start, new.unknown, new.kind) == (old.eos, old.end, old.start, old.unknown, old.kind)
    assert new.encode(TEXT).tolist() == old.encode(TEXT).tolist()
    documents = as_documents([TEXT, *LINES])
    assert new.encode_documents(documents).tolist() == old.encode_documents(documents).tolist()
    assert new.decode(new.encode(TEXT)) == old.decode(old.encode(TEXT))
    assert new.chat == Chat("chatml") and new.answer_ends == (old.vocabulary_size + 1,)
    assert old.chat is None and "<|im_start|>" not in old.special  # the old one is as it was


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_same_when_it_is_read_again(kind: str, tmp_path: Path):
    new = with_roles(KINDS[kind])
    new.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json", new.end)
    again.start, again.chat = new.start, new.chat
    assert (again.fingerprint, again.eos, again.vocabulary_size) == (new.fingerprint, new.eos, new.vocabulary_size)
    talk = [Message("user", TEXT), Message("assistant", "the mat"), Message("user", "who?")]
    assert encode_prompt(again, talk).tolist() == encode_prompt(new, talk).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_roles_are_told_apart(kind: str):
    new = with_roles(KINDS[kind])
    prompts = [encode_prompt(new, [Message(role, "the cat")]).tolist() for role in ("user", "system")]
    assert prompts[0] != prompts[1]
    heads = {tuple(prompt[: prompt.index(new.answer_ends[0])]) for prompt in prompts}
    assert len(heads) == 2 and len(ROLES) == 3


def test_what_has_roles_is_left_alone():
    old = tokenizer_of("bytes")
    tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(old.json))
    tokenizer.chat = Chat("llama-3", "Be kind.")
    assert has_roles(tokenizer) and with_roles(tokenizer) is tokenizer
    tokenizer.chat = Chat("transcript")
    grown = with_roles(tokenizer)
    assert grown.chat == Chat("chatml") and grown.vocabulary_size == old.vocabulary_size  # the marks are there already
    assert np.array_equal(grown.encode(TEXT), old.encode(TEXT))


def test_a_vocabulary_that_cannot_grow_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch):
    tokenizer = train("bytes", LINES)
    monkeypatch.setattr(tokenizers.Tokenizer, "add_special_tokens", lambda self, names: 0)
    with pytest.raises(UserError, match=r"cannot be given <\|im_start\|> and <\|im_end\|>, which tell who speaks"):
        with_roles(tokenizer)
