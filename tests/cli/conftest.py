"""Commands run whole, in this process."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chainrule.cli.main import main
from tests.cli.cows import LINES

Result = tuple[int, str, str]


@pytest.fixture
def chainrule(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """chainrule("train", "a.txt") -> (exit code, standard output, standard error)"""

    def call(*arguments: str | Path) -> Result:
        monkeypatch.setattr(sys, "argv", ["chainrule", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        out, err = capsys.readouterr()
        return int(exit.value.code or 0), out, err

    return call


@pytest.fixture
def cows(tmp_path: Path) -> Path:
    path = tmp_path / "cows.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path
