"""What the user names (files, folders, patterns, standard input, pipes, built-ins) as the files to read."""

import errno
import glob
import os
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from chainrule.data import builtin
from chainrule.data.endings import describe_endings, has_known_ending, split_name
from chainrule.data.texts import find_texts, is_texts
from chainrule.errors import UserError, did_you_mean

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class Source:
    """One file to read."""

    name: str  # as the user named it
    path: str  # where its bytes are, which for a pipe is a temporary file
    size: int  # bytes on disk
    format: str  # text, jsonl, csv, tsv, parquet, builtin or texts
    compression: str = ""  # gz, zst or none
    is_named: bool = True  # False: found in a folder or by a pattern, where one bad file does not stop the others

    @property
    def holds_records(self) -> bool:
        """Whether the file itself says where its documents begin and end."""
        return self.format != "text"


def expand(inputs: Iterable[str | os.PathLike[str]]) -> list[Source]:
    """The files behind the inputs, in the order named, each of them once."""
    sources: dict[object, Source] = {}
    for given in inputs:
        paths = _paths_behind(os.fspath(given))
        for name in paths:
            identity = _identity(name)
            if identity not in sources:  # asked before opening, because a pipe is read only once
                sources[identity] = _make_source(name, is_named=paths == [os.fspath(given)])
    if not sources:
        raise UserError("no input was named; name a file, a folder, a quoted pattern or - for standard input")
    return list(sources.values())


def is_sentence(given: str) -> bool:
    """Whether what was given in place of a file is a text itself: words with spaces between them that name no file."""
    if len(given.split()) < 2 or _is_no_file(given) or _exists(given):
        return False
    return not has_known_ending(given) and not (glob.has_magic(given) and glob.glob(given))


def _paths_behind(name: str) -> list[str]:
    """The paths that one input stands for."""
    if _is_no_file(name):
        return [name]
    if _exists(name):
        return _paths_in_folder(name) if os.path.isdir(name) else [name]
    if glob.has_magic(name):
        return _paths_matching(name)
    raise UserError(_not_found(name))


def _is_no_file(name: str) -> bool:
    """Whether an input names something else than files."""
    return name == STANDARD_INPUT or builtin.is_builtin(name) or is_texts(name)


def _paths_in_folder(folder: str) -> list[str]:
    paths = list(_files_under(folder, ()))
    if not paths:
        raise UserError(f"folder '{folder}' holds no text files; the endings looked for are {describe_endings()}")
    return paths


def _paths_matching(pattern: str) -> list[str]:
    """Files by pattern whatever their ending, and the text files in the folders it matches."""
    matches = glob.glob(pattern, recursive=True)
    if not matches:
        raise UserError(f"no file matches '{pattern}'; check the folder and the ending, or name a folder")
    paths = {path for path in matches if not os.path.isdir(path)}
    for folder in filter(os.path.isdir, matches):
        paths.update(_files_under(folder, ()))
    if not paths:
        raise UserError(
            f"'{pattern}' matches only folders without text files; the endings looked for are {describe_endings()}"
        )
    return sorted(paths)


def _files_under(folder: str, above: tuple[object, ...]) -> Iterator[str]:
    """The files with known endings below a folder, sorted, links followed, hidden ones left out."""
    here = _identity(folder)
    if here in above:
        raise UserError(
            f"folder '{folder}' leads back to a folder above it; remove that link or name the files one by one"
        )
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise UserError(f"cannot list folder '{folder}': {_reason(error)}") from error
    for name in names:
        path = os.path.join(folder, name)
        if name.startswith("."):
            continue
        if os.path.isdir(path):
            yield from _files_under(path, (*above, here))
        elif has_known_ending(name) and os.path.isfile(path):
            yield path


def _make_source(name: str, is_named: bool) -> Source:
    if builtin.is_builtin(name):
        return Source(name, "", builtin.size(name), "builtin")
    if is_texts(name):
        return Source(name, "", find_texts(name).size, "texts")
    if name == STANDARD_INPUT:
        return _spooled(name, _standard_input())
    status = os.stat(name)
    if is_named and not os.access(name, os.R_OK):
        raise UserError(f"cannot read '{name}': permission denied; change its mode or copy it")
    if stat.S_ISFIFO(status.st_mode):
        with open(name, "rb") as pipe:
            return _spooled(name, pipe)
    if not stat.S_ISREG(status.st_mode):
        kind = "a socket" if stat.S_ISSOCK(status.st_mode) else "a device"
        raise UserError(f"'{name}' is {kind}, not a file of text; name a file, a folder or a pipe")
    form, compression = split_name(name)
    return Source(name, name, status.st_size, form, compression, is_named)


def _spooled(name: str, pipe: BinaryIO) -> Source:
    """A source for what a pipe says, copied to a temporary file because it is read more than once."""
    handle, path = tempfile.mkstemp(prefix="chainrule-")
    with os.fdopen(handle, "wb") as copy:
        shutil.copyfileobj(pipe, copy, 1 << 20)
        size = copy.tell()
    source = Source(name, path, size, *split_name(name))
    weakref.finalize(source, os.unlink, path)
    return source


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise UserError("'-' stands for standard input, which is closed; name a file")
    return sys.stdin.buffer


def _exists(name: str) -> bool:
    try:
        os.stat(name)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.EINVAL):
            return False
        raise UserError(f"cannot read '{name}': {_reason(error)}") from error
    return True


def _identity(name: str) -> object:
    """The same for two names of the same file."""
    if _is_no_file(name):
        return name
    try:
        status = os.stat(name)
    except OSError as error:
        raise UserError(f"cannot read '{name}': {_reason(error)}") from error
    return status.st_dev, status.st_ino


def _reason(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "it is a link that leads back to itself; remove it"
    return (error.strerror or str(error)).lower()


def _not_found(name: str) -> str:
    if os.path.islink(name):
        return f"'{name}' is a link to a file that does not exist; name the file itself"
    folder, base = os.path.split(name)
    try:
        siblings = os.listdir(folder or ".")
    except (OSError, ValueError):
        return f"'{name}' not found: there is no folder '{folder}'; name a file, a folder or a quoted pattern"
    suggestion = did_you_mean(base, siblings)
    if suggestion and folder:
        suggestion = suggestion.replace("'", f"'{os.path.join(folder, '')}", 1)
    return f"'{name}' not found{suggestion or '; name a file, a folder or a quoted pattern'}"
