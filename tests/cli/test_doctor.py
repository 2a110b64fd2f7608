"""`chainrule doctor`: findings for people and as JSON; findings are no errors."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import chainrule
from chainrule.cli.main import main

Result = tuple[int, str, str]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """doctor("runs/a") -> (exit code, standard output, standard error)"""

    def call(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["chainrule", "doctor", *arguments])
        with pytest.raises(SystemExit) as exit:
            main()
        out, err = capsys.readouterr()
        return int(exit.value.code or 0), out, err

    return call


@pytest.fixture
def copies(tmp_path: Path) -> str:
    """A run of a text of thirty lines that are all there three times."""
    text = tmp_path / "copies.txt"
    text.write_text("\n".join(f"line {i % 30} of some text that is there more than once" for i in range(90)))
    chainrule.train(text, unit="line", path="runs/copies")
    return "runs/copies"


def test_findings_have_their_severity_first_and_what_to_do_below(doctor, copies):
    code, out, err = doctor(copies)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("problem  duplicate documents: "))
    assert lines[place + 1].strip().startswith("→ remove the duplicates")
    severities = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert severities == sorted(severities, key=("problem", "note", "good").index)


def test_json_has_every_finding(doctor, copies):
    code, out, _ = doctor(copies, "--json")
    result = json.loads(out)
    assert (code, result["run"]) == (0, copies)
    assert result["findings"] == [vars(each) for each in chainrule.load(copies).doctor()]
    assert {"duplicate documents", "quality"} <= {each["name"] for each in result["findings"]}


def test_a_run_that_is_not_there_is_refused(doctor):
    code, out, err = doctor("runs/none")
    assert (code, out) == (2, "")
    assert "run 'runs/none' not found" in err
