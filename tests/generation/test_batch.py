"""Rows that come and go: whatever else is in the batch, each says what it says alone."""

from dataclasses import replace

import numpy as np
import pytest

from chainrule.generation import Sampling, sample
from chainrule.generation.batch import Row, SampleBatch, Token
from chainrule.generation.prompt import read_prompt

from .toys import LimitedContext, Script, TableBigram, TorchBigram, Total, letters, random_table

TOKENIZER = letters(5)  # a to e, and eos is 5
TABLE = random_table(6, seed=3)
MODELS = {
    "numpy": TableBigram(TABLE),
    "torch": TorchBigram(TABLE),
    "all of the past": Total(TABLE),
    "a limited context": LimitedContext(TABLE, context_length=4),
}
SETTINGS = [
    Sampling(seed=1, max_tokens=9),
    Sampling(seed=2, max_tokens=5, temperature=0.7, top_k=3, alternatives=2),
    Sampling(seed=3, max_tokens=12, repetition_penalty=1.5, samples=3),
    Sampling(seed=4, max_tokens=7, temperature=0, stop=("ab", "c")),
    Sampling(seed=5, max_tokens=11, top_p=0.9, min_p=0.05, samples=2, first_sample=4, alternatives=1),
]
PROMPTS = ["", "a", "abc", "edcba", "bb"]


def add(batch: SampleBatch, prompt: str, settings: Sampling) -> list[Row]:
    return batch.add(read_prompt(batch.model, TOKENIZER, prompt, truncate=True), settings)


def heard(batch: SampleBatch, rows: dict[int, list[Token]]) -> None:
    for row, token in batch.emit():
        rows.setdefault(id(row), []).append(token)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("seed", range(5))
def test_rows_that_come_and_go_say_what_they_say_alone(model, seed):
    random = np.random.default_rng(seed)
    batch, tokens, asked = SampleBatch(model, TOKENIZER), {}, []
    waiting = [(PROMPTS[i], SETTINGS[i]) for i in random.permutation(len(PROMPTS)).tolist() * 2]
    while waiting or batch.rows:
        while waiting and (not batch.rows or random.random() < 0.4):
            prompt, settings = waiting.pop()
            asked.append((prompt, settings, add(batch, prompt, settings)))
        heard(batch, tokens)
        batch.advance()
    for prompt, settings, rows in asked:
        alone = sample(model, TOKENIZER, prompt, replace(settings, truncate=True))
        for row, expected in zip(rows, alone, strict=True):
            found = tokens[id(row)]
            assert "".join(token.text for token in found) == expected.text
            assert tuple(token.id for token in found) == expected.ids
            np.testing.assert_allclose([each.log_probability for each in found], expected.log_probabilities, atol=1e-6)
            assert all(len(token.alternatives) == settings.alternatives for token in found)


def test_a_row_that_is_removed_is_heard_of_no_more_and_disturbs_nobody():
    batch, tokens = SampleBatch(MODELS["all of the past"], TOKENIZER), {}
    rows = [add(batch, prompt, SETTINGS[0])[0] for prompt in PROMPTS]
    heard(batch, tokens)
    batch.advance()
    batch.remove(rows[1])
    while batch.rows:
        heard(batch, tokens)
        batch.advance()
    assert len(tokens[id(rows[1])]) == 1
    for place in (0, 2, 3, 4):
        alone = sample(batch.model, TOKENIZER, PROMPTS[place], SETTINGS[0])[0]
        assert tuple(token.id for token in tokens[id(rows[place])]) == alone.ids


def test_a_row_that_cannot_go_on_ends_alone():
    dead_end = TABLE.copy()
    dead_end[2] = -np.inf  # after c nothing can come
    dead_end[:, 2] = -np.inf  # and nothing leads there
    batch = SampleBatch(TableBigram(dead_end), TOKENIZER)
    [stuck], [fine] = add(batch, "c", SETTINGS[0]), add(batch, "a", SETTINGS[0])
    assert [row for row, _ in batch.emit()] == [fine]
    assert "probability zero" in str(stuck.error)
    assert fine.error is None


def test_what_the_model_expected_of_a_prompt_is_told_to_whoever_heeds_it():
    batch, told = SampleBatch(MODELS["numpy"], TOKENIZER), []
    batch.add(read_prompt(batch.model, TOKENIZER, "abc", truncate=False), SETTINGS[0], on_logits=told.append)
    np.testing.assert_allclose(np.concatenate(told), TABLE[[5, 0, 1, 2]], rtol=1e-6)


def test_a_script_is_followed_by_every_row():
    model = Script([0, 1, 2, 5], 6)
    batch, tokens = SampleBatch(model, TOKENIZER), {}
    rows = [add(batch, "", replace(SETTINGS[0], seed=seed))[0] for seed in range(3)]
    while batch.rows:
        heard(batch, tokens)
        batch.advance()
    assert [[token.id for token in tokens[id(row)]] for row in rows] == [[0, 1, 2, 5]] * 3
