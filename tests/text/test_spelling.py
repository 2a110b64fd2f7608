"""The table of what every token adds to a text, against the decoders that people see the text of."""

import numpy as np
import pytest

from chainrule.text.base import Tokenizer
from chainrule.text.spelling import HELD, STATES, spell_tokens

from .samples import CLOSED, LINES, OPEN, TRICKY, train

KINDS = (*OPEN, *CLOSED)
# White space of several bytes counts as none where a tokenizer of words spells it in bytes; see `_without_added`.
PLAIN = [text for text in TRICKY if text.isascii() or not text.isspace()]


def add_up(tokenizer: Tokenizer, ids: list[int], state: int) -> tuple[bytes, int]:
    spelling, text = spell_tokens(tokenizer), b""
    for id in ids:
        text += spelling.texts[spelling.texts_of[state, id]]
        state = int(spelling.following[state, id])
    return text + b" " * (state == HELD), state


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_the_texts_of_tokens_add_up_to_what_is_decoded(kind: str, seed: int) -> None:
    tokenizer = train(kind, LINES)
    random = np.random.default_rng(seed)
    spaces = [id for id, text in enumerate(tokenizer.token_bytes) if text and not text.strip()]
    ids = [int(id) for id in random.choice(tokenizer.vocabulary_size, 60)]
    ids[1::2] = [int(id) for id in random.choice(spaces, 30)] if spaces else ids[1::2]
    special = {tokenizer.eos, *tokenizer.special.values()}
    ids = [id for id in ids if id not in special]
    state = STATES.index(tokenizer.stream().state)
    assert add_up(tokenizer, ids, state)[0].decode("utf-8", "replace") == tokenizer.decode(ids)


@pytest.mark.parametrize("kind", OPEN)
def test_tricky_texts_come_back_whole_and_in_the_state_of_the_decoder(kind: str) -> None:
    tokenizer = train(kind, LINES)
    for text in ("".join(PLAIN[place:]) for place in range(len(PLAIN))):
        ids, stream = tokenizer.encode(text).tolist(), tokenizer.stream()
        added, state = add_up(tokenizer, ids, STATES.index(stream.state))
        for id in ids:
            stream.feed(id)
        assert added.decode() == text
        assert STATES[state] == stream.state


def test_after_a_space_that_is_there_already_a_token_adds_the_rest_of_it() -> None:
    tokenizer = train("words", ["the cat sat", "the cat sat"])
    spelling, opening = spell_tokens(tokenizer), STATES.index("opening")
    (cat,) = tokenizer.encode("cat").tolist()
    glued = tokenizer.token_bytes.index(b"c")
    assert spelling.texts[spelling.texts_of[opening, cat]] == b"cat"
    assert spelling.texts_of[opening, glued] == -1
