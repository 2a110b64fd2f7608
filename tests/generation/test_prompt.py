"""What a prompt becomes, with real tokenizers."""

from pathlib import Path

import pytest

import chainrule
from chainrule.generation import Beam, Sampling, beam_search, sample
from chainrule.generation.prompt import read_prompt
from chainrule.text.bpe import load_gpt2
from tests.shared_data import FOLDER, requires

SEEDED = Sampling(temperature=0.5, seed=3)
LINES = [f"the {a} cow eats {b} today" for a in ("red", "old", "big") for b in ("hay", "grass", "corn")] * 5


@pytest.fixture(scope="module", params=["words", "bpe", "closed"])
def run(request, tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp(request.param)
    (folder / "cows.txt").write_text("\n".join(LINES))
    closed = {"closed_vocabulary": True} if request.param == "closed" else {}
    kind = "words" if closed else request.param
    return chainrule.train(
        folder / "cows.txt", path=folder / "run", unit="line", validation_fraction=0.0, tokenizer=kind, **closed
    )


@pytest.mark.parametrize("settings", [Sampling(temperature=0), Sampling(temperature=0.1, seed=1)])
def test_a_space_at_the_end_of_a_prompt_changes_nothing_but_the_space(run, settings):
    """What follows 'the red' with its space is what follows 'the red ' without one."""
    (with_space,), (without,) = (sample(run.model, run.tokenizer, text, settings) for text in ("the red ", "the red"))
    assert without.text == " " + with_space.text
    assert with_space.text.startswith("cow eats")


def test_a_space_at_the_end_is_healed_in_beam_search_too(run):
    (with_space,), (without,) = (beam_search(run.model, run.tokenizer, t, Beam(3)) for t in ("the red ", "the red"))
    assert without.text == " " + with_space.text


def test_every_text_begins_with_its_prompt_and_reads_on(run):
    for prompt in ("", "the", "the ", "the red cow", "the red cow "):
        text = run.sample(prompt, temperature=0.01, seed=0)
        assert text in LINES


@pytest.mark.parametrize("prompt", ["the red", "red", "cow eats", "The", ""])
def test_a_space_before_the_first_word_changes_nothing(run, prompt):
    plain, spaced = (run.explain(text, top=1000) for text in (prompt, f" {prompt}"))
    assert spaced.distribution == plain.distribution
    assert spaced.tokens == plain.tokens
    if prompt:
        assert run.explain(f" {prompt} ").tokens == plain.tokens
        (first,), (second,) = (sample(run.model, run.tokenizer, text, SEEDED) for text in (prompt, f" {prompt}"))
        assert first == second
        assert run.sample(f" {prompt}", temperature=0.5, seed=3) == f" {prompt}{first.text}"


def test_only_one_space_before_a_word_is_left_out(run):
    if not run.tokenizer.joins_with_spaces:
        for text in ("  the", "\nthe", " \nthe", "\tthe"):
            read = read_prompt(run.model, run.tokenizer, text, truncate=False)
            assert read.ids.tolist() == [run.tokenizer.eos, *run.tokenizer.encode(text)]


def test_a_prompt_is_kept_where_its_own_tokens_are_measured(run):
    for text in (" the", "the ", " the red "):
        read = read_prompt(run.model, run.tokenizer, text, truncate=False, heals=False)
        assert read.ids.tolist() == [run.tokenizer.eos, *run.tokenizer.encode(text)]


def test_longer_white_space_at_the_end_is_kept_and_the_next_word_begins_right_after_it(tmp_path):
    text = "the cow\n eats hay\n the cow\n eats corn\n" * 20
    run = chainrule.train(chainrule.Texts([text]), path=tmp_path / "run", validation_fraction=0.0, tokenizer="words")
    assert run.tokenizer.adds_spaces
    assert run.sample("the cow\n ", temperature=0, max_tokens=2) == "the cow\n eats hay"
    assert run.sample("the cow\n eats hay\n ", temperature=0, max_tokens=2) == "the cow\n eats hay\n the cow"


def test_bytes_and_characters_have_nothing_to_heal(tmp_path):
    (tmp_path / "cows.txt").write_text("\n".join(LINES))
    run = chainrule.train("cows.txt", unit="line", validation_fraction=0.0, tokenizer="characters", order=9)
    assert run.sample("the red ", temperature=0.01, seed=0) in LINES
    read = read_prompt(run.model, run.tokenizer, " the red ", truncate=False)
    assert read.ids.tolist() == [run.tokenizer.eos, *b" the red "]


@requires("gpt2-bpe")
def test_a_tokenizer_made_elsewhere_tells_a_first_word_with_a_space_from_one_without():
    tokenizer = load_gpt2(FOLDER / "gpt2-bpe")
    for text in ("The sea", " The sea"):
        read = read_prompt(None, tokenizer, text, truncate=False)
        assert read.ids.tolist() == [tokenizer.eos, *tokenizer.encode(text)]
    assert tokenizer.encode("The sea")[0] != tokenizer.encode(" The sea")[0]


def test_words_of_version_0_1_tell_a_first_word_with_a_space_from_one_without():
    run = chainrule.load(Path(__file__).parents[1] / "runs" / "old" / "ngram")
    assert run.tokenizer.kind == "words" and not run.tokenizer.adds_spaces
    for text in ("the cat", " the cat"):
        read = read_prompt(run.model, run.tokenizer, text, truncate=False)
        assert read.ids.tolist() == [run.tokenizer.eos, *run.tokenizer.encode(text)]
    assert run.tokenizer.encode("the cat")[0] != run.tokenizer.encode(" the cat")[0]
