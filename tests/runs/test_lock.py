"""Locks of unfinished runs, also as they are made on systems without flock."""

import fcntl
import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from chainrule.errors import UserError
from chainrule.runs import lock, making


class WindowsLocks(ModuleType):
    """The part of msvcrt that is used, on top of flock: a second lock is refused with a PermissionError."""

    LK_NBLCK = 2

    @staticmethod
    def locking(descriptor: int, mode: int, size: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(13, "Permission denied") from None


@pytest.fixture(params=["flock", "msvcrt", "neither"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The modules as they are imported on a system with one kind of lock, or none."""
    name: str = request.param
    with monkeypatch.context() as patch:
        if name != "flock":
            patch.setitem(sys.modules, "fcntl", None)
        patch.setitem(sys.modules, "msvcrt", WindowsLocks("msvcrt") if name == "msvcrt" else None)
        importlib.reload(lock)
        patch.setattr(making, "exclusive_lock", lock.exclusive_lock)
        patch.setattr(making, "IS_WINDOWS", name == "msvcrt")
        yield name
    importlib.reload(lock)


def test_a_folder_is_locked_within_the_block_and_only_there(tmp_path: Path, system: str):
    folder = tmp_path / "deep" / ".x.unfinished"
    assert not lock.is_locked(folder)
    with lock.exclusive_lock(folder):
        assert folder.is_dir()
        assert lock.is_locked(folder) == (system != "neither")
    assert not lock.is_locked(folder)
    assert os.listdir(tmp_path / "deep") == [".x.unfinished"]


def test_a_second_lock_is_refused(tmp_path: Path, system: str):
    if system == "neither":
        pytest.skip("there is no lock")
    folder = tmp_path / ".x.unfinished"
    with lock.exclusive_lock(folder), pytest.raises(BlockingIOError), lock.exclusive_lock(folder):
        pass
    with lock.exclusive_lock(folder):
        pass


def test_a_run_is_made_on_every_system(tmp_path: Path, system: str):
    path = tmp_path / "runs" / "x"
    with making.new_run(path) as folder:
        (folder / "config.json").write_text("{}")
        if system != "neither":
            with pytest.raises(UserError, match="another process is training '.*x' now"), making.new_run(path):
                pass
    assert os.listdir(tmp_path / "runs") == ["x"]
    assert list(json.loads((path / "manifest.json").read_text())) == ["config.json"]


def test_windows_syncs_files_that_are_open_for_writing_and_no_folders(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("text")
    opened: list[tuple[Path, int]] = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, flags: opened.append((path, flags)) or real(path, flags))
    monkeypatch.setattr(making, "IS_WINDOWS", True)
    making.sync(tmp_path)
    making.sync(tmp_path / "a")
    assert opened == [(tmp_path / "a", os.O_RDWR)]
