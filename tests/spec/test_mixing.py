"""Mixtures on the Penn Treebank: what a mix promises, measured where it costs seconds."""

from pathlib import Path

import pytest

import chainrule
from tests.shared_data import FOLDER, requires

PTB = FOLDER / "ptb"


@requires("ptb")
@pytest.mark.slow
def test_a_cache_gains_on_modified_kneser_ney_what_was_published(tmp_path: Path):
    """Mikolov (2012) reports 141.2 for the 5-gram and 125.7 with a cache, weights fitted on validation text."""
    run = chainrule.train(
        PTB / "ptb.train.txt", validation=PTB / "ptb.valid.txt", path=tmp_path / "five", unit="line",
        tokenizer="words", closed_vocabulary=True, order=5,
    )  # fmt: skip
    mixed = chainrule.mix([run], cache=True, test=PTB / "ptb.test.txt", path=tmp_path / "mix")
    found = mixed.metrics[-1]["test"]
    assert found["parts"][0]["perplexity"] == pytest.approx(141.19, abs=0.01)
    assert found["tokens"] == 82_430
    assert found["perplexity"] < 127
    assert found["against"]["high"] < 0
