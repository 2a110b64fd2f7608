"""Making a run: its files are written to an unfinished folder, which is locked, and renamed once all are complete.

An error removes the unfinished folder, so there is never half a run; but a training that can be resumed keeps it,
however it ended.
"""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from chainrule.errors import Argument, UserError
from chainrule.progress import progress
from chainrule.runs.folder import HOME, MANIFEST, RESUMABLE, hash_file, unfinished
from chainrule.runs.lock import exclusive_lock

OVERWRITE = Argument("overwrite")
CHECKPOINTS = "checkpoints"  # of an unfinished training
DISK_IS_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
IS_WINDOWS = os.name == "nt"


def free_name(stem: str, overwrite: bool = False) -> Path:
    """The first free one of runs/poems, runs/poems-2, runs/poems-3, ... for the stem "poems"; where a run may be
    overwritten, the first of these."""
    name = "".join(c if c.isalnum() or c in "._-" else "-" for c in stem).strip(".-") or "run"
    path, number = HOME / name, 1
    while not overwrite and _is_taken(path):
        number += 1
        path = HOME / f"{name}-{number}"
    return path


def _is_taken(path: Path) -> bool:
    return path.exists() or (unfinished(path) / RESUMABLE).exists()


def check_free(path: Path, overwrite: bool) -> None:
    if path.is_file():
        raise UserError(f"'{path}' is a file; choose another name")
    if path.exists() and not overwrite:
        raise UserError(f"'{path}' exists already; choose another name", OVERWRITE)
    _check_is_run(path)
    if (unfinished(path) / RESUMABLE).is_file() and not overwrite:
        raise UserError(
            f"a training of '{path}' is unfinished; resume it (chainrule train --resume {path}), choose another name",
            OVERWRITE,
        )


def check_resumable(path: Path, overwrite: bool) -> None:
    if not (unfinished(path) / RESUMABLE).is_file():
        _remove_scaffolding(path)
        raise UserError(_nothing_to_resume(path))
    if path.exists() and not overwrite:
        raise UserError(f"'{path}' was written after that training began; move it away, then resume")
    _check_is_run(path)


def _check_is_run(path: Path) -> None:
    """A UserError if there is something at `path` that is neither a run nor an empty folder: it is not overwritten."""
    if path.exists() and not (path / "config.json").is_file() and any(path.iterdir() if path.is_dir() else [path]):
        raise UserError(f"'{path}' is not a run, so it is not overwritten; choose another name")


@contextmanager
def new_run(path: Path, overwrite: bool = False, resume: bool = False) -> Iterator[Path]:
    """Gives a folder to fill, which is then hashed, synced to the disk and renamed to `path`.

    An error within the block removes the folder, unless it holds a training that can be resumed: that one stays, and
    new_run(path, resume=True) gives it again as it was left.
    """
    check = check_resumable if resume else check_free
    check(path, overwrite)
    folder = unfinished(path)
    replaced = path.with_name(f".{path.name}.replaced")
    is_made, has_parent = False, path.parent.exists()
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
            again = f"resume with: chainrule train --resume {path}" if (folder / RESUMABLE).exists() else "train again"
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise UserError(
                    f"'{path}' was written by another process meanwhile; move it away and {again}"
                ) from None
            if error.errno in DISK_IS_FULL:
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
                if not has_parent:  # made for this run alone, as runs/ is the first time
                    with suppress(OSError):
                        path.parent.rmdir()


def _nothing_to_resume(path: Path) -> str:
    if (path / "config.json").is_file():
        return f"the training of '{path}' is finished, so there is nothing to resume; train another run"
    return f"there is no unfinished training of '{path}'; start one with: chainrule train TEXT --as {path}"


def _remove_scaffolding(path: Path) -> None:
    """Remove what only an unfinished training needs, once the run has its name and will not have to be resumed."""
    if (path / RESUMABLE).is_file():
        shutil.rmtree(path / CHECKPOINTS, ignore_errors=True)
        (path / RESUMABLE).unlink(missing_ok=True)


def _recover(path: Path, replaced: Path) -> None:
    """Remove the run that was set aside for a new one, or give it back its name where the new one is missing."""
    if replaced.exists() and not path.exists():
        replaced.rename(path.resolve())
    shutil.rmtree(replaced, ignore_errors=True)


def _empty(folder: Path) -> None:
    for each in folder.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


@contextmanager
def _locked(folder: Path, path: Path) -> Iterator[None]:
    """Hold the lock of the unfinished folder of the run `path`, or raise a UserError where that is not possible."""
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive_lock(folder))
        except BlockingIOError:
            raise UserError(f"another process is training '{path}' now; wait for it, or choose another name") from None
        except OSError as error:
            raise UserError(f"cannot make the folder '{path}': {error.strerror}") from None
        yield


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
    """Wait until a file, or the names in a folder, are on the disk and not only in the system's memory."""
    if IS_WINDOWS and path.is_dir():
        return  # Windows opens no folder, and writes names without being asked
    descriptor = os.open(path, os.O_RDWR if IS_WINDOWS else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
