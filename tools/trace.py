"""The files of the package that a command goes through, in the order in which it enters them.

python -m tools.trace sample runs/poems --prompt The        any command of `chainrule`
python -m tools.trace completion runs/poems                 a request to a server in this process

A file counts when one of its functions is called; those called while a module is imported are left out, as are the
files that everything uses (errors, config, checks, registry). `*` marks a file first entered in another thread.
docs/architecture.md has the chains.
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import chainrule

PACKAGE = Path(chainrule.__file__).parent
EVERYWHERE = {"errors.py", "config.py", "checks.py", "registry.py", "version.py", "__init__.py"}
IS_FUNCTION = 0x2  # CO_NEWLOCALS: not the body of a module or class


class Trace:
    """{file: the function by which it was entered}, in that order."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self._main = threading.get_ident()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_flags & IS_FUNCTION or not code.co_filename.startswith(str(PACKAGE)):
            return
        name = Path(code.co_filename).relative_to(PACKAGE).as_posix()
        if name in EVERYWHERE or name in self.files or is_importing(frame):
            return
        mark = "" if threading.get_ident() == self._main else " *"
        self.files[name] = code.co_name + mark


def is_importing(frame: FrameType | None) -> bool:
    """Whether the frame is below the body of a module of the package."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            return not frame.f_code.co_filename.endswith("__main__.py")
        frame = frame.f_back
    return False


def traced(action: Callable[[], None]) -> dict[str, str]:
    trace = Trace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        action()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return trace.files


def command(arguments: list[str]) -> None:
    from chainrule.cli.main import main

    sys.argv = ["chainrule", *arguments]
    main()


def completion(run: str) -> None:
    from starlette.testclient import TestClient

    from tools.local_server import application

    with TestClient(application(chainrule.load(run)), base_url="http://127.0.0.1") as client:
        answer = client.post("/v1/completions", json={"prompt": "The", "max_tokens": 3})
        assert answer.status_code == 200, answer.text


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    files = traced((lambda: completion(rest[0])) if what == "completion" else (lambda: command([what, *rest])))
    print(f"{len(files)} files", file=sys.stderr)
    for file, function in files.items():
        print(f"{file}: {function}", file=sys.stderr)
