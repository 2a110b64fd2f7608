"""Output that must match something: the tokens allowed against brute force, and texts against independent readers."""

import json
import re
import sys
from dataclasses import replace
from itertools import product

import jsonschema_rs
import numpy as np
import pytest

from chainrule.errors import UserError
from chainrule.generation import Sampling, sample, stream
from chainrule.generation.constraint import NOT_INSTALLED, TokenConstraint
from chainrule.generation.drafts import PromptLookup
from chainrule.generation.prompt import read_prompt
from chainrule.text.base import Tokenizer
from tests.text.samples import OPEN, trained

from .toys import TableBigram, random_table

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "pets": {"type": "array", "items": {"enum": ["cat", "dog"]}, "maxItems": 2},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
ANSWERS = ["yes", "yes, the cat", "no", "日本 é", "a\n  b", "a\n b  c", "x y ", "<eos>"]
EITHER = "|".join(map(re.escape, ANSWERS))


class Model(TableBigram):
    """A bigram of random logits over a tokenizer's tokens."""

    def __init__(self, tokenizer: Tokenizer, seed: int = 0) -> None:
        super().__init__(random_table(tokenizer.vocabulary_size, seed).astype(np.float32))


def can_still_match(text: bytes) -> bool:
    return any(answer.encode().startswith(text) for answer in ANSWERS)


@pytest.mark.parametrize("prompt", ["", "the cat", "the cat ", "so:\n", "日"])
@pytest.mark.parametrize("kind", OPEN)
def test_exactly_the_tokens_are_allowed_that_lead_to_an_answer(kind: str, prompt: str) -> None:
    """At every step of 10 random walks, each token is tried on the text as people see it.

    A space that a tokenizer of words holds back is shown only with what follows, so there the text is looked at with it
    and without it.
    """
    tokenizer = trained(kind)
    random = np.random.default_rng(0)
    read = read_prompt(None, tokenizer, prompt, truncate=False)
    for _ in range(10):
        constraint, ids = TokenConstraint(tokenizer, read, "regex", EITHER), []
        while not ids or ids[-1] != tokenizer.eos:
            allowed = constraint.allowed()
            texts = [shown(tokenizer, read, [*ids, id]) for id in range(tokenizer.vocabulary_size)]
            for id, (certain, held) in enumerate(texts):
                if id == tokenizer.eos:
                    text, more = shown(tokenizer, read, ids)
                    assert allowed[id] == ((text + more).decode("utf-8", "replace") in ANSWERS and is_open(read, ids))
                elif allowed[id]:
                    assert can_still_match(certain)
                elif not held and tokenizer.token_bytes[id] and (read.allowed is None or ids or read.allowed[id]):
                    assert not can_still_match(certain)
            ids.append(int(random.choice(np.flatnonzero(allowed))))
            constraint.append(ids[-1])
        text, held = shown(tokenizer, read, ids[:-1])
        assert (text + held).decode() in ANSWERS


def is_open(read, ids: list[int]) -> bool:
    """After a space at the end of a prompt, something has to come."""
    return bool(ids) or not read.opening


def shown(tokenizer: Tokenizer, read, ids: list[int]) -> tuple[bytes, bytes]:
    """The bytes that a continuation adds to what is shown, and a space that is held back."""
    before = read.ids[read.ids != tokenizer.eos].tolist()
    start = len(tokenizer.spell(before)) if before else 0
    whole = tokenizer.spell([*before, *ids])
    stream = read.continuation(tokenizer)
    for id in ids:
        stream.feed(id)
    held = b" " if stream.state == "held" else b""
    own = whole[start + len(read.opening) :]
    return (own.removesuffix(b" "), held) if held else (own, b"")


@pytest.mark.parametrize("kind", OPEN)
@pytest.mark.parametrize("seed", range(3))
def test_json_matches_its_schema_whatever_the_model(kind: str, seed: int) -> None:
    tokenizer = trained(kind)
    settings = Sampling(seed=seed, samples=10, max_tokens=300, json_schema=PERSON)
    for each in sample(Model(tokenizer, seed), tokenizer, "The cat: ", settings):
        assert each.finish_reason == "eos"
        jsonschema_rs.validate(PERSON, json.loads(each.text))


def test_objects_have_no_properties_but_those_of_their_schema_unless_it_says_otherwise() -> None:
    """As people write schemas: an object that might go on for ever would seldom be complete."""
    tokenizer = trained("bytes")
    age = {"properties": {"age": {"enum": [7]}}, "required": ["age"], "type": "object"}
    family = {
        "properties": {"father": age, "child": {"anyOf": [age]}},
        "required": ["father", "child"],
        "type": "object",
    }
    both = {"allOf": [age, {"properties": {"name": {"const": "Ann"}}, "required": ["name"]}]}

    def draw(schema: dict[str, object], most: int = 300) -> list[str]:
        settings = Sampling(seed=1, samples=20, max_tokens=most, json_schema=schema)
        return [each.text for each in sample(Model(tokenizer), tokenizer, "", settings)]

    assert set(draw(age)) == {'{"age": 7}'}
    assert set(draw(family)) == {'{"father": {"age": 7}, "child": {"age": 7}}'}
    assert all(each.startswith('{"age": 7, "name": "Ann"') for each in draw(both, 30))
    assert any(each.startswith('{"age": 7, "') for each in draw(age | {"additionalProperties": True}, 20))


@pytest.mark.parametrize("kind", OPEN)
def test_a_text_matches_its_expression_and_its_grammar(kind: str) -> None:
    tokenizer, model = trained(kind), Model(trained(kind))
    dates = r"\d{4}-\d\d-\d\d( [A-Zé]{2,4})?"
    for each in sample(model, tokenizer, "", Sampling(seed=1, samples=10, regex=dates)):
        assert re.fullmatch(dates, each.text)
    lark = 'start: "(" sum ")"\nsum: /[0-9]{1,2}/ ("+" /[0-9]/)~1..3'
    gbnf = 'root ::= "(" [0-9] ("+" [0-9])? ")"'
    for grammar, expected in ((lark, r"\(\d{1,2}(\+\d){1,3}\)"), (gbnf, r"\(\d(\+\d)?\)")):
        for each in sample(model, tokenizer, "", Sampling(seed=1, samples=10, grammar=grammar)):
            assert re.fullmatch(expected, each.text)


def test_characters_of_several_tokens_are_followed_byte_by_byte() -> None:
    tokenizer = trained("bytes")
    for each in sample(Model(tokenizer), tokenizer, "", Sampling(seed=3, samples=20, regex="[日-本é😀]{3}")):
        assert len(each.text) == 3 and re.fullmatch("[日-本é😀]{3}", each.text)


SETTINGS = [
    Sampling(seed=5, samples=4, max_tokens=120, json_schema=PERSON),
    Sampling(seed=6, samples=3, max_tokens=40, regex=EITHER, temperature=1.5, top_p=0.9, repetition_penalty=1.2),
    Sampling(seed=7, samples=2, max_tokens=20),
]


@pytest.mark.parametrize("sampling", SETTINGS)
@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_samples_of_a_batch_are_those_drawn_alone_and_streamed(kind: str, sampling: Sampling) -> None:
    tokenizer, model = trained(kind), Model(trained(kind))
    together = sample(model, tokenizer, "the", sampling)
    for number, found in enumerate(together):
        one = replace(sampling, samples=1, first_sample=number)
        assert sample(model, tokenizer, "the", one) == [found]
        assert "".join(token.text for token in stream(model, tokenizer, "the", one)) == found.text


@pytest.mark.parametrize("kind", OPEN)
def test_a_draft_does_not_change_the_output(kind: str) -> None:
    tokenizer, model = trained(kind), Model(trained(kind))
    for seed, (name, source) in product(range(4), [("json_schema", json.dumps(PERSON)), ("regex", "(ab|cd){9}")]):
        settings = Sampling(seed=seed, max_tokens=200, temperature=0.5, **{name: source})
        plain = sample(model, tokenizer, "", settings)
        assert sample(model, tokenizer, "", settings, draft=PromptLookup()) == plain


def test_log_probabilities_are_the_models_own() -> None:
    tokenizer, model = trained("bytes"), Model(trained("bytes"))
    (found,) = sample(model, tokenizer, "", Sampling(seed=0, regex="(yes|no)+"))
    read = [tokenizer.eos, *found.ids[:-1]]
    table = model.table.astype(np.float64)
    expected = table[read, found.ids] - np.log(np.exp(table[read]).sum(-1))
    np.testing.assert_allclose(found.log_probabilities, expected, atol=1e-5)


def test_output_that_is_complete_at_its_last_token_was_not_cut() -> None:
    tokenizer = trained("bytes")
    (whole,) = sample(Model(tokenizer), tokenizer, "", Sampling(seed=0, regex="abc", max_tokens=3))
    (cut,) = sample(Model(tokenizer), tokenizer, "", Sampling(seed=0, regex="abcd", max_tokens=3))
    assert (whole.text, whole.finish_reason) == ("abc", "stop")
    assert (cut.text, cut.finish_reason) == ("abc", "length")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"regex": "("}, "the regex cannot be followed: unclosed group"),
        ({"regex": "a(?=b)"}, "look-around, including look-ahead and look-behind, is not supported"),
        ({"json_schema": {"type": "number", "not": {"const": 3}}}, 'Unimplemented keys: ["not"]'),
        ({"json_schema": {"type": "fish"}}, "the json_schema cannot be followed: Invalid type: fish"),
        ({"json_schema": "{"}, "the json_schema is not valid JSON"),
        ({"json_schema": "[1]"}, "the json_schema must be a JSON object, got [1]"),
        ({"grammar": "start: fish"}, 'unknown name: "fish"'),
        ({"regex": "a" * 200_000}, "the regex has 200,000 characters; 100,000 are allowed"),
        ({"regex": "a", "grammar": "b"}, "one of json_schema, regex, grammar, got regex and grammar"),
        ({"regex": 3}, "regex must be text, got 3"),
    ],
)
def test_what_cannot_be_matched_is_refused_before_anything_is_drawn(settings: dict[str, object], message: str) -> None:
    tokenizer = trained("bytes")
    with pytest.raises(UserError) as caught:
        stream(Model(tokenizer), tokenizer, "", Sampling(**settings))  # type: ignore[arg-type]
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_vocabulary_without_the_words_for_it_is_told_so() -> None:
    tokenizer = trained("closed words")
    with pytest.raises(UserError, match="no token that this model may take next continues an output that matches"):
        sample(Model(tokenizer), tokenizer, "", Sampling(json_schema=PERSON))


def test_without_the_library_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    tokenizer = Tokenizer(trained("bytes").backend)
    with pytest.raises(UserError) as caught:
        sample(Model(tokenizer), tokenizer, "", Sampling(regex="a"))
    assert str(caught.value) == NOT_INSTALLED and "chainrule[constraints]" in NOT_INSTALLED
