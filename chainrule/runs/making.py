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

CHECKPOINTS = "checkpoints"  # of an unfinished training


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
    _check_is_run(path)
    if (unfinished(path) / RESUMABLE).is_file() and not overwrite:
        raise UserError(
            f"a training of '{path}' is not finished; go on with: chainrule train --resume {path}   "
            "or choose another name with --as, or pass --overwrite to start again"
        )


def check_resumable(path: Path, overwrite: bool) -> None:
    if not (unfinished(path) / RESUMABLE).is_file():
        _remove_scaffolding(path)
        raise UserError(_nothing_to_resume(path))
    if path.exists() and not overwrite:
        raise UserError(f"'{path}' was made after that training began; move it away, then go on")
    _check_is_run(path)


def _check_is_run(path: Path) -> None:
    """What is there, if anything, may only be overwritten if it is a run or empty."""
    if path.exists() and not (path / "config.json").is_file() and any(path.iterdir() if path.is_dir() else [path]):
        raise UserError(f"'{path}' is not a run, so it is not overwritten; choose another name with --as")


@contextmanager
def new_run(path: Path, overwrite: bool = False, resume: bool = False) -> Iterator[Path]:
    """A folder to fill; then it is hashed, synced and renamed to `path`. If anything goes wrong it is removed,
    unless it can be gone on with: then `resume` finds it as it was left."""
    check = check_resumable if resume else check_free
    check(path, overwrite)
    folder = unfinished(path)
    replaced = path.with_name(f".{path.name}.replaced")
    is_made = False
    with _locked(folder, path):
        try:
            _recover(path, replaced)
            check(path, overwrite)  # again, now that nobody else can change it
            if not resume:
                _empty(folder)
            yield folder
            _write_manifest(folder)
            if path.exists() and overwrite:
                path.resolve().rename(replaced)
            folder.rename(path.resolve())
            is_made = True
            sync(path.parent)
        except OSError as error:
            again = f"go on with: chainrule train --resume {path}" if (folder / RESUMABLE).exists() else "train again"
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise UserError(f"'{path}' was made by something else meanwhile; move it away and {again}") from None
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise UserError(
                    f"the disk is full: '{path}' could not be written; free some space and {again}"
                ) from None
            raise
        finally:
            _recover(path, replaced)
            if is_made:
                _remove_scaffolding(path)
            elif not (folder / RESUMABLE).exists():
                shutil.rmtree(folder, ignore_errors=True)


def _nothing_to_resume(path: Path) -> str:
    if (path / "config.json").is_file():
        return f"the training of '{path}' is finished, so there is nothing to go on with; train anew with --as"
    return f"there is no unfinished training of '{path}'; start one with: chainrule train TEXT --as {path}"


def _remove_scaffolding(path: Path) -> None:
    """Once a run has its name, and not before: until then it may have to be gone on with."""
    if (path / RESUMABLE).is_file():
        shutil.rmtree(path / CHECKPOINTS, ignore_errors=True)
        (path / RESUMABLE).unlink(missing_ok=True)


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
        descriptor = _lock(folder)
    except BlockingIOError:
        raise UserError(
            f"another process is training '{path}' now; wait for it, or choose another name with --as"
        ) from None
    except OSError as error:
        raise UserError(f"cannot make the folder '{path}': {error.strerror}") from None
    try:
        yield
    finally:
        os.close(descriptor)


def _lock(folder: Path) -> int:
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if folder.exists() and os.path.samestat(os.fstat(descriptor), folder.stat()):
                return descriptor
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)  # whoever had it has just given it a run's name, or removed it


def is_being_made(folder: Path) -> bool:
    """Whether a process is at work on this unfinished folder now."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _write_manifest(folder: Path) -> None:
    scaffolding = (folder / RESUMABLE, folder / CHECKPOINTS)
    files = sorted(each for each in folder.rglob("*") if each.is_file() and not {each, each.parent} & {*scaffolding})
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
