"""From token shards to windows: every source of a mixture has its own ring, cut where its shards begin."""

from pathlib import Path

import numpy as np
import pytest

import chainrule
from chainrule.data.shards import TokenShards
from chainrule.tasks.language import Task
from chainrule.training.learn import make_budget
from chainrule.training.recipe import Recipe

LINES = {"a.txt": "alpha {} is here", "b.txt": "beta beta {} is there too", "c.txt": "gamma {}"}


@pytest.fixture
def run(tmp_path: Path):
    for name, line in LINES.items():
        (tmp_path / name).write_text("\n".join(line.format(i) for i in range(80)))
    inputs = ["a.txt=5", "b.txt=3", "c.txt=2"]
    return chainrule.train(
        inputs, model="bow", size="tiny", tokenizer="characters", unit="line", steps=40, path="runs/mix", batch_size=10
    )


def test_every_source_of_a_mixture_is_a_ring_of_its_own(run):
    shards = TokenShards(run.path / "tokens", "train")
    assert len(shards) == 3
    windows = Task(run.path).batches(Recipe(window=8))
    for ring, word, other in zip(windows.rings, ("alpha", "beta", "gamma"), ("beta", "gamma", "alpha"), strict=True):
        text = run.tokenizer.decode(ring.take(np.array([0]), ring.size)[0])
        assert word in text and other not in text
    assert sum(ring.size for ring in windows.rings) == shards.part.tokens


def test_epochs_of_a_run_are_weight_times_tokens_by_size(run):
    """Row 23, from end to end."""
    shards = TokenShards(run.path / "tokens", "train")
    sizes = [shards.part.shards[i]["tokens"] - 1 for i in range(3)]
    tokens = run.metrics[-1]["tokens"]
    window = run.config["training"]["recipe"]["window"]
    assert tokens == 40 * 10 * window
    for found, weight, size, source in zip(
        run.metrics[-1]["epochs"], (0.5, 0.3, 0.2), sizes, run.config["data"]["mixture"], strict=True
    ):
        assert found == pytest.approx(weight * tokens / size, abs=window / size)
        assert source["epochs"] == found
        assert source["weight"] == pytest.approx(weight)


@pytest.mark.parametrize(
    ("budget", "steps"), [({"tokens": 1000.0}, 25), ({"epochs": 2.0}, None), ({"steps": 7}, 7), ({"tokens": 1.0}, 1)]
)
def test_tokens_and_epochs_become_steps(run, budget, steps):
    shards = TokenShards(run.path / "tokens", "train")
    recipe = Recipe(window=8, batch_size=5, **budget)
    windows = Task(run.path).batches(recipe)
    expected = steps or round(2 * shards.part.tokens / 40)
    found = make_budget(recipe, windows, None)
    assert (found.steps, found.seconds) == (expected, None)


def test_minutes_are_seconds_or_what_is_left_of_them(run):
    recipe = Recipe(minutes=2.0)
    windows = Task(run.path).batches(recipe)
    assert make_budget(recipe, windows, None).seconds == 120
    assert make_budget(recipe, windows, 97.5).seconds == 97.5


@pytest.mark.parametrize("architecture", ["lstm", "transformer", "mlp"])
def test_a_text_of_a_few_words_trains(architecture, tmp_path):
    """Shorter than a window, a chain and a batch."""
    (tmp_path / "short.txt").write_text("to be or not to be")
    run = chainrule.train(
        "short.txt", model=architecture, size="tiny", tokenizer="characters", validation_fraction=0.0, steps=5
    )
    assert run.metrics[-1]["validation"] is None
    assert run.sample("to", seed=0, max_tokens=3).startswith("to")
