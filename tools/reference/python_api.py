"""The Python API: signatures and docstrings of what `import chainrule` gives, and of the runs it returns."""

import inspect
import re
from types import FunctionType, ModuleType
from typing import Any

import chainrule
from chainrule import api
from tools.reference.markdown import paragraphs

PACKAGE = re.compile(r"\b(?:chainrule|collections|pathlib|typing|numpy)(?:\.\w+)*\.(\w+)")


def page() -> str:
    functions = [name for name in chainrule.__all__ if isinstance(getattr(chainrule, name), FunctionType)]
    classes = [
        each
        for name, each in vars(api).items()
        if inspect.isclass(each) and each.__module__ == api.__name__ and not name.startswith("_")
    ]
    return paragraphs(
        "# Python",
        _module(api),
        *(_function(f"chainrule.{name}", getattr(chainrule, name), "##") for name in sorted(functions)),
        *(_class(each) for each in classes),
    )


def _module(module: ModuleType) -> str:
    text = inspect.getdoc(module) or ""
    first, _, rest = text.partition("\n\n")
    return paragraphs(first, f"```python\n{rest}\n```" if rest else "")


def _class(kind: type) -> str:
    """The class and its public methods; those it inherits from our own classes, too."""
    methods: dict[str, Any] = {}
    for parent in reversed(kind.__mro__):
        if parent.__module__.startswith("chainrule"):
            methods |= {name: each for name, each in vars(parent).items() if not name.startswith("_")}
    documented = [
        _function(f"{kind.__name__}.{name}", each, "###")
        if isinstance(each, FunctionType)
        else _property(kind, name, each)
        for name, each in sorted(methods.items())
        if isinstance(each, FunctionType | property) or hasattr(each, "func")
    ]
    return paragraphs(f"## {kind.__name__}", inspect.getdoc(kind) or "", *documented)


def _function(name: str, function: Any, heading: str) -> str:
    return paragraphs(f"{heading} {name}", f"```python\n{_call(function)}\n```", inspect.getdoc(function) or "")


def _call(function: Any) -> str:
    """name(parameters) -> result, on one line where it fits, else a line for each parameter."""
    signature = inspect.signature(function)
    name = function.__name__
    line = _short(f"{name}{signature}")
    if len(line) <= 100:
        return line
    shown, is_keyword_only = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword_only:
            shown.append("*")
            is_keyword_only = True
        shown.append(_short(str(parameter)))
    result = "" if signature.return_annotation is signature.empty else line[line.rindex(" -> ") :]
    return f"{name}(\n" + "".join(f"    {each},\n" for each in shown) + f"){result}"


def _property(kind: type, name: str, each: Any) -> str:
    getter = getattr(each, "fget", None) or each.func
    returned = inspect.signature(getter).return_annotation
    shown = returned if isinstance(returned, str) else inspect.formatannotation(returned)
    return paragraphs(f"### {kind.__name__}.{name}", f"`{_short(shown)}`", inspect.getdoc(getter) or "")


def _short(annotation: str) -> str:
    """Names without the modules they come from."""
    return PACKAGE.sub(r"\1", annotation)
