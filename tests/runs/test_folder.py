import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

import chainrule
from chainrule.errors import UserError
from chainrule.runs import folder
from chainrule.runs.folder import Run, free_name, new_run

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
    with pytest.raises(UserError, match="cut off or changed"):
        Run(run.path)
    model.unlink()
    with pytest.raises(UserError, match=r"lacks model\.safetensors"):
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


def test_two_trainings_of_one_name_do_not_both_succeed(tmp_path):
    """Whoever is ready first has the name."""
    with pytest.raises(UserError, match="another training has made"), new_run(tmp_path / "x") as first:
        (first / "config.json").write_text("{}")
        (tmp_path / "x").mkdir()
        (tmp_path / "x" / "config.json").write_text("theirs")
    assert (tmp_path / "x" / "config.json").read_text() == "theirs"


def test_what_a_killed_process_left_is_removed(tmp_path):
    dead = subprocess.Popen(["true"])
    dead.wait()
    here, alive = socket.gethostname(), os.getppid()
    kept = [f".x.{here}.{alive}.tmp", f".x.elsewhere.{dead.pid}.tmp", f".y.{here}.{dead.pid}.tmp"]
    for name in [*kept, f".x.{here}.{dead.pid}.tmp", f".x.{here}.{dead.pid}.old.tmp"]:
        (tmp_path / name).mkdir()
    with new_run(tmp_path / "x") as made:
        (made / "config.json").write_text("{}")
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "x"])


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


def test_overwriting_through_a_link_replaces_what_it_leads_to(run, tmp_path):
    (tmp_path / "link").symlink_to(run.path)
    again = chainrule.train("cows.txt", path=tmp_path / "link", overwrite=True, order=2)
    assert again.config["model"]["order"] == 2
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir(run.path.parent)) == ["cows"]


def test_what_goes_wrong_halfway_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError, match="stop"), new_run(tmp_path / "runs" / "x") as made:
        (made / "half").write_text("written")
        raise RuntimeError("stop")
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_full_disk_is_one_sentence_and_the_old_run_stays(run, monkeypatch):
    before = (run.path / "manifest.json").read_bytes()

    def no_space(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder, "_sync", no_space)
    with pytest.raises(UserError, match="the disk is full"):
        chainrule.train("cows.txt", path=run.path, overwrite=True)
    assert (run.path / "manifest.json").read_bytes() == before
    assert sorted(os.listdir(run.path.parent)) == ["cows"]


def test_an_existing_run_is_kept_unless_told_otherwise(run, tmp_path):
    with pytest.raises(UserError, match="exists already"):
        chainrule.train("cows.txt", path=run.path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="is not a run, so it is not overwritten"):
        chainrule.train("cows.txt", path=tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    again = chainrule.train("cows.txt", path=run.path, overwrite=True)
    assert again.verify() == []


def test_default_names_count_up(run):
    assert free_name("cows") == Path("runs/cows-2")
    assert free_name("my text!") == Path("runs/my-text")
    assert free_name("..") == Path("runs/run")


def test_training_twice_gives_the_same_model_byte_for_byte(run, tmp_path):
    again = chainrule.train("cows.txt", path=tmp_path / "again")
    for name in ("model.safetensors", "tokenizer.json", "tokens/train-00000.bin"):
        assert (again.path / name).read_bytes() == (run.path / name).read_bytes()
    assert json.loads((again.path / "config.json").read_text())["model"] == run.config["model"]
