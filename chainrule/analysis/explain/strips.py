"""What the page draws for each token: tinted text, strips with a column for each token, heat maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chainrule.analysis.explain.heat_map import heat_map_uri

SHOWN_TOKENS = 40  # the latest, where each has a column
LEAST_HEIGHT = 40  # of a heat map, in pixels


class TintedToken(NamedTuple):
    """A token of the text, with its tint from -1 to 1 and what the mouse is told about it."""

    token: str
    value: float
    title: str


class Cell(NamedTuple):
    """One column of a strip: the tint from -1 to 1, and the figure that is told."""

    value: float
    shown: float


class Strip(NamedTuple):
    """A row with a cell for each of the latest tokens."""

    name: str
    cells: list[Cell]


@dataclass(frozen=True)
class Strips:
    """Rows of figures over the latest tokens of a text."""

    tokens: list[str]
    strips: list[Strip]


class HeatMap(NamedTuple):
    """A matrix as a picture."""

    caption: str
    width: int
    height: int
    source: str


def make_strips(tokens: Sequence[str], rows: Mapping[str, np.ndarray], scale: float = 1.0) -> Strips:
    """One strip for each named row (time,); the figures are divided by `scale` to give tints."""
    first = max(len(tokens) - SHOWN_TOKENS, 0)
    strips = []
    for name, values in rows.items():
        cells = [Cell(float(values[place]) / scale, float(values[place])) for place in range(first, len(tokens))]
        strips.append(Strip(name, cells))
    return Strips(list(tokens[first:]), strips)


def make_heat_map(values: np.ndarray, caption: str, size: int, scale: float = 1.0) -> HeatMap:
    """A picture of so many pixels' width for values (rows, columns) from -scale to scale."""
    height = max(round(size * min(values.shape[0] / max(values.shape[1], 1), 1.0)), LEAST_HEIGHT)
    return HeatMap(caption, size, height, heat_map_uri(values / scale))
