"""Things that are found by the name of their file: architectures, tokenizers, formats. A new one is a new file."""

import ast
import importlib
import importlib.util
import pkgutil
from pathlib import Path
from types import ModuleType

from chainrule.errors import UserError, did_you_mean

NOT_NAMED = ("base", "contract", "explanation")  # what the others build on


def names(package: str, *, without: tuple[str, ...] = NOT_NAMED) -> list[str]:
    """The modules of a package such as 'chainrule.models', sorted; private ones and `without` left out."""
    path = importlib.import_module(package).__path__
    found = (module.name for module in pkgutil.iter_modules(path))
    return sorted(name for name in found if not name.startswith("_") and name not in without)


def find(package: str, name: str, what: str, *, without: tuple[str, ...] = NOT_NAMED) -> ModuleType:
    """The module of that name, or a UserError that says which there are."""
    known = names(package, without=without)
    if name not in known:
        raise UserError(f"unknown {what} '{name}'{did_you_mean(name, known)} (there are: {', '.join(known)})")
    return importlib.import_module(f"{package}.{name}")


def table_names(module: str, table: str) -> list[str]:
    """The keys of a dictionary that a module writes out, such as METHODS, read from its source without importing it.

    A help text can so list what there is without loading what it is made of.
    """
    root, *parts = module.split(".")  # its parent packages are not imported either
    spec = importlib.util.find_spec(root)
    assert spec is not None and spec.origin is not None, module
    for node in ast.parse(Path(spec.origin).parent.joinpath(*parts).with_suffix(".py").read_text("utf-8")).body:
        target = (
            node.target
            if isinstance(node, ast.AnnAssign)
            else node.targets[0]
            if isinstance(node, ast.Assign)
            else None
        )
        if isinstance(target, ast.Name) and target.id == table and isinstance(node, ast.AnnAssign | ast.Assign):
            assert isinstance(node.value, ast.Dict), f"{module}.{table} is not written out as a dictionary"
            return [
                key.value for key in node.value.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
            ]
    raise AssertionError(f"{module} has no {table}")
