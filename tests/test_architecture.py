"""The map of packages holds: each imports only from those before it, and nothing of the core needs torch."""

import ast
from pathlib import Path

import pytest

import chainrule

PACKAGE = Path(chainrule.__file__).parent
ORDER = [
    "version", "errors", "checks", "progress", "config", "registry", "kernels", "storage", "plotting", "tape", "text",
    "data", "ngram", "layers", "models", "evaluation", "runs", "generation", "tagging", "tasks", "training", "analysis",
    "interop", "api", "serving", "cli",
]  # fmt: skip
FILES = sorted(PACKAGE.rglob("*.py"))


def home(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(file: Path) -> set[str]:
    """The parts of chainrule that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    inner = (name.split(".") for name in found if name.startswith("chainrule."))
    return {parts[1] for parts in inner} - {"__version__"}


def test_every_part_has_its_place_in_the_order():
    assert {home(file) for file in FILES} - {"__init__", "__main__"} == set(ORDER)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_each_part_imports_only_from_those_before_it(file: Path):
    if home(file) in ("__init__", "__main__"):
        return
    allowed = set(ORDER[: ORDER.index(home(file)) + 1])
    assert imported(file) <= allowed


@pytest.mark.parametrize("part", ["text", "data", "ngram", "generation", "evaluation", "runs", "cli"])
def test_what_every_model_shares_does_not_import_torch(part: str):
    """So that a model that counts starts without it."""
    for file in (PACKAGE / part).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert "torch" not in {name.split(".")[0] for name in names}, file


def test_the_tape_stands_by_itself():
    for file in (PACKAGE / "tape").rglob("*.py"):
        assert imported(file) <= {"tape"}
