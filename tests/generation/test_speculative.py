"""With a draft or without, every token is the same; a good draft only saves steps."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from chainrule.errors import UserError
from chainrule.generation import Sampling, sample
from chainrule.generation.drafts import MOST_PROPOSED, Draft, GreedyDraft, PromptLookup
from chainrule.generation.prompt import read_prompt
from chainrule.generation.speculative import SpeculativeDecoder
from chainrule.models.transformer import LLAMA, Model

from .toys import Conditioned, LimitedContext, Script, TableBigram, Total, letters, random_table

TOKENIZER = letters(5)  # a to e, and eos is 5
TABLE = random_table(6, seed=3)
SETTINGS = [
    Sampling(temperature=0, max_tokens=40, seed=0),
    Sampling(max_tokens=40, seed=1),
    Sampling(temperature=0.7, top_k=3, repetition_penalty=1.3, max_tokens=40, seed=2),
    Sampling(max_tokens=40, seed=3, stop=("ba",), alternatives=2),
]


class Oracle:
    """Guesses what will be drawn, and is wrong at every seventh token."""

    def __init__(self, ids: tuple[int, ...], before: int) -> None:
        self.ids = [-1] * before + [5 - id if place % 7 == 6 else id for place, id in enumerate(ids)]

    def propose(self, history: list[int], most: int) -> list[int]:
        return self.ids[len(history) : len(history) + most]


def drafts(model: TableBigram, ids: tuple[int, ...]) -> list[Draft]:
    return [PromptLookup(), GreedyDraft(TableBigram(TABLE[::-1].copy())), Oracle(ids, before=3)]


@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
@pytest.mark.parametrize(
    "model", [TableBigram(TABLE), Total(TABLE), LimitedContext(TABLE, 11)], ids=lambda m: type(m).__name__
)
def test_every_token_is_the_one_without_a_draft(model: TableBigram, sampling: Sampling):
    sampling = replace(sampling, seed=int(sampling.seed or 0) + 10)
    plain = sample(model, TOKENIZER, "ab", sampling)[0]
    for draft in drafts(model, plain.ids):
        assert sample(model, TOKENIZER, "ab", sampling, draft=draft)[0] == plain


def test_a_condition_reaches_the_model():
    model, sampling = Conditioned(TABLE), Sampling(max_tokens=30, seed=4)
    plain = sample(model, TOKENIZER, "a", sampling, np.array([3]))
    assert sample(model, TOKENIZER, "a", sampling, np.array([3]), PromptLookup()) == plain
    assert sample(model, TOKENIZER, "a", sampling, np.array([2]), PromptLookup()) != plain


def test_a_condition_outlasts_a_full_context():
    class ConditionedWindow(LimitedContext):
        def start(self, batch_size: int, condition: Any = None) -> dict[str, np.ndarray]:
            assert len(condition) == batch_size
            return {"total": condition, "read": np.zeros(batch_size, np.int64)}

    endless = np.where(np.arange(6) == TOKENIZER.eos, -np.inf, TABLE)
    model, sampling = ConditionedWindow(endless, 7), Sampling(max_tokens=40, seed=4, samples=3)
    plain = sample(model, TOKENIZER, "a", sampling, np.array([3]))
    for each in plain:
        alone = replace(sampling, samples=1, first_sample=each.sample)
        assert sample(model, TOKENIZER, "a", alone, np.array([3]), PromptLookup()) == [each]


def transformer(context_length: int, seed: int) -> Model:
    torch.manual_seed(seed)
    shape = {"width": 16, "num_layers": 1, "num_heads": 2, "context_length": context_length}
    model = Model(LLAMA(**shape, initialisation="normal"), 6, TOKENIZER.eos).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return model


@pytest.mark.parametrize("context_length", [1, 5, 16, 24])
@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
def test_a_draft_whose_context_is_full_begins_anew_with_its_end(context_length: int, sampling: Sampling):
    model = transformer(16, seed=1)
    with torch.no_grad():
        model.unembedding.weight[TOKENIZER.eos] = 0
    draft = transformer(context_length, seed=1)
    draft.load_state_dict(model.state_dict())
    plain = sample(model, TOKENIZER, "abcde" * 2, sampling)[0]
    speculation = SpeculativeDecoder(model, TOKENIZER, GreedyDraft(draft))
    prompt = read_prompt(model, TOKENIZER, "abcde" * 2, False)
    assert tuple(token.id for token in speculation.stream(prompt, sampling)) == plain.ids
    if sampling.temperature == 0 and context_length >= 16:
        assert speculation.accepted > 10


def test_a_draft_may_be_used_for_another_text():
    model, sampling = TableBigram(TABLE), Sampling(max_tokens=30, temperature=0.3, seed=4)
    for draft in (PromptLookup(), GreedyDraft(Total(TABLE)), GreedyDraft(transformer(8, 2))):
        for prompt in ("abababab", "a", "a", "bcbcbcbcb"):
            plain = sample(model, TOKENIZER, prompt, sampling)
            assert sample(model, TOKENIZER, prompt, sampling, draft=draft) == plain
    lookup = PromptLookup()
    lookup.propose([1, 2, 3, 1, 2], 3)
    assert lookup.propose([1, 2], 3) == []


def test_what_was_said_before_is_guessed_and_steps_are_saved():
    model = Script([0, 1, 2, 3, 4] * 12, 6)
    steps = []
    step = model.step
    model.step = lambda tokens, state: steps.append(tokens.shape[1]) or step(tokens, state)
    speculation = SpeculativeDecoder(model, TOKENIZER, PromptLookup())
    prompt = read_prompt(model, TOKENIZER, "", False)
    tokens = [token.id for token in speculation.stream(prompt, Sampling(max_tokens=60, seed=0))]
    assert tokens == [0, 1, 2, 3, 4] * 12
    assert speculation.accepted == speculation.proposed > 40
    assert len(steps) < 20 and max(steps) == 1 + MOST_PROPOSED
    # The prompt, six tokens before anything repeats twice over, then one guess, two, four, eight ...
    assert steps[:7] == [1] * 7 and steps[7:11] == [2, 3, 5, 9]


def test_lookup_finds_what_followed_the_longest_end_the_last_time():
    lookup = PromptLookup()
    history = [1, 2, 3, 9, 2, 3, 8, 7, 1, 2, 3]
    assert lookup.propose(history, 2) == [9, 2]  # after 1 2 3, not after the newer 2 3
    assert PromptLookup().propose([4, 5, 6, 4, 5], 5) == [6, 4, 5, 6, 4]
    assert lookup.propose([*history, 9, 5, 2, 3], 3) == [9, 5, 2]  # the newest 2 3 that something followed
    assert lookup.propose([*history, 9, 5, 2, 3, 6, 4], 3) == []


def test_a_wrong_guess_halves_the_next_ones():
    class Wrong:
        asked: list[int]

        def propose(self, history: list[int], most: int) -> list[int]:
            self.asked.append(most)
            return [4] * most

    draft = Wrong()
    draft.asked = []
    model = Script([4] * 4 + [0] * 20, 6)
    sample(model, TOKENIZER, "", Sampling(max_tokens=20, seed=0), draft=draft)
    assert draft.asked[:6] == [1, 2, 1, 1, 1, 1]  # 4 was right, 4 4 was not, and so on


def test_several_samples_at_once_are_refused():
    with pytest.raises(UserError, match="one sample at a time, got 3"):
        sample(TableBigram(TABLE), TOKENIZER, "", Sampling(samples=3), draft=PromptLookup())


@pytest.mark.parametrize(("broken", "message"), [(np.nan, "not finite"), (-np.inf, "probability zero")])
def test_a_model_that_cannot_go_on_is_refused(broken: float, message: str):
    table = TABLE.copy()
    table[:5] = broken
    with pytest.raises(UserError, match=message):
        sample(TableBigram(table), TOKENIZER, "", Sampling(seed=0), draft=PromptLookup())
