"""`chainrule plan` as a person meets it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chainrule.analysis.plan import machines
from chainrule.cli.main import main

Result = tuple[int, str, str]


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """plan("gpt2") -> (exit code, standard output, standard error); this machine is 'measured' at 100 gigaflop/s."""
    measured = machines.Machine("this machine", 100e9, "float32, measured", 16e9)
    monkeypatch.setattr(machines, "measure_this_machine", lambda: measured)

    def call(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["chainrule", "plan", *arguments])
        try:
            main()
        except SystemExit as exit:
            out, err = capsys.readouterr()
            return int(exit.code or 0), out, err
        raise AssertionError

    return call


def test_gpt3_on_one_page(plan):
    code, out, err = plan("gpt3-175b", "--tokens", "300B")
    assert (code, err) == (0, "")
    for words in (
        "174,604,259,328; published as 174.6B",
        "3.14e23",
        "3,638 petaflop/s-days",
        "2.79 TB",
        "this machine",
    ):
        assert words in out
    lines = [line.rstrip() for line in out.splitlines()]
    assert len(lines) <= 22
    assert max(map(len, lines)) <= 100


def test_rows_are_aligned(plan):
    _, out, _ = plan("gpt2")
    second = out.splitlines()[0].index("gpt2")
    assert {line[second - 1] for line in out.splitlines()} == {" "}


def test_json_says_everything(plan):
    code, out, _ = plan(
        "gpt3-175b", "--json", "--machine", "a100", "--devices", "1024", "--price", "2", "--tokens", "1T"
    )
    result = json.loads(out)
    assert code == 0
    assert result["model"]["parameters"]["total"] == sum(result["model"]["parameters"]["parts"].values())
    assert result["compute"]["tokens"] == 10**12
    assert result["memory"]["total"] == 16 * 174_604_259_328
    (time,) = result["times"]
    assert time["cost"] == pytest.approx(time["seconds"] / 3600 * 1024 * 2)
    assert result["advice"]["tokens_per_parameter"] == pytest.approx(10**12 / 174_604_259_328)


def test_without_a_model_the_presets_are_listed(plan):
    code, out, err = plan()
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()][:3] == ["preset", "gpt", "gpt2"]
    assert out.splitlines()[-1].split() == "gpt3-175b 174.6B 96 12,288 96 of 128 2,048 3.2M 6.0e-05".split()
    assert "next: chainrule plan" in err
    assert len(json.loads(plan("--json")[1])) == 13


def test_what_the_paper_prints_otherwise_is_told(plan):
    assert "note: the paper prints 24 heads" in plan("gpt3-xl", "--machine", "h100")[2]
    assert "note: the paper's 1,542M" in plan("gpt2-xl", "--machine", "h100")[2]


def test_machines_utilisation_and_price(plan):
    _, out, _ = plan("gpt2", "--machine", "100B", "--utilisation", "1", "--price", "0.5")
    assert "at 100 % of the speed of one machine" in out
    assert "100 gigaflop/s; costs" in out
    assert "at 40 % of the speed of 8 machines" in plan("gpt2", "--machine", "tpu-v3", "--devices", "8")[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("gpt5",), "'gpt5' is neither a preset nor a run"),
        (("gpt3-175",), "did you mean 'gpt3-175b'?"),
        (("gpt2", "--tokens", "300X"), "--tokens must be a number such as 500K, 1.5M, 300B or 3e11, got '300X'"),
        (("gpt2", "--tokens", "-5"), "--tokens must be a number"),
        (("gpt2", "--tokens", "0"), "--tokens must be from 1"),
        (("gpt2", "--machine", "h10"), "did you mean 'h100'?"),
        (("gpt2", "--utilisation", "40"), "--utilisation must be from 0.001 to 1, got 40"),
        (("gpt2", "--batch-size", "0"), "--batch-size must be from 1"),
        (("gpt2", "--context-length", "0"), "--context-length must be from 1"),
        (("gpt2", "--price", "nan"), "--price must be a number from 0"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(plan, arguments: tuple[str, ...], words: str):
    code, out, err = plan(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("chainrule: ")
    assert err.count("\n") == 1
    assert words in err


def test_a_file_is_not_a_run(plan, tmp_path: Path):
    (tmp_path / "poems.txt").write_text("a")
    code, _, err = plan("poems.txt")
    assert code == 2
    assert "is a file, not a run" in err


def test_torch_is_imported_only_to_measure():
    program = "import sys; from chainrule.cli.plan import command; command('gpt2', machine='a100'); "
    program += "assert not {'torch', 'numba'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, capture_output=True)
