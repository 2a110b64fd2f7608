"""The check itself: it finds a wrong logit, a wrong token, a hole, and says who was not asked."""

from typing import Any

import numpy as np
import pytest
import torch

from chainrule.errors import UserError
from chainrule.interop._parity import LONGEST, Check, Question, compare, prompts, refuse_difference
from tests.interop.models import bpe, transformer


class Other:
    """A reader that computes what the model does, but for what it is told to get wrong."""

    name = "other 1.0"

    def __init__(self, model: Any, tokenizer: Any, off: float = 0.0, extra: tuple[int, ...] = ()):
        self.model, self.tokenizer, self.off, self.extra = model, tokenizer, off, extra

    def tokenize(self, text: str) -> list[int] | None:
        return [self.tokenizer.start, *self.tokenizer.encode(text).tolist(), *self.extra]

    def logits(self, ids: list[int]) -> np.ndarray:
        with torch.no_grad():
            found = self.model.step(torch.tensor([ids]), self.model.start(1))[0][0].numpy().copy()
        found[len(ids) // 2, 7] += self.off
        return found


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    tokenizer = bpe()
    return transformer("llama", tokenizer), tokenizer


def test_one_wrong_logit_is_found_and_refused(pair):
    model, tokenizer = pair
    good, bad = compare(Other(*pair), model, tokenizer), compare(Other(*pair, off=0.5), model, tokenizer)
    assert (good.difference, good.agrees, good.same_tokens) == (0.0, True, True)
    assert bad.difference == pytest.approx(0.5, abs=1e-5)
    assert not bad.agrees
    refuse_difference([good])
    with pytest.raises(
        UserError,
        match="were removed, as they do not compute the same as this model: checked with other 1.0: logits diff",
    ):
        refuse_difference([good, bad])


def test_what_is_allowed_grows_with_the_largest_logit(pair):
    model, tokenizer = pair
    with torch.no_grad():
        largest = max(float(model.step(torch.tensor([ids]), model.start(1))[0].abs().max()) for _, ids in asked(pair))
    assert largest > 1
    assert compare(Other(*pair), model, tokenizer, 1e-3).limit == pytest.approx(1e-3 * largest)


def asked(pair: tuple[Any, Any]) -> list[tuple[str | None, list[int]]]:
    return prompts(*pair)


def test_numbers_that_are_none_never_agree(pair):
    model, tokenizer = pair
    found = compare(Other(*pair, off=float("nan")), model, tokenizer)
    assert found.difference == float("inf")
    assert not found.agrees


def test_a_text_cut_otherwise_is_found(pair):
    model, tokenizer = pair
    found = compare(Other(*pair, extra=(3,)), model, tokenizer)
    assert (found.difference, found.same_tokens, found.agrees) == (0.0, False, False)
    assert "tokenizes text differently" in found.sentence()


def test_prompts_are_the_same_every_time_and_fit_the_model(pair):
    model, tokenizer = pair
    assert asked(pair) == asked(pair)
    assert max(len(ids) for _, ids in asked(pair)) == min(LONGEST, model.context_length)
    assert all(ids[0] == tokenizer.start for text, ids in asked(pair) if text is not None)
    assert asked(pair)[-1][0] is None


def test_a_reader_that_is_not_installed_is_named(pair):
    model, tokenizer = pair
    found = Question("no_such_reader", "no-such-reader", lambda: Other(*pair), model).ask(tokenizer)
    assert found == Check("no_such_reader", note="not installed (pip install no-such-reader)")
    assert found.sentence() == "not checked with no_such_reader: not installed (pip install no-such-reader)"
    assert found.agrees


def test_a_reader_that_fails_on_the_files_is_told_and_refused(pair):
    def fails() -> Any:
        raise RuntimeError("shape '[1, 40]'\n is invalid")

    found = Question("chainrule", "chainrule", fails, pair[0]).ask(pair[1])
    assert not found.agrees
    assert found.note == "it could not read the files (shape '[1, 40]' is invalid)"
    told = Question("chainrule", "chainrule", fails, pair[0], unable="it does not know such").ask(pair[1])
    assert told.sentence() == "not checked with chainrule: it does not know such"
