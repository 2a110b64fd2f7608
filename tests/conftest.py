"""Test runs write nowhere but under tmp_path."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _inside_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Default run folders go to ./runs: let that be a place of the test's own."""
    monkeypatch.chdir(tmp_path)
