"""A mix explained: what its parts give, times how much they are listened to, is what the mix gives."""

from pathlib import Path

import numpy as np
import pytest

import chainrule
from chainrule.models.contract import log_softmax
from chainrule.models.explanation import Mixture
from chainrule.models.mix import Model


@pytest.mark.parametrize("by", ["all", "order"])
def test_contributions_add_up_to_the_probability(tmp_path: Path, by: str):
    lines = [f"the {'red' if i % 3 else 'old'} cow eats {'hay' if i % 2 else 'grass'} on day {i}" for i in range(120)]
    (tmp_path / "cows.txt").write_text("\n".join(lines))
    parts = [chainrule.train("cows.txt", order=order, tokenizer="characters") for order in (1, 4)]
    run = chainrule.mix([part.path for part in parts], cache=True, by=by)
    found = run.explain("the old cow eats", token=" ")
    inside = found.inside
    assert isinstance(inside, Mixture)
    assert len(inside.shares) == 3
    assert sum(share.weight for share in inside.shares) == pytest.approx(1.0)
    assert inside.probability == pytest.approx(found.probability, abs=1e-6)
    ids = np.append([run.tokenizer.eos], run.tokenizer.encode("the old cow eats")).astype(np.int64)
    token = int(run.tokenizer.encode(" ")[0])
    assert isinstance(run.model, Model)
    for share, part in zip(inside.shares, run.model.parts, strict=True):
        logits, _ = part.step(ids[None], part.start(1))
        assert share.probability == pytest.approx(float(np.exp(log_softmax(logits)[0, -1, token])), rel=1e-5)
    assert f"{inside.shares[0].contribution:.6f}" in found.html()
