"""Compiled kernels stay valid until the source that they are made of changes."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chainrule.kernels import sources
from chainrule.kernels.sources import PACKAGE, imported_files, source_fingerprint


def parsed_imports(file: Path) -> set[Path]:
    """The same as `imported_files`, by parsing."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file} has a relative import"
            names |= {(str(node.module), alias.name) for alias in node.names}
    ours = [(module, name) for module, name in names if module.split(".")[0] == "chainrule"]
    return {file for module, name in ours if (file := find(f"{module}.{name}") or find(module))}


def find(name: str) -> Path | None:
    place = PACKAGE.joinpath(*name.split(".")[1:])
    return next((each for each in (place / "__init__.py", Path(f"{place}.py")) if each.is_file()), None)


def test_no_import_of_the_package_is_overlooked():
    for file in sorted(PACKAGE.rglob("*.py")):
        assert imported_files(file) >= parsed_imports(file), file


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package under another name whose kernel calls one that uses a constant, each in a module of its own."""
    folder = tmp_path / "chainrule"
    (folder / "kernels").mkdir(parents=True)
    for name in ("jit.py", "sources.py"):
        (folder / "kernels" / name).write_bytes((PACKAGE / "kernels" / name).read_bytes())
    for each in (folder, folder / "kernels"):
        (each / "__init__.py").write_text("")
    start = "from chainrule.kernels.jit import inlined, kernel\n"
    (folder / "constants.py").write_text("FACTOR = 2\n")
    (folder / "callee.py").write_text(
        start + "from chainrule.constants import FACTOR\n@inlined\ndef scale(x):\n    return FACTOR * x\n"
    )
    (folder / "caller.py").write_text(
        start + "from chainrule.callee import scale\n@kernel\ndef work(x):\n    return scale(x) + 1\n"
    )
    (folder / "unrelated.py").write_text("# nothing that a kernel reads\n")
    monkeypatch.setattr(sources, "PACKAGE", folder)
    return folder


def run(package: Path) -> tuple[int, int]:
    """work(10) in a new process, and how many kernels were compiled for it rather than loaded."""
    code = "from chainrule.caller import work; print(work(10), sum(work.stats.cache_misses.values()))"
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, cwd=package.parent
    )
    result, compiled = done.stdout.split()
    return int(result), int(compiled)


def test_only_a_change_in_what_a_kernel_is_made_of_compiles_it_again(package: Path):
    assert run(package) == (21, 1)
    assert run(package) == (21, 0)
    (package / "unrelated.py").write_text("CHANGED = True\n")
    os.utime(package / "callee.py")  # touched, but the same
    assert run(package) == (21, 0)
    (package / "constants.py").write_text("FACTOR = 3\n")
    assert run(package) == (31, 1)
    callee = (package / "callee.py").read_text()
    (package / "callee.py").write_text(callee.replace("FACTOR * x", "FACTOR * x * x"))
    assert run(package) == (301, 1)
    assert run(package) == (301, 0)


def test_processes_that_start_together_agree(package: Path):
    code = "from chainrule.caller import work; print(work(10))"
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    command = [sys.executable, "-c", code]
    processes = [
        subprocess.Popen(command, env=environment, cwd=package.parent, stdout=subprocess.PIPE) for _ in range(3)
    ]
    assert [process.communicate()[0] for process in processes] == [b"21\n"] * 3
    assert run(package) == (21, 0)


def test_a_kernel_without_a_readable_source_is_not_kept(tmp_path: Path):
    with pytest.raises(OSError):
        source_fingerprint(tmp_path / "nowhere.py")
