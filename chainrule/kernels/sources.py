"""The source that a kernel is compiled from: its own module, and every module of the package that this one imports.

Numba keeps machine code until the kernel's own file changes. But the code of one kernel contains others that it calls
and constants of modules that it imports, so the key of the cache has to cover these, too, and nothing else: a change
anywhere else in the package leaves the compiled code valid.
"""

import hashlib
import re
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
# `import chainrule.a` or `from chainrule.a import b, c`, in one line or in brackets. Parsing every module would cost
# each start of the program several times as much; a test compares the two.
IMPORT = re.compile(
    rf"^[ \t]*(?:import|from)[ \t]+({PACKAGE.name}(?:\.\w+)*)\b(?:[ \t]+import[ \t]+(\([^)]*\)|[^\n#]*))?", re.MULTILINE
)


@cache
def source_fingerprint(file: Path) -> str:
    """A hash of a module's source and of the source of all modules that it imports from the package, directly or not.

    An OSError where one cannot be read.
    """
    found, waiting = {file}, [file]
    while waiting:
        new = imported_files(waiting.pop()) - found
        found |= new
        waiting += new
    digest = hashlib.sha256()
    for each in sorted(found):
        digest.update(hashlib.sha256(each.read_bytes()).digest())
    return digest.hexdigest()


@cache
def imported_files(file: Path) -> set[Path]:
    """The files of the package that a module imports from, anywhere in it."""
    found = set()
    for module, names in IMPORT.findall(file.read_text(encoding="utf-8")):
        for name in re.findall(r"\w+", names) or [""]:
            found.add(_file_of(f"{module}.{name}") or _file_of(module))  # a module in a package, or a name in a module
    return {each for each in found if each is not None}


def _file_of(module: str) -> Path | None:
    """Where a module or a package has its source; None where the name is of something else, say a function."""
    place = PACKAGE.joinpath(*module.split(".")[1:])
    for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
        if file.is_file():
            return file
    return None
