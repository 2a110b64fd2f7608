"""A pretrained run in runs/: which one is found, and what it predicts of a text as it is."""

import pytest

import chainrule
from chainrule.runs.write import store
from chainrule.training import pretrained

DOCUMENTS = [f"{name} has {count} sheep and {count} cows" for name in ("Ann", "Bob", "Eve") for count in range(40)]


@pytest.fixture
def known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pretrained, "LARGE", 1)
    settings = {"model": "transformer", "size": "llama-tiny", "tokenizer": "characters", "steps": 40}
    base = chainrule.train(chainrule.Texts(DOCUMENTS), path="runs/trained", **settings)
    store(tmp_path / "runs" / "known", "transformer", base.model, base.tokenizer, {"inputs": ["elsewhere"]}, False)
    return base


def test_the_imported_run_is_found_and_not_one_that_was_trained_here(known):
    found = pretrained.find_pretrained()
    assert found is not None and found.name == "known"


def test_small_weights_are_no_pretrained_run(known, monkeypatch):
    monkeypatch.setattr(pretrained, "LARGE", 40_000_000)
    assert pretrained.find_pretrained() is None


def test_bits_are_those_of_evaluate_with_the_ends_of_documents_counted(known):
    few = DOCUMENTS[::4]
    measured, size = known.evaluate(chainrule.Texts(few)), len("".join(few))
    with_ends = measured["bits_per_byte"] * size / (size + len(few))
    assert pretrained.bits_per_byte(known, few) == pytest.approx(with_ends, rel=1e-4)
