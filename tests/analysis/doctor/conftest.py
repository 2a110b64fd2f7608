"""Runs made sick on purpose, each in a second or two, and a healthy one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule
from chainrule.api import TrainedRun

LETTERS = "abcdefgh"
QUICK = {"model": "mlp", "size": "tiny", "tokenizer": "characters", "unit": "line", "batch_size": 16, "window": 64}


def chain_text(lines: int, seed: int, length: int = 60) -> str:
    """Letters that each depend on the one before: there is an entropy to reach, and nothing to learn by heart."""
    generator = np.random.default_rng(seed)
    weights = np.random.default_rng(1).dirichlet(np.full(len(LETTERS), 0.3), len(LETTERS)).cumsum(1)
    state = generator.integers(len(LETTERS), size=lines)
    columns = []
    for chances in generator.random((length, lines)):
        state = (weights[state] < chances[:, None]).sum(1).clip(max=len(LETTERS) - 1)
        columns.append(state)
    return "\n".join("".join(LETTERS[letter] for letter in line) for line in np.stack(columns, 1)) + "\n"


Make = Callable[..., TrainedRun]


def write(folder: Path, text: str, validation: str | None) -> dict[str, Any]:
    """What to train on, as arguments."""
    (folder / "text.txt").write_text(text)
    if validation is None:
        return {"inputs": folder / "text.txt"}
    (folder / "validation.txt").write_text(validation)
    return {"inputs": folder / "text.txt", "validation": folder / "validation.txt"}


@pytest.fixture(scope="session")
def train(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """train(text, steps=100): a run of a model that learns, with the settings of QUICK unless told otherwise."""

    def call(text: str, validation: str | None = None, **settings: Any) -> TrainedRun:
        folder = tmp_path_factory.mktemp("learned")
        return chainrule.train(**write(folder, text, validation), path=folder / "run", **QUICK | settings)

    return call


@pytest.fixture(scope="session")
def count(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """count(text): a run of a 3-gram of letters, a document a line, unless told otherwise."""

    def call(text: str, validation: str | None = None, **settings: Any) -> TrainedRun:
        folder = tmp_path_factory.mktemp("counted")
        given = {"order": 3, "tokenizer": "characters", "unit": "line"} | settings
        return chainrule.train(**write(folder, text, validation), path=folder / "run", **given)

    return call


@pytest.fixture(scope="session")
def healthy(train: Make) -> TrainedRun:
    return train(chain_text(4000, 0), steps=300)
