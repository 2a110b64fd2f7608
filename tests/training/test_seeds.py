"""--seed moves the first weights and the order of the text, and nothing else; --split-seed moves what is kept aside."""

import json
from pathlib import Path

import numpy as np
import pytest

import chainrule
from chainrule.api.language import TrainedRun
from chainrule.errors import UserError
from chainrule.storage import load_arrays

TINY = {"model": "lstm", "size": "tiny", "steps": 2, "tokenizer": "bytes"}


@pytest.fixture(autouse=True)
def cows(tmp_path: Path) -> None:
    (tmp_path / "cows.txt").write_text("".join(f"the cow {i} eats {i * i % 7}\n" for i in range(200)))


def kept_aside(run: TrainedRun) -> str:
    return run.config["data"]["text"]["validation"]["hash"]


def weights(run: TrainedRun) -> dict[str, np.ndarray]:
    return load_arrays(run.path / "model.safetensors")[0]


def test_runs_of_different_seeds_have_other_weights_and_the_same_validation_text() -> None:
    first, second, again = (chainrule.train("cows.txt", seed=seed, **TINY) for seed in (0, 1, 1))
    assert kept_aside(first) == kept_aside(second) == kept_aside(again)
    assert [run.config["training"]["recipe"]["seed"] for run in (first, second, again)] == [0, 1, 1]
    mine, others, same = map(weights, (first, second, again))
    assert any((mine[name] != others[name]).any() for name in mine)
    assert all((others[name] == same[name]).all() for name in others)


def test_the_split_has_a_seed_of_its_own() -> None:
    usual, other = (chainrule.train("cows.txt", order=2, split_seed=seed) for seed in (0, 1))
    assert kept_aside(usual) == kept_aside(chainrule.train("cows.txt", order=2))
    assert kept_aside(usual) != kept_aside(other)
    assert [run.config["data"]["split_seed"] for run in (usual, other)] == [0, 1]
    assert [run.config["data"]["splits"][0]["seed"] for run in (usual, other)] == [0, 1]


def test_a_model_that_counts_is_the_same_whatever_the_seed() -> None:
    first, second = (chainrule.train("cows.txt", order=3, seed=seed) for seed in (0, 5))
    mine, others = weights(first), weights(second)
    assert mine.keys() == others.keys()
    assert all((mine[name] == others[name]).all() for name in mine)
    assert first.evaluate()["nats"] == second.evaluate()["nats"]


def test_a_comparison_trains_with_its_seed_and_splits_by_another() -> None:
    chosen = {"models": ["lstm:size=tiny,steps=2", "ngram:order=2"], "path": "both", "tokenizer": "bytes"}
    report = chainrule.compare("cows.txt", seed=3, split_seed=4, **chosen)
    run = chainrule.load("both/lstm-tiny-steps=2")
    assert run.config["training"]["recipe"]["seed"] == 3
    assert run.config["data"]["splits"][0]["seed"] == 4
    same = chainrule.compare("cows.txt", seed=5, split_seed=4, **{**chosen, "path": "again"})
    assert report.table.documents == same.table.documents
    assert report.table.row("ngram-2").bits == same.table.row("ngram-2").bits


def test_a_comparison_begun_when_there_was_one_seed_is_taken_up_with_both() -> None:
    chosen = {"models": ["ngram:order=2"], "path": "both"}
    chainrule.compare("cows.txt", seed=2, split_seed=2, **chosen)
    plan = json.loads(Path("both/comparison.json").read_text())
    plan["data"]["seed"] = plan["data"].pop("split_seed")
    del plan["seed"]
    Path("both/comparison.json").write_text(json.dumps(plan))
    chainrule.compare("cows.txt", seed=2, split_seed=2, **chosen)
    with pytest.raises(UserError, match="with other settings"):
        chainrule.compare("cows.txt", seed=2, **chosen)
