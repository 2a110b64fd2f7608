"""Markdown from values: tables, code, the first paragraph of a docstring."""

import inspect
from collections.abc import Sequence


def code(text: object) -> str:
    """Text as inline code; nothing for an empty text."""
    return f"`{text}`" if str(text) else ""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; columns in which every cell is empty are left out."""
    kept = [index for index in range(len(header)) if any(row[index] for row in rows)]
    lines = [[header[index] for index in kept], ["---"] * len(kept)]
    lines += [[_cell(row[index]) for index in kept] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def summary(documented: object) -> str:
    """The first paragraph of the docstring on one line; empty where there is none of its own."""
    doc = getattr(documented, "__doc__", None) or ""
    return " ".join(inspect.cleandoc(doc).split("\n\n")[0].split())


def paragraphs(*parts: str) -> str:
    """The parts that are not empty, with a blank line between them."""
    return "\n\n".join(part.rstrip() for part in parts if part)
