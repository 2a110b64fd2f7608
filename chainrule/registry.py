"""Things that are found by the name of their file: architectures, tokenizers, formats. A new one is a new file."""

import importlib
import pkgutil
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
