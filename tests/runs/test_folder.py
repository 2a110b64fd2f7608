import json
from pathlib import Path

import pytest

import chainrule
from chainrule.errors import UserError
from chainrule.runs.folder import Run

TEXT = "\n".join(f"the cow number {i} eats grass and hay" for i in range(60))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "cows.txt").write_text(TEXT)
    return chainrule.train(tmp_path / "cows.txt", path=tmp_path / "runs" / "cows")


def test_a_run_holds_what_it_should(run):
    files = {path.relative_to(run.path).as_posix() for path in run.path.rglob("*") if path.is_file()}
    assert {
        "config.json",
        "tokenizer.json",
        "model.safetensors",
        "metrics.jsonl",
        "README.md",
        "manifest.json",
    } <= files
    assert {"tokens/index.json", "tokens/train-00000.bin", "tokens/validation-00000.bin"} <= files
    assert run.verify() == []


def test_the_manifest_finds_a_changed_byte(run):
    file = run.path / "metrics.jsonl"
    data = bytearray(file.read_bytes())
    data[5] ^= 1
    file.write_bytes(data)
    assert Run(run.path).verify() == ["metrics.jsonl"]


def test_a_file_cut_off_or_missing_is_noticed_on_opening(run):
    model = run.path / "model.safetensors"
    whole = model.read_bytes()
    model.write_bytes(whole[:-1])
    with pytest.raises(UserError, match="truncated or was changed"):
        Run(run.path)
    model.unlink()
    with pytest.raises(UserError, match=r"the file model\.safetensors of the run .* is missing"):
        Run(run.path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"architecture": 3, "data": 1}'])
def test_a_damaged_config_is_one_sentence(run, text):
    (run.path / "config.json").write_text(text)
    with pytest.raises(UserError, match="damaged|changed"):
        Run(run.path)


def test_a_run_that_is_not_there_brings_a_suggestion(run):
    with pytest.raises(
        UserError, match=r"run 'runs/cow' not found; did you mean 'runs/cows'\? \(chainrule train makes runs\)"
    ):
        Run("runs/cow")
    with pytest.raises(UserError, match=r"'cows.txt' is a file, not a run; make a run of it with: chainrule train"):
        Run("cows.txt")


def test_a_bare_name_is_found_among_the_runs(run):
    assert Run("cows").path == Path("runs/cows")


def test_a_model_and_a_tokenizer_of_different_runs_do_not_open_together(run, tmp_path):
    (tmp_path / "pigs.txt").write_text(TEXT.replace("cow", "pig"))
    other = chainrule.train("pigs.txt", path=tmp_path / "pigs")
    assert other.tokenizer.vocabulary_size == run.tokenizer.vocabulary_size
    (run.path / "tokenizer.json").write_bytes((other.path / "tokenizer.json").read_bytes())
    manifest = json.loads((run.path / "manifest.json").read_text())
    manifest["tokenizer.json"] = json.loads((other.path / "manifest.json").read_text())["tokenizer.json"]
    (run.path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="do not belong together"):
        _ = Run(run.path).model


def test_training_twice_gives_the_same_model_byte_for_byte(run, tmp_path):
    again = chainrule.train("cows.txt", path=tmp_path / "again")
    for name in ("model.safetensors", "tokenizer.json", "tokens/train-00000.bin"):
        assert (again.path / name).read_bytes() == (run.path / name).read_bytes()
    assert json.loads((again.path / "config.json").read_text())["model"] == run.config["model"]


def test_an_unfinished_training_is_not_a_run_and_says_how_to_go_on():
    folder = Path("runs/.poems.unfinished")
    folder.mkdir(parents=True)
    with pytest.raises(UserError, match="run 'poems' not found"):
        Run("poems")
    (folder / "training.json").write_text("{}")
    for name in ("poems", "runs/poems"):
        with pytest.raises(
            UserError, match="'runs/poems' is unfinished; resume it with: chainrule train --resume runs/poems"
        ):
            Run(name)
