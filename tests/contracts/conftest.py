"""One run after the other, of every architecture there is, one of which only the tests know."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import chainrule
from tests import architectures
from tests.contracts.runs import ALL, READING, TEXT, train


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The text; while it is there, so is one more folder of architectures."""
    path = tmp_path_factory.mktemp("runs") / "cows.txt"
    path.write_text(TEXT)
    with architectures.added():
        yield path


@pytest.fixture(scope="module")
def bigram(text: Path) -> Path:
    """Another run of the same tokens, to mix with and to compare with."""
    path = text.parent / "bigram"
    chainrule.train(text, order=2, path=path, **READING)
    return path


@pytest.fixture(scope="module", params=ALL)
def run(request: pytest.FixtureRequest, text: Path, bigram: Path) -> Path:
    return train(request.param, text.parent)
