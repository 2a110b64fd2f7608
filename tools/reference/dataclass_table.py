"""A settings dataclass as a table. A field is described by the comment behind it, or by its metadata's `help`."""

import ast
import dataclasses
import inspect
import textwrap
import types
import typing
from typing import Any

from tools.reference.markdown import code, table


def settings_table(kind: type) -> str:
    """The fields of a frozen dataclass: name, type, default, what it means."""
    comments = field_comments(kind)
    rows = []
    for field in dataclasses.fields(kind):
        described = str(field.metadata.get("help", "")) or comments.get(field.name, "")
        rows.append([code(field.name), code(type_name(field.type, kind)), code(default_of(field)), described])
    return table(["setting", "type", "default", "meaning"], rows)


def type_name(annotation: Any, kind: type) -> str:
    """The annotation as it is written in the source."""
    if isinstance(annotation, str):
        annotation = typing.get_type_hints(kind).get(annotation, annotation)
    is_plain = isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias)
    return annotation.__name__ if is_plain else str(annotation).replace("typing.", "")


def default_of(field: "dataclasses.Field[Any]") -> str:
    if field.default is not dataclasses.MISSING:
        return repr(field.default)
    return (
        "" if field.default_factory is dataclasses.MISSING else f"{getattr(field.default_factory, '__name__', '…')}()"
    )


def field_comments(kind: type) -> dict[str, str]:
    """{field: the comment on its line} of the class and of the dataclasses that it inherits from."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if dataclasses.is_dataclass(each):
            found |= _own_comments(each)
    return found


def _own_comments(kind: type) -> dict[str, str]:
    source = textwrap.dedent(inspect.getsource(kind))
    lines = source.splitlines()
    (body,) = ast.parse(source).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.end_lineno is not None:
            rest = lines[node.end_lineno - 1].encode()[node.end_col_offset or 0 :].decode().strip()
            if rest.startswith("#") and not rest.startswith("# type:"):
                found[node.target.id] = rest.removeprefix("#").strip()
    return found
