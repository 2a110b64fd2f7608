"""What the page draws for each token: tinted text, strips with a column for each token, heat maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np

from chainrule.analysis.explain.heat_map import heat_map_uri

SHOWN_TOKENS = 40  # the latest, where each has a column
LEAST_HEIGHT, LARGEST = 40, 480  # of a heat map, in pixels
LABEL_HEIGHT = 12  # pixels


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


class Label(NamedTuple):
    """A token beside a heat map, at the middle of its row or column in pixels."""

    token: str
    place: float


class HeatMap(NamedTuple):
    """A matrix as a picture, with tokens as labels of its rows and columns where these are tokens."""

    caption: str
    width: int
    height: int
    source: str
    rows: list[Label]
    columns: list[Label]


def make_strips(tokens: Sequence[str], rows: Mapping[str, np.ndarray], scale: float = 1.0) -> Strips:
    """One strip for each named row (time,); the figures are divided by `scale` to give tints."""
    first = max(len(tokens) - SHOWN_TOKENS, 0)
    strips = []
    for name, values in rows.items():
        cells = [Cell(float(values[place]) / scale, float(values[place])) for place in range(first, len(tokens))]
        strips.append(Strip(name, cells))
    return Strips(list(tokens[first:]), strips)


def make_heat_map(
    values: np.ndarray,
    caption: str,
    size: int,
    scale: float = 1.0,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> HeatMap:
    """A picture for values (rows, columns) from -scale to scale, at least `size` pixels wide, more if labels need it.

    Where there are too many tokens for all of them to be labels, every second or third is one, and so on.
    """
    width = max(size, min(LABEL_HEIGHT * len(columns), LARGEST))
    height = max(round(width * min(values.shape[0] / max(values.shape[1], 1), 1.0)), LEAST_HEIGHT)
    labels = _place_labels(rows, height), _place_labels(columns, width)
    return HeatMap(caption, width, height, heat_map_uri(values / scale), *labels)


def _place_labels(tokens: Sequence[str], length: int) -> list[Label]:
    """Labels along a side of so many pixels."""
    if not tokens:
        return []
    each = length / len(tokens)
    return [Label(tokens[at], (at + 0.5) * each) for at in range(0, len(tokens), ceil(LABEL_HEIGHT / each))]
