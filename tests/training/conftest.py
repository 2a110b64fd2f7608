"""What several tests of training share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training.processes import Commands, serve


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    yield from serve(tmp_path_factory.mktemp("outputs"))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A text of a few kB."""
    path = tmp_path / "cows.txt"
    animals, foods = ("cow", "old cow", "sheep", "goat"), ("hay", "grass", "clover")
    path.write_text("\n".join(f"line {i}: the {animals[i % 4]} eats {foods[i * i % 3]} today" for i in range(120)))
    return path
