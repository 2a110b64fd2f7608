"""What a prompt becomes, with real tokenizers."""

from pathlib import Path

import pytest

import chainrule
from chainrule.generation import Beam, Sampling, beam_search, sample

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


def test_bytes_and_characters_have_nothing_to_heal(tmp_path):
    (tmp_path / "cows.txt").write_text("\n".join(LINES))
    run = chainrule.train("cows.txt", unit="line", validation_fraction=0.0, tokenizer="characters", order=9)
    assert run.sample("the red ", temperature=0.01, seed=0) in LINES
