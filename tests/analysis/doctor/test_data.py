"""Texts with a known share of copies, of validation lines in training, of shared passages and of one token."""

import numpy as np
import pytest

from chainrule.analysis.doctor.data import look_at_data
from chainrule.analysis.doctor.subject import load_subject
from chainrule.runs.write import store
from tests.analysis.doctor.conftest import chain_text


@pytest.fixture
def look(count):
    """look(text, validation) -> {name: finding}"""
    return lambda *texts, **settings: {
        finding.name: finding for finding in look_at_data(load_subject(count(*texts, **settings).path))
    }


def lines(count: int, seed: int) -> list[str]:
    return chain_text(count, seed).split("\n")[:-1]


def test_a_text_in_order_is_called_so(look):
    (found,) = look(chain_text(200, 0)).values()
    assert (found.name, found.severity) == ("text", "good")


@pytest.mark.parametrize(("copies", "severity"), [(10, None), (40, "note"), (120, "problem")])
def test_copies_are_counted_by_their_part_of_the_text(look, copies, severity):
    total = 100 + copies
    found = look("\n".join((lines(100, 0) * 3)[:total]), validation_fraction=0)
    if severity is None:
        assert list(found) == ["text"]
        return
    assert found["duplicate documents"].severity == severity
    expected = f"{copies} of {total} training documents are duplicates, {copies / total:.0%} of the text"
    assert expected == found["duplicate documents"].found


def test_validation_documents_that_training_has_are_a_problem(look):
    train, validation = lines(300, 0), lines(50, 1)
    found = look("\n".join(train), "\n".join(validation[:40] + train[:10]))
    seen = found["validation text in training"]
    assert seen.severity == "problem"
    assert "10 of 50 validation documents (20.0% of the text)" in seen.found
    assert list(look("\n".join(train), "\n".join(validation))) == ["text"]


def test_passages_within_documents_are_found_and_quoted(look, tmp_path):
    """A stretch of 150 letters of a long training line stands within one of ten validation lines of 200."""
    train, validation = (chain_text(20, seed, length=200).split("\n")[:-1] for seed in (0, 1))
    validation = validation[:10]
    validation[4] = validation[4][:25] + train[3][10:160] + validation[4][175:]
    found = look("\n".join(train), "\n".join(validation))
    shared = found["passages in training"]
    assert shared.severity == "note"
    share = float(shared.found.partition("%")[0])
    assert 100 * 150 / 2011 <= share + 0.05 <= 100 * 156 / 2011  # a few more letters may agree by chance
    assert "validation.txt:5" in shared.found
    assert train[3][12:50] in shared.found
    assert "validation text in training" not in found


def test_a_token_that_is_most_of_the_text_is_named(look):
    generator = np.random.default_rng(0)
    text = "\n".join("".join(generator.choice([" ", *"abcdefg"], 60, p=[0.65] + [0.05] * 7)) + "a" for _ in range(200))
    found = look(text)["one token dominates"]
    assert found.severity == "problem"
    share = text.count(" ") / (len(text) + 1)
    assert f"' ' is {share:.0%}" in found.found


def test_where_the_text_is_not_kept_nothing_can_be_said(count, tmp_path):
    run = count(chain_text(50, 0))
    merged = store(tmp_path / "merged", "ngram", run.model, run.tokenizer, {"inputs": [], "unit": "line"}, False)
    (found,) = look_at_data(load_subject(merged.path))
    assert (found.name, found.severity) == ("text", "note")
    assert "not stored" in found.found
