"""One process at a time at work on an unfinished run; the system releases the lock of a process that has ended.

On Linux and macOS the folder itself is locked (`flock`). Windows cannot open folders, nor rename one in which a file is
open, so there a file beside the folder is locked (`msvcrt.locking`). A system with neither has no lock.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]
try:
    import msvcrt
except ImportError:
    msvcrt = None  # type: ignore[assignment]


@contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Make `folder` and hold its lock for the duration of the block; a BlockingIOError if another process has it."""
    if fcntl is not None:
        descriptor = _lock_folder(folder)
        try:
            yield
        finally:
            os.close(descriptor)
    elif msvcrt is not None:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _lock_file(_lock_path(folder))
        try:
            yield
        finally:
            os.close(descriptor)
            _remove_unused(_lock_path(folder))
    else:
        folder.mkdir(parents=True, exist_ok=True)
        yield


def is_locked(folder: Path) -> bool:
    """Whether a process holds the lock of `folder` now."""
    if fcntl is not None:
        return _is_folder_locked(folder)
    if msvcrt is not None and _lock_path(folder).exists():
        try:
            os.close(_lock_file(_lock_path(folder)))
        except BlockingIOError:
            return True
        _remove_unused(_lock_path(folder))
    return False


def _lock_folder(folder: Path) -> int:
    """Lock the folder of this name. It may have been renamed or removed since it was opened: then try again."""
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
        os.close(descriptor)


def _is_folder_locked(folder: Path) -> bool:
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


def _lock_path(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _lock_file(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError as error:  # a PermissionError: Windows does not tell a lock from a right that is missing
        os.close(descriptor)
        raise BlockingIOError(*error.args) from None
    return descriptor


def _remove_unused(path: Path) -> None:
    """Windows refuses to remove a file that another process has open, so nobody's lock is lost."""
    with suppress(OSError):
        path.unlink()
