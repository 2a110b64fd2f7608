"""Two plots of a comparison: bits against training time, and bits against the number of parameters.

Every line is labelled in the margin, at its end, in place of a legend. Colours are those of Okabe and Ito, which
colour-blind people tell apart; each family of models has its own marker.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.analysis.compare.measure import ModelScores
from chainrule.analysis.compare.report import Report
from chainrule.plotting import FAINT, GRID, INK, PAPER, mark_decades, styled, to_png, to_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LIGHT = {"ink": INK, "faint": FAINT, "grid": GRID, "paper": PAPER}
DARK = {"ink": "#e6edf3", "faint": "#9aa4af", "grid": "#30363d", "paper": "#0d1117"}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#a6761d")
MARKERS = {"ngram": "s", "infinigram": "s", "mlp": "D", "bow": "D", "attention": "D", "transformer": "o"}
TIME, PARAMETERS = "Bits against the time of training", "Bits against parameters"
GAP = 0.045  # between two names, as a share of the height


@dataclass(frozen=True)
class Plot:
    """A plot as SVG, once for light and once for dark pages, and as PNG."""

    title: str
    name: str  # of its files
    light: bytes
    dark: bytes
    png: bytes


def draw_plots(report: Report) -> list[Plot]:
    """Bits against time, and against parameters."""
    found = []
    for title, name, draw in ((TIME, "time", _against_time), (PARAMETERS, "parameters", _against_parameters)):
        with styled(_style(DARK)):
            dark = to_svg(draw(report, DARK))
        with styled(_style(LIGHT)):
            figure = draw(report, LIGHT)
            found.append(Plot(title, name, to_svg(figure), dark, to_png(figure)))
    return found


def _style(colours: dict[str, str]) -> dict[str, object]:
    return {
        "text.color": colours["ink"],
        "axes.edgecolor": colours["faint"],
        "axes.labelcolor": colours["faint"],
        "axes.facecolor": colours["paper"],
        "figure.facecolor": colours["paper"],
        "grid.color": colours["grid"],
        "xtick.color": colours["faint"],
        "ytick.color": colours["faint"],
        "figure.figsize": (9, 5.4),
        "figure.subplot.right": 0.8,
        "figure.subplot.top": 0.95,
        "figure.subplot.bottom": 0.12,
        "figure.subplot.left": 0.09,
    }


def _against_time(report: Report, colours: dict[str, str]) -> "Figure":
    """On each run's own validation text, as it was evaluated during training."""
    unit = report.table.unit
    figure, axes = _axes("seconds of training, start to end", f"bits per {unit} of the text kept aside")
    ends = []
    for number, each in enumerate(_by_rank(report)):
        if not each.curve:
            continue
        seconds, *bits = np.array(each.curve).T
        heights = bits[0 if unit == "byte" else 1]
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS.get(each.architecture, "^")
        axes.plot(seconds, heights, color=colour, linewidth=1.4, alpha=0.9)
        axes.plot(seconds[-1:], heights[-1:], marker, color=colour, markersize=7)
        ends.append((each.label, float(seconds[-1]), float(heights[-1]), colour))
    return _finish(figure, axes, ends, colours)


def _against_parameters(report: Report, colours: dict[str, str]) -> "Figure":
    figure, axes = _axes("parameters", f"bits per {report.table.unit}, lower is better")
    ends = []
    for number, each in enumerate(_by_rank(report)):
        row = report.table.row(each.label)
        if row is None:
            continue
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS.get(each.architecture, "^")
        low, high = row.interval or (row.bits, row.bits)
        bars = np.array([[row.bits - low], [high - row.bits]]).clip(min=0)
        axes.errorbar([row.parameters], [row.bits], yerr=bars, fmt=marker, color=colour, markersize=7, capsize=3)
        ends.append((each.label, float(row.parameters), row.bits, colour))
    return _finish(figure, axes, ends, colours)


def _by_rank(report: Report) -> list[ModelScores]:
    """The models in the table's order, best first."""
    places = {row.model: place for place, row in enumerate(report.table.rows)}
    return sorted((each for each in report.measured if each.label in places), key=lambda each: places[each.label])


def _axes(across: str, upwards: str) -> tuple["Figure", "Axes"]:
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.add_subplot(xlabel=across, ylabel=upwards)
    axes.set_xscale("log")
    return figure, axes


def _finish(
    figure: "Figure", axes: "Axes", ends: list[tuple[str, float, float, str]], colours: dict[str, str]
) -> "Figure":
    """Write the labels into the margin, moved apart where they would overlap, with a thin line to each point."""
    if not ends:
        return figure
    mark_decades(axes.xaxis, np.array([x for _, x, _, _ in ends]))
    bits = np.array([y for _, _, y, _ in ends])
    room = max(float(np.ptp(bits)), 0.02)
    bottom, top = float(bits.min()) - 0.06 * room, float(bits.max()) + 0.15 * room
    axes.set_ylim(bottom, top)
    heights = spread((bits - bottom) / (top - bottom), GAP)
    for (name, x, y, colour), height in zip(ends, heights, strict=True):
        axes.annotate(
            name, (x, y), xytext=(1.03, height), textcoords="axes fraction", va="center", color=colour, fontsize=9.5,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colours["grid"], "linewidth": 0.8, "shrinkB": 5, "zorder": 0},
        )  # fmt: skip
    return figure


def spread(heights: np.ndarray, gap: float) -> np.ndarray:
    """The heights nearest to these that are at least `gap` apart, in the same order and not below 0."""
    order = np.argsort(heights, kind="stable")
    # With y_i = h_i - i gap the order is all that is asked of y: isotonic regression, by pooling neighbours.
    blocks: list[list[float]] = []  # mean, size
    for rank, height in enumerate(heights[order]):
        blocks.append([float(height) - rank * gap, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            mean, size = blocks.pop()
            before, count = blocks.pop()
            blocks.append([(before * count + mean * size) / (count + size), count + size])
    pooled = np.concatenate([np.full(int(size), mean) for mean, size in blocks])
    found = np.empty(len(heights))
    found[order] = np.maximum(pooled, 0.0) + gap * np.arange(len(heights))
    return found
