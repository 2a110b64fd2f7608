"""Runs are made under another name, by one process at a time, and have their own only when they are whole."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import chainrule
from chainrule.errors import UserError
from chainrule.runs import making
from chainrule.runs.folder import Run, unfinished
from chainrule.runs.making import check_free, free_name, new_run

TEXT = "\n".join(f"the cow number {i} eats grass and hay" for i in range(60))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "cows.txt").write_text(TEXT)
    return chainrule.train(tmp_path / "cows.txt", path=tmp_path / "runs" / "cows")


def fill(folder: Path, text: str = "{}") -> None:
    (folder / "config.json").write_text(text)


def make(path: Path, text: str = "{}", **options: bool) -> None:
    with new_run(path, **options) as folder:
        fill(folder, text)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_run_has_its_name_only_when_it_is_whole(tmp_path):
    path = tmp_path / "deep" / "x"
    with new_run(path) as folder:
        fill(folder)
        assert folder == tmp_path / "deep" / ".x.unfinished"
        assert not path.exists()
    assert names(tmp_path / "deep") == ["x"]
    assert names(path) == ["config.json", "manifest.json"]


def test_what_goes_wrong_halfway_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError, match="stop"), new_run(tmp_path / "runs" / "x") as made:
        (made / "half").write_text("written")
        raise RuntimeError("stop")
    assert names(tmp_path) == []


def test_what_can_be_gone_on_with_stays_however_it_ended(tmp_path):
    path = tmp_path / "x"
    with pytest.raises(KeyboardInterrupt), new_run(path) as made:
        (made / "training.json").write_text("all that is needed")
        raise KeyboardInterrupt
    assert names(tmp_path) == [".x.unfinished"]
    with new_run(path, resume=True) as folder:
        assert (folder / "training.json").read_text() == "all that is needed"
        (folder / "checkpoints").mkdir()
        (folder / "checkpoints" / "1.json").write_text("")
        fill(folder)
    assert names(tmp_path) == ["x"]
    assert names(path) == ["config.json", "manifest.json"]
    assert list(json.loads((path / "manifest.json").read_text())) == ["config.json"]


def test_an_unfinished_training_keeps_its_name_unless_told_otherwise(tmp_path):
    unfinished(tmp_path / "x").mkdir()
    (unfinished(tmp_path / "x") / "training.json").write_text("{}")
    with pytest.raises(UserError, match="is unfinished; resume it .chainrule train --resume .*x., choose"):
        make(tmp_path / "x")
    assert (unfinished(tmp_path / "x") / "training.json").exists()
    make(tmp_path / "x", overwrite=True)
    assert names(tmp_path) == ["x"]


def test_what_a_killed_process_left_is_removed(tmp_path):
    """It holds no lock any more, and nothing that could be gone on with."""
    script = (
        "import os, sys; from pathlib import Path; from chainrule.runs.making import new_run\n"
        "with new_run(Path('x')) as folder:\n    (folder / 'half').write_text('');os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, timeout=120)
    assert killed.returncode == -9
    assert names(tmp_path / ".x.unfinished") == ["half"]
    make(tmp_path / "x")
    assert names(tmp_path) == ["x"]
    assert names(tmp_path / "x") == ["config.json", "manifest.json"]


def test_a_second_maker_of_one_name_is_refused_while_the_first_is_at_work(tmp_path):
    path = tmp_path / "x"
    with new_run(path) as first:
        fill(first)
        for options in ({}, {"overwrite": True}):
            with pytest.raises(UserError, match="another process is training '.*x' now"), new_run(path, **options):
                raise AssertionError("both were let in")
        assert names(first) == ["config.json"]
    assert names(tmp_path) == ["x"]


def test_a_lock_on_a_folder_that_got_its_name_meanwhile_does_not_count(tmp_path, monkeypatch):
    """Between opening the folder and locking it, its maker may have finished."""
    path, lock = tmp_path / "x", fcntl.flock
    folder = unfinished(path)

    def slow_lock(descriptor: int, how: int) -> None:
        if folder.exists() and not (path).exists():
            folder.rename(path)
            fill(path, "theirs")
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", slow_lock)
    with pytest.raises(UserError, match="exists already"):
        make(path, "mine")
    assert (path / "config.json").read_text() == "theirs"
    assert names(tmp_path) == ["x"]


def test_whoever_is_ready_first_has_the_name(tmp_path):
    with pytest.raises(UserError, match="was written by another process meanwhile"), new_run(tmp_path / "x") as first:
        fill(first)
        (tmp_path / "x").mkdir()
        fill(tmp_path / "x", "theirs")
    assert (tmp_path / "x" / "config.json").read_text() == "theirs"


def test_a_training_that_lost_its_name_can_be_gone_on_with(tmp_path):
    sentence = "move it away and resume with: chainrule train --resume .*x"
    with pytest.raises(UserError, match=sentence), new_run(tmp_path / "x") as first:
        fill(first)
        (first / "training.json").write_text("{}")
        (tmp_path / "x").mkdir()
        fill(tmp_path / "x", "theirs")
    with pytest.raises(UserError, match="was written after that training began; move it away"):
        make(tmp_path / "x", resume=True)
    shutil.move(tmp_path / "x", tmp_path / "theirs")
    make(tmp_path / "x", resume=True)
    assert names(tmp_path) == ["theirs", "x"]


def test_a_finished_maker_does_not_remove_the_folder_of_the_next(tmp_path, monkeypatch):
    """The next one may begin as soon as the name is free."""
    sync = making.sync

    def next_one_begins(path: Path) -> None:
        sync(path)
        if path == tmp_path:
            unfinished(tmp_path / "x").mkdir()

    monkeypatch.setattr(making, "sync", next_one_begins)
    make(tmp_path / "x")
    assert names(tmp_path) == [".x.unfinished", "x"]


def test_an_old_run_that_was_set_aside_comes_back(tmp_path):
    """Killed between the two renames of an overwriting."""
    (tmp_path / ".x.replaced").mkdir()
    fill(tmp_path / ".x.replaced", "old")
    with pytest.raises(UserError, match="exists already"):
        make(tmp_path / "x", "new")
    assert (tmp_path / "x" / "config.json").read_text() == "old"
    assert names(tmp_path) == ["x"]


def test_overwriting_fails_without_harm(tmp_path):
    make(tmp_path / "x", "old")
    with pytest.raises(RuntimeError), new_run(tmp_path / "x", overwrite=True) as folder:
        fill(folder, "new")
        raise RuntimeError
    assert (tmp_path / "x" / "config.json").read_text() == "old"
    make(tmp_path / "x", "new", overwrite=True)
    assert (tmp_path / "x" / "config.json").read_text() == "new"
    assert names(tmp_path) == ["x"]


def test_nothing_to_resume(tmp_path):
    with pytest.raises(UserError, match="there is no unfinished training of '.*x'; start one with: chainrule train"):
        make(tmp_path / "x", resume=True)
    assert names(tmp_path) == []
    make(tmp_path / "x")
    with pytest.raises(UserError, match="the training of '.*x' is finished"):
        make(tmp_path / "x", resume=True)


def test_a_full_disk_is_one_sentence_and_the_old_run_stays(run, monkeypatch):
    before = (run.path / "manifest.json").read_bytes()

    def no_space(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(making, "sync", no_space)
    with pytest.raises(UserError, match="the disk is full: .* free some space and train again"):
        chainrule.train("cows.txt", path=run.path, overwrite=True)
    assert (run.path / "manifest.json").read_bytes() == before
    assert names(run.path.parent) == ["cows"]


def test_a_full_disk_says_how_to_go_on_where_that_is_possible(tmp_path):
    sentence = "the disk is full: .* resume with: chainrule train --resume .*x"
    with pytest.raises(UserError, match=sentence), new_run(tmp_path / "x") as folder:
        (folder / "training.json").write_text("{}")
        raise OSError(28, "No space left on device")


def test_an_existing_run_is_kept_unless_told_otherwise(run, tmp_path):
    with pytest.raises(UserError, match="exists already"):
        chainrule.train("cows.txt", path=run.path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="is not a run, so it is not overwritten"):
        chainrule.train("cows.txt", path=tmp_path / "mine", overwrite=True)
    with pytest.raises(UserError, match="is a file; choose another name"):
        check_free(tmp_path / "cows.txt", True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    again = chainrule.train("cows.txt", path=run.path, overwrite=True)
    assert again.verify() == []


def test_overwriting_through_a_link_replaces_what_it_leads_to(run, tmp_path):
    (tmp_path / "link").symlink_to(run.path)
    again = chainrule.train("cows.txt", path=tmp_path / "link", overwrite=True, order=2)
    assert again.config["model"]["order"] == 2
    assert (tmp_path / "link").is_symlink()
    assert names(run.path.parent) == ["cows"]


def test_default_names_count_up(run):
    assert free_name("cows") == Path("runs/cows-2")
    assert free_name("my text!") == Path("runs/my-text")
    assert free_name("..") == Path("runs/run")
    unfinished(Path("runs/goats")).mkdir()
    assert free_name("goats") == Path("runs/goats")
    (unfinished(Path("runs/goats")) / "training.json").write_text("{}")
    assert free_name("goats") == Path("runs/goats-2")


def test_a_failure_leaves_no_folder_behind_that_was_made_for_it(tmp_path):
    with pytest.raises(ValueError, match="no text"), new_run(tmp_path / "runs" / "poems"):
        raise ValueError("no text")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "runs").mkdir()
    with pytest.raises(ValueError, match="no text"), new_run(tmp_path / "runs" / "poems"):
        raise ValueError("no text")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"], "it was there before"
