"""A translation explained, as HTML: heat maps of where it looked and of what that did, and the beam as a tree."""

from typing import NamedTuple

import numpy as np

from chainrule.analysis.explain.alignment import Branch, Translated
from chainrule.analysis.explain.rendering import render

STEP_WIDTH, ROW_HEIGHT, TOKEN_LETTERS = 96, 24, 10


class Node(NamedTuple):
    """A beginning of the beam where it is drawn, and the line that leads to it from the one that it makes longer."""

    branch: Branch
    x: int
    y: int
    path: str


def page(found: Translated) -> str:
    """A page of its own that loads nothing from elsewhere."""
    return render(
        "translation.html.j2",
        found=found,
        largest=float(np.abs(found.attribution).max()) or 1.0,
        nodes=_nodes(found.beam),
        width=len(found.beam) * STEP_WIDTH + 20,
        height=ROW_HEIGHT * max(len(step) for step in found.beam) + 8,
        token_letters=TOKEN_LETTERS,
    )


def _nodes(steps: list[list[Branch]]) -> list[Node]:
    """Columns are steps, the likeliest beginning on top."""
    nodes = []
    for number, step in enumerate(steps):
        for place, branch in enumerate(step):
            x, y, path = number * STEP_WIDTH + 12, place * ROW_HEIGHT + 18, ""
            if branch.parent is not None:
                from_y = branch.parent * ROW_HEIGHT + 14
                path = f"M{x - 18} {from_y} C{x - 8} {from_y} {x - 12} {y - 4} {x - 3} {y - 4}"
            nodes.append(Node(branch, x, y, path))
    return nodes
