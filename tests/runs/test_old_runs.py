"""Runs that version 0.1 wrote open, give the numbers they gave then, and an unfinished training of it goes on."""

import json
import shutil
from pathlib import Path

import pytest

import chainrule
from chainrule.training.job import Job
from chainrule.training.journal import events
from chainrule.training.pipeline import resume

OLD = Path(__file__).parent / "old"
EXPECTED = json.loads((OLD / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["ngram", "lstm"])
def test_a_language_model_has_the_same_figures(name):
    found, expected = chainrule.load(OLD / name).evaluate(OLD / "other.txt"), EXPECTED[name]["evaluate"]
    assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-5)


def test_an_ngram_draws_the_same_text():
    assert chainrule.load(OLD / "ngram").sample("the cat", seed=5, max_tokens=12) == EXPECTED["ngram"]["sample"]


def test_a_neural_model_draws_the_same_text():
    assert (
        chainrule.load(OLD / "lstm").sample("the cat", temperature=1.0, seed=5, max_tokens=40)
        == EXPECTED["lstm"]["sample"]
    )


def test_a_translator_writes_the_same_translations():
    """By today's beam search, in which a text that has ended leaves the beam: one of the six was another before."""
    expected = EXPECTED["translation"]
    assert chainrule.load_pairs(OLD / "translation").translate(expected["sources"]) == expected["translations"]


def test_the_journal_of_an_old_training_is_read_in_todays_words():
    """What is a probe today was called a glimpse, and its top tokens faces."""
    happened = list(events(OLD / "lstm" / "metrics.jsonl"))
    probes = [event for event in happened if event["event"] == "probe"]
    assert probes and not any(event["event"] == "glimpse" for event in happened)
    top = probes[-1]["contexts"][0]["top"]
    assert top[0] == ["l", 0.151] and len(top) == 8


def test_an_unfinished_training_goes_on_to_the_same_end(tmp_path):
    shutil.copytree(OLD / "unfinished", tmp_path / ".poem.unfinished")
    run = resume(tmp_path / "poem", {})
    metrics = run.metrics[-1]
    assert metrics["steps"] == 240
    assert metrics["validation"]["loss"] == pytest.approx(EXPECTED["unfinished"]["validation"]["loss"], rel=0.01)


def test_an_unfinished_training_of_a_mixture_goes_on_with_its_weights(tmp_path):
    """They stood in training.json then; resumed once more after another interruption, they are still the same."""
    shutil.copytree(OLD / "mixture", tmp_path / ".poem.unfinished")
    for _ in range(2):
        job = Job.read(tmp_path / ".poem.unfinished")
        job.check_unchanged(tmp_path / ".poem.unfinished")
    metrics = resume(tmp_path / "poem", {}).metrics[-1]
    assert metrics["epochs"] == pytest.approx(EXPECTED["mixture"]["epochs"])
    assert metrics["validation"]["loss"] == pytest.approx(EXPECTED["mixture"]["loss"], rel=0.01)
