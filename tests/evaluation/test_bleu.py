"""BLEU against a value worked out by hand, and the paired test against what must be so."""

from math import exp, log

import pytest

pytest.importorskip("sacrebleu", reason="sacrebleu is not installed")

from chainrule.evaluation.bleu import compare, measure


def test_bleu_by_hand():
    """'the cat sat on the mat' against '... on a mat': 5/6, 3/5, 2/4, 1/3 of the n-grams, and no brevity."""
    found = measure(["the cat sat on the mat"], ["the cat sat on a mat"], lowercase=False)
    expected = 100 * exp((log(5 / 6) + log(3 / 5) + log(2 / 4) + log(1 / 3)) / 4)
    assert found.bleu == pytest.approx(expected, rel=1e-6)
    assert "tok:13a" in found.bleu_signature and "case:mixed" in found.bleu_signature
    assert found.chrf_signature.startswith("nrefs:1")


def test_small_letters_are_asked_for():
    assert measure(["The Cat Sat Here"], ["the cat sat here"], lowercase=True).bleu == pytest.approx(100)
    assert measure(["The Cat Sat Here"], ["the cat sat here"], lowercase=False).bleu < 50


def test_a_short_text_pays_for_its_brevity():
    found = measure(["a b c d e"], ["a b c d e f g h i j"], lowercase=False)
    assert found.bleu == pytest.approx(100 * exp(1 - 10 / 5), rel=1e-6)


def test_the_paired_test_tells_a_real_difference_from_none():
    references = [f"number {i} is the word for {i * i} things" for i in range(60)]
    worse = [text.replace("word", "bird").replace("things", "rings") for text in references]
    real = {each.metric: each for each in compare(references, worse, references, False)}
    assert real["BLEU"].score == pytest.approx(100) and real["BLEU"].p_value < 0.01
    assert real["BLEU"].other == pytest.approx(measure(worse, references, False).bleu)
    none = compare(worse, [*worse[:-1], references[-1]], references, False)
    assert all(each.p_value > 0.05 for each in none)
