"""Making a run: under another name, locked, and renamed when it is whole; what goes wrong leaves no half of one.

A training that can be gone on with keeps its unfinished folder, however it ended.
"""

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chainrule.errors import UserError
from chainrule.progress import progress
from chainrule.runs.folder import HOME, MANIFEST, RESUMABLE, hash_file, unfinished


def free_name(stem: str) -> Path:
    """runs/poems, or runs/poems-2 where that is taken, and so on."""
    name = "".join(c if c.isalnum() or c in "._-" else "-" for c in stem).strip(".-") or "run"
    number = 1
    while _is_taken(path := HOME / (name if number == 1 else f"{name}-{number}")):
        number += 1
    return path


def _is_taken(path: Path) -> bool:
    return path.exists() or (unfinished(path) / RESUMABLE).exists()


def check_free(path: Path, overwrite: bool) -> None:
    if path.is_file():
        raise UserError(f"'{path}' is a file; choose another name with --as")
    if path.exists() and not overwrite:
        raise UserError(f"'{path}' exists already; choose another name with --as, or pass --overwrite")
    if path.exists() and not (path / "config.json").is_file() and any(path.iterdir() if path.is_dir() else [path]):
        raise UserError(f"'{path}' is not a run, so it is not overwritten; choose another name with --as")
    if (unfinished(path) / RESUMABLE).is_file() and not overwrite:
        raise UserError(
            f"a training of '{path}' is not finished; go on with: chainrule train --resume {path}   "
            "or choose another name with --as, or pass --overwrite to start again"
        )


@contextmanager
def new_run(path: Path, overwrite: bool = False, resume: bool = False) -> Iterator[Path]:
    """A folder to fill; then it is hashed, synced and renamed to `path`. If anything goes wrong it is removed,
    unless it can be gone on with: then `resume` finds it as it was left."""
    if resume:
        if not (unfinished(path) / RESUMABLE).is_file():
            raise UserError(_nothing_to_resume(path))
    else:
        check_free(path, overwrite)
    folder = unfinished(path)
    replaced = path.with_name(f".{path.name}.replaced")
    with _locked(folder, path):
        try:
            _recover(path, replaced)
            if not resume:
                _empty(folder)
            yield folder
            _write_manifest(folder)
            if path.exists() and (overwrite or resume):
                path.resolve().rename(replaced)
            folder.rename(path.resolve())
            sync(path.parent)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise UserError(f"another training has made '{path}' meanwhile; choose another name with --as") from None
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise UserError(
                    f"the disk is full: '{path}' could not be written; free some space and train again"
                ) from None
            raise
        finally:
            _recover(path, replaced)
            if not (folder / RESUMABLE).exists():
                shutil.rmtree(folder, ignore_errors=True)


def _nothing_to_resume(path: Path) -> str:
    if (path / "config.json").is_file():
        return f"the training of '{path}' is finished, so there is nothing to go on with; train anew with --as"
    return f"there is no unfinished training of '{path}'; start one with: chainrule train TEXT --as {path}"


def _recover(path: Path, replaced: Path) -> None:
    """The run that was to be replaced: gone if the new one is in its place, else back under its name."""
    if replaced.exists() and not path.exists():
        replaced.rename(path.resolve())
    shutil.rmtree(replaced, ignore_errors=True)


def _empty(folder: Path) -> None:
    for each in folder.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


@contextmanager
def _locked(folder: Path, path: Path) -> Iterator[None]:
    """Only one process at a time; the system lets go of the lock of a process that is no more."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise UserError(f"cannot make the folder '{path}': {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another process is training '{path}' now; wait for it, or choose another name with --as"
            ) from None
        yield
    finally:
        os.close(descriptor)


def _write_manifest(folder: Path) -> None:
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    manifest = {}
    with progress("hashing", sum(file.stat().st_size for file in files)) as advance:
        for file in files:
            size = file.stat().st_size
            manifest[file.relative_to(folder).as_posix()] = {"bytes": size, "sha256": hash_file(file)}
            advance(size)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    for file in [*files, folder / MANIFEST, folder]:
        sync(file)


def sync(path: Path) -> None:
    """To the disk, not only to the system's memory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
