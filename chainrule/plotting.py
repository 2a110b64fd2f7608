"""The style of all plots. They are drawn without pyplot, which would look for a display.

The same figures give the same bytes, whatever the user's own settings of matplotlib.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

PAPER, INK, FAINT, GRID = "#ffffff", "#24292f", "#6e7781", "#e6e8eb"
BLUE, ORANGE = "#0072b2", "#d55e00"  # told apart by colour-blind eyes too
STYLE: dict[str, object] = {
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
    "figure.dpi": 150,  # of a PNG
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


def write_plots(folder: Path, draw: Callable[[], Mapping[str, "Figure"]]) -> list[str]:
    """Write each figure that `draw` gives as name.svg into `folder`; returns notes on what could not be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return ["no plots were drawn: matplotlib is not installed (pip install matplotlib)"]

    folder.mkdir(parents=True, exist_ok=True)
    with styled():
        for name, figure in draw().items():
            (folder / f"{name}.svg").write_bytes(to_svg(figure))
    return []


@contextmanager
def styled(changes: Mapping[str, object] | None = None) -> Iterator[None]:
    """Within the block, figures are made and saved in our style, whatever the user's settings."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever the user's own settings
        matplotlib.rcParams.update(STYLE | dict(changes or {}))  # type: ignore[arg-type]
        yield


def to_svg(figure: "Figure") -> bytes:
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    file = io.BytesIO()
    FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": "Chainrule"})
    return file.getvalue()


def to_png(figure: "Figure") -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    file = io.BytesIO()
    FigureCanvasAgg(figure).print_png(file)
    return file.getvalue()


def make_figure() -> "Figure":
    """An empty figure that a notebook shows, whether pyplot is used there or not."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            return to_png(self)

    return NotebookFigure()


def make_axes(title: str, across: str) -> tuple["Figure", "Axes"]:
    figure = make_figure()
    axes = figure.add_subplot(title=title, xlabel=across)
    axes.margins(x=0.02)
    axes.xaxis.set_major_formatter(short)
    return figure, axes


def mark_decades(axis: "Axis", values: np.ndarray) -> None:
    """Ticks of a logarithmic axis at 1, 2, 5, 10 …, or at powers of ten alone where there would be many."""
    from matplotlib.ticker import LogLocator

    positive = values[values > 0]
    is_short = positive.max() < 1000 * positive.min()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if is_short else (1,)))
    axis.set_major_formatter(short)


def short(value: float, place: float | None = None) -> str:
    """0.5, 200, 5 k, 20 M."""
    for unit, name in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"


def name_lines(axes: "Axes") -> None:
    """Put the legend between the title and the plot, where it hides no line."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, borderaxespad=0.5, borderpad=0)


def draw_line(axes: "Axes", x: np.ndarray, y: np.ndarray, name: str, **look: Any) -> "Line2D":
    (line,) = axes.plot(x, y, label=name, gid=name, **look)
    if len(x) == 1:
        line.set_marker("o")
    return line
