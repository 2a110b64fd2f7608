"""Real data sets for tests, where the folder is there: see `requires`."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"


def requires(name: str) -> pytest.MarkDecorator:
    """Skip a test, and say why, where a data set is absent."""
    return pytest.mark.skipif(not (FOLDER / name).exists(), reason=f"the data set '{name}' is not at ../shared/data")
