"""`chainrule compare`: what is printed, what is written, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[int, str, str]]


def test_compare_prints_a_table_and_makes_a_report(chainrule: Command, cows: Path):
    code, out, err = chainrule("compare", cows, "--models", "ngram:order=1 ngram:order=2")
    assert code == 0
    assert "ngram-2" in out and "is best with" in out
    assert "1 of 2: ngram-1" in err and "report: runs/cows-comparison/report/index.html" in err
    code, again, _ = chainrule("compare", cows, "--models", "ngram:order=1 ngram:order=2", "--json")
    found = json.loads(again)
    assert [model["model"] for model in found["models"]] == ["ngram-2", "ngram-1"]
    assert found["models"][0]["bits"] < found["models"][1]["bits"]
    assert f"{found['models'][0]['bits']:.4f}" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("compare",), "nothing to measure on"),
        (("compare", "-"), "save it as a file"),
        (("compare", "cows.txt", "--minutes", "0"), "minutes must be above zero"),
        (("compare", "cows.txt", "--models", "lsmt"), "did you mean 'lstm'"),
        (("compare", "absent.txt", "--models", "ngram"), "absent.txt"),
        (("compare", "--test", "cows.txt", "--models", "ngram"), "ngram must be trained first"),
        (("compare", "cows.txt", "--models", "ngram", "--as", "runs/cows"), "is not a comparison"),
    ],
)
def test_mistakes_get_one_sentence(chainrule: Command, cows: Path, arguments: tuple[str, ...], words: str):
    Path("runs/cows").mkdir(parents=True)
    Path("runs/cows/mine.txt").write_text("not to be touched")
    code, out, err = chainrule(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert not Path("runs/cows-comparison").exists() and Path("runs/cows/mine.txt").exists()
