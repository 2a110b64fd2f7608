"""What every command has: settings from a file, quiet, and errors that programs can read."""

import json
from pathlib import Path

import pytest

import chainrule as library

TINY = ("--model", "mlp", "--size", "tiny", "--tokenizer", "characters")


def test_a_run_is_trained_again_on_other_text_with_the_settings_of_its_config(chainrule, cows):
    chainrule("train", cows, *TINY, "--steps", 4, "--set", "window=8", "--unit", "line", "--seed", 3)
    Path("other.txt").write_text("the pig sleeps in the mud\nthe hen sleeps in the hay\n" * 20)
    code, out, err = chainrule("train", "other.txt", "--config", "runs/cows/config.json", "--json")
    assert code == 0, err
    first, second = json.loads(Path("runs/cows/config.json").read_text()), json.loads(out)["config"]
    for part in ("architecture", "model", "training"):
        assert first[part] == second[part]
    assert first["tokenizer"]["kind"] == second["tokenizer"]["kind"] == "characters"
    assert second["data"]["inputs"] == ["other.txt"]


def test_flags_take_precedence_over_the_file(chainrule, cows):
    Path("s.json").write_text('{"model": "mlp", "size": "tiny", "minutes": 3, "tokenizer": "bytes", "window": 8}')
    code, out, err = chainrule("train", cows, "--config", "s.json", "--steps", 2, "--set", "window=4", "--json")
    assert code == 0, err
    config = json.loads(out)["config"]
    recipe = config["training"]["recipe"]
    assert (recipe["steps"], recipe["minutes"], recipe["window"]) == (2, None, 4)
    assert (config["architecture"], config["tokenizer"]["kind"]) == ("mlp", "bytes")


def test_the_python_interface_reads_the_same_file(cows):
    first = library.train(cows, model="mlp", size="tiny", tokenizer="characters", steps=2)
    second = library.train(cows, config=first.path / "config.json", path="runs/second")
    assert first.config["training"] == second.config["training"] and first.config["model"] == second.config["model"]
    third = library.train(cows, config=first.path / "config.json", epochs=0.01, path="runs/third")
    assert third.config["training"]["recipe"]["steps"] is None


def test_sampling_takes_settings_from_a_file(chainrule, cows):
    chainrule("train", cows, "--order", 3)
    Path("s.json").write_text('{"prompt": "on day", "seed": 1, "max_tokens": 5, "stop": ["hay"]}')
    by_file = chainrule("sample", "runs/cows", "--config", "s.json")
    assert by_file == chainrule("sample", "runs/cows", "on day", "--seed", "1", "--max-tokens", "5", "--stop", "hay")
    Path("s.json").write_text('{"temprature": 1}')
    code, _, err = chainrule("sample", "runs/cows", "--config", "s.json")
    assert code == 2
    assert "'s.json' sets 'temprature', which is not a flag of chainrule sample; did you mean 'temperature'?" in err


def test_an_ensemble_has_no_settings_to_train_with(chainrule, cows):
    chainrule("train", cows, "--order", 2)
    config = Path("runs/cows/config.json")
    config.write_text(json.dumps(json.loads(config.read_text()) | {"architecture": "ensemble"}))
    code, _, err = chainrule("train", cows, "--config", config)
    assert code == 2 and "make another with: chainrule train TEXT --minutes 5" in err


def test_quiet_leaves_only_the_result(chainrule, cows):
    code, loud, said = chainrule("train", cows, "--order", 2)
    assert code == 0 and "next: " in said
    code, out, err = chainrule("train", cows, "--order", 2, "--overwrite", "--quiet")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == loud.splitlines()[-1] == "run         runs/cows"
    assert chainrule("train", cows, *TINY, "--steps", 2, "-q", "--as", "runs/m")[2] == ""
    assert "absent" in chainrule("train", "absent.txt", "--quiet")[2], "errors are not progress"
    assert "next: " in chainrule("train", cows, "--order", 2)[2], "and the next command is not quiet"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sample", "runs/none"), "run 'runs/none' not found"),
        (("train", "absent.txt"), "'absent.txt'"),
        (("train", "--ordr", "3"), "No such option: --ordr"),
        (("list", "absent"), "there is no folder 'absent'"),
    ],
)
def test_errors_are_json_where_results_would_be(chainrule, arguments, words):
    code, out, err = chainrule(*arguments, "--json")
    assert code == 2
    error = json.loads(out)["error"]
    assert error["exit_code"] == 2 and words in error["message"]
    assert words in " ".join(err.split()), "people read the same on standard error"
    assert chainrule(*arguments)[1] == "", "without --json, standard output stays empty"


def test_train_with_overwrite_replaces_the_run_of_that_text(chainrule, cows):
    for order in (2, 3, 4):
        assert chainrule("train", cows, "--order", order, "--overwrite")[0] == 0
    assert [path.name for path in Path("runs").iterdir()] == ["cows"]
    assert library.load("runs/cows").config["model"]["order"] == 4


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ("--order", "3", "--minutes", "1"),
            "order is a setting of the model ngram, which counts its text once and has no use for minutes; "
            "leave out one of the two",
        ),
        (("--model", "ngram", "--minutes", "1"), "ngram counts its text once, so it takes no minutes"),
    ],
)
def test_an_order_and_a_time_limit_are_refused_in_one_short_sentence(chainrule, cows, flags, words):
    code, _, err = chainrule("train", cows, *flags)
    assert code == 2
    assert words in err and len(err) < 200


def test_a_budget_alone_says_before_training_that_the_result_cannot_be_exported(chainrule, cows, monkeypatch):
    from chainrule.training import pipeline

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "train_ensemble", stop)
    monkeypatch.setattr(pipeline, "resolve", stop)
    said = "note: --minutes alone trains an ensemble, which cannot be exported; pass --one for a network that can be\n"
    assert chainrule("train", cows, "--minutes", "1")[2].startswith(said)
    assert "exported" not in chainrule("train", cows, "--minutes", "1", "--one")[2]
