"""`chainrule list`: what runs there are, how good, how old, and which can be resumed."""

import json
from pathlib import Path

import pytest

import chainrule as library
from chainrule.training import learn


def test_runs_are_listed_with_model_size_quality_and_age(chainrule, cows):
    chainrule("train", cows, "--order", 2)
    run = library.load("runs/cows")
    code, out, err = chainrule("list")
    assert code == 0 and err == ""
    title, row = out.splitlines()
    assert title.split() == ["run", "model", "parameters", "on", "disk", "bits/byte", "age"]
    bits = run.trained["validation"]["bits_per_byte"]
    assert row.split()[:2] == ["runs/cows", "ngram"] and f"{bits:.4f}" in row
    assert row.endswith((" s", " min"))
    (found,) = json.loads(chainrule("list", "--json")[1])
    assert found["run"] == "runs/cows" and found["status"] == "finished" and found["inputs"] == [str(cows)]
    assert found["parameters"] == run.model.num_parameters and found["bytes"] == run.size_bytes
    assert found["bits_per_byte"] == bits


def test_an_unfinished_training_is_listed_with_the_command_that_resumes_it(chainrule, cows, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(learn, "write_run", interrupt)
        tiny = ("--model", "mlp", "--size", "tiny", "--tokenizer", "characters", "--steps", "2")
        assert chainrule("train", cows, *tiny, "--as", "elsewhere/half")[0] == 130
    _, out, err = chainrule("list", "elsewhere")
    assert "elsewhere/half  mlp (unfinished)" in out
    assert "continue with: chainrule train --resume elsewhere/half" in err
    assert json.loads(chainrule("list", "elsewhere", "--json")[1])[0]["status"] == "unfinished"
    assert chainrule("train", "--resume", "elsewhere/half")[0] == 0
    assert json.loads(chainrule("list", "elsewhere", "--json")[1])[0]["status"] == "finished"


def test_a_damaged_run_is_listed_as_such(chainrule, cows):
    chainrule("train", cows, "--order", 2)
    (Path("runs/cows") / "config.json").write_text("{")
    assert json.loads(chainrule("list", "--json")[1])[0]["status"] == "damaged"
    assert "runs/cows  (damaged)" in chainrule("list")[1]


def test_no_runs_and_no_folder_are_told_apart(chainrule):
    assert chainrule("list") == (0, "", "there are no runs in 'runs' yet; make one with: chainrule train YOUR.txt\n")
    assert chainrule("list", "absent") == (2, "", "chainrule: there is no folder 'absent'\n")
    assert json.loads(chainrule("list", "--json")[1]) == []


@pytest.mark.parametrize(
    ("seconds", "age"), [(0, "0 s"), (59, "59 s"), (60, "1 min"), (7200, "2 h"), (86_399, "23 h"), (200_000, "2 d")]
)
def test_ages_are_in_their_largest_unit(seconds, age):
    from chainrule.cli.list import _age

    assert _age(seconds) == age
