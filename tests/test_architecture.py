"""The map of packages holds: each imports only from those before it, and nothing of the core needs torch."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import chainrule

PACKAGE = Path(chainrule.__file__).parent
ORDER = [
    "version", "errors", "checks", "progress", "config", "registry", "nest", "kernels", "storage", "plotting", "tape",
    "text", "data", "ngram", "layers", "models", "evaluation", "runs", "generation", "tagging", "tasks", "training",
    "analysis", "interop", "api", "serving", "cli",
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


def module_name(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for file in FILES}


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node of a module, those inside functions too, but for blocks that only type checkers read."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not is_for_type_checkers(child):
            yield from statements(child)


def imported_modules(file: Path) -> set[str]:
    """The modules of chainrule that a file imports by name, anywhere in it."""
    found: set[str] = set()
    for node in statements(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in inner}
    return found & MODULES.keys()


def strongly_connected(graph: dict[str, set[str]]) -> list[frozenset[str]]:
    """Sets of more than one node in which each is reached from every other (Tarjan, 1972)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[frozenset[str]] = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for other in graph[node]:
            if other not in order:
                visit(other)
            if other in stack:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == order[node]:
            start = stack.index(node)
            component = frozenset(stack[start:])
            del stack[start:]
            if len(component) > 1:
                found.append(component)

    for node in graph:
        if node not in order:
            visit(node)
    return found


def test_strongly_connected_components_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set(), "f": {"g"}, "g": {"f", "a"}}
    assert set(strongly_connected(graph)) == {frozenset("abc"), frozenset("fg")}


def test_imports_inside_functions_count_and_those_for_type_checkers_do_not(tmp_path: Path):
    file = tmp_path / "module.py"
    file.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from chainrule.api import train\n"
        "def late():\n    from chainrule import registry\n    from chainrule.errors import UserError\n"
    )
    assert imported_modules(file) == {"chainrule.registry", "chainrule.errors"}


def test_no_modules_import_each_other_in_a_circle():
    cycles = strongly_connected({name: imported_modules(file) for name, file in MODULES.items()})
    assert not [sorted(cycle) for cycle in cycles]
