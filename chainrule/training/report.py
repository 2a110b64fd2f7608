"""Plots of a training, from its journal: report/loss.svg and report/gradients.svg.

The second shows what clipping is for: gradients that explode reach above the line, those that vanish sink to the floor.
Drawn without pyplot, which would look for a display; the same journal gives the same bytes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.training.journal import events
from chainrule.training.watch import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

PAPER, INK, FAINT, GRID = "#ffffff", "#24292f", "#6e7781", "#e6e8eb"
BLUE, ORANGE = "#0072b2", "#d55e00"  # told apart by colour-blind eyes too
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "chainrule",  # names within the file: the same every time
    "svg.fonttype": "none",  # text stays text
    "path.simplify": False,
    "font.family": "sans-serif",
    "font.size": 10.5,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": FAINT,
    "axes.facecolor": PAPER,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlepad": 34,
    "figure.facecolor": PAPER,  # dark viewers show it on white, not ink on black
    "figure.figsize": (8, 4.2),
    "figure.subplot.left": 0.08,
    "figure.subplot.right": 0.97,
    "figure.subplot.top": 0.8,
    "figure.subplot.bottom": 0.15,
    "grid.color": GRID,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "ytick.left": False,
    "ytick.minor.left": False,
    "xtick.minor.bottom": False,
    "lines.solid_capstyle": "round",
}


def write_report(journal: Path, folder: Path, clip: float = 0.0) -> list[str]:
    """Both plots into `folder`, which is made; what could not be drawn, as notes. `clip` 0: gradients were not."""
    happened = list(events(journal))
    steps = [event for event in happened if event["event"] == "step"]
    evaluations = [event for event in happened if event["event"] == "evaluation"]
    if not steps:
        return []
    try:
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG
    except ImportError:
        return ["no plots were drawn: matplotlib is not installed (pip install matplotlib)"]

    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever the user's own settings
        matplotlib.rcParams.update(STYLE)
        figures = {"loss": draw_loss(steps, evaluations), "gradients": draw_gradients(steps, clip)}
        for name, figure in figures.items():
            FigureCanvasSVG(figure).print_svg(folder / f"{name}.svg", metadata={"Date": None, "Creator": "Chainrule"})
    return []


def draw_loss(steps: Sequence[Record], evaluations: Sequence[Record]) -> "Figure":
    """Training and validation loss against tokens seen."""
    figure, axes = _axes("Loss, in nats per token", "tokens seen")
    tokens = _column(steps, "tokens")
    if tokens[-1] > 20 * tokens[0] > 0:  # most of the learning is in the first tenth
        axes.set_xscale("log")
        _mark_decades(axes.xaxis, tokens)
    _line(axes, tokens, _column(steps, "loss"), "training", color=BLUE, linewidth=1.2)
    if evaluations:
        evaluated_at = np.interp(_column(evaluations, "step"), _column(steps, "step"), tokens)
        losses = _column(evaluations, "loss")
        _line(axes, evaluated_at, losses, "validation", color=ORANGE, linewidth=2, marker="o", markersize=4)
        if not np.isnan(losses).all():
            best = int(np.nanargmin(losses))
            _mark_best(axes, evaluated_at[best], evaluations[best])
    _name_lines(axes)
    return figure


def _mark_best(axes: "Axes", tokens: float, best: Record) -> None:
    bits = "" if best["bits_per_byte"] is None else f" ({best['bits_per_byte']:.3f} bits per byte)"
    label = f"best: {best['loss']:.3f}{bits} at step {best['step']:,}"
    ring: dict[str, Any] = {
        "markersize": 11,
        "markerfacecolor": "none",
        "markeredgecolor": ORANGE,
        "markeredgewidth": 1.5,
    }
    axes.plot([tokens], [best["loss"]], "o", label=label, gid="best", **ring)


def draw_gradients(steps: Sequence[Record], clip: float) -> "Figure":
    """The gradient's norm before clipping against the step."""
    figure, axes = _axes("Gradient norm, before clipping", "step")
    norms = _column(steps, "gradient_norm")
    if (norms > 0).any():
        axes.set_yscale("log")
        _mark_decades(axes.yaxis, norms)
    _line(axes, _column(steps, "step"), norms, "norm", color=BLUE, linewidth=1.2)
    if clip:
        axes.axhline(clip, color=ORANGE, linewidth=1.3, linestyle=(0, (5, 3)), label=f"limit {clip:g}", gid="limit")
    clipped = [each for each in steps if each["clipped"]]
    if clipped:
        label = f"clipped: {len(clipped):,} of {len(steps):,} records ({len(clipped) / len(steps):.1%})"
        dots = {"color": ORANGE, "markersize": 3.5, "linestyle": "none", "marker": "o", "zorder": 3}
        _line(axes, _column(clipped, "step"), _column(clipped, "gradient_norm"), "clipped", **dots).set_label(label)
    _name_lines(axes)
    return figure


def _axes(title: str, across: str) -> tuple["Figure", "Axes"]:
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.add_subplot(title=title, xlabel=across)
    axes.margins(x=0.02)
    axes.xaxis.set_major_formatter(_short)
    return figure, axes


def _mark_decades(axis: "Axis", values: np.ndarray) -> None:
    """An axis by logarithm, marked at 1, 2, 5, 10 …, or at powers of ten alone where there are many."""
    from matplotlib.ticker import LogLocator

    positive = values[values > 0]
    is_short = positive.max() < 1000 * positive.min()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if is_short else (1,)))
    axis.set_major_formatter(_short)


def _short(value: float, place: float | None = None) -> str:
    """0.5, 200, 5 k, 20 M."""
    for unit, name in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"


def _name_lines(axes: "Axes") -> None:
    """Between the title and the plot, where no line runs."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, borderaxespad=0.5, borderpad=0)


def _column(records: Sequence[Record], name: str) -> np.ndarray:
    """Not a number where there is none, which leaves a gap in a line."""
    return np.array([np.nan if each[name] is None else each[name] for each in records], np.float64)


def _line(axes: "Axes", x: np.ndarray, y: np.ndarray, name: str, **look: Any) -> "Line2D":
    (line,) = axes.plot(x, y, label=name, gid=name, **look)
    if len(x) == 1:
        line.set_marker("o")
    return line
