"""Plots of a training, from its journal: report/loss.svg and report/gradients.svg.

The second shows what clipping is for: gradients that explode reach above the line, those that vanish sink to the floor.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.plotting import BLUE, ORANGE, draw_line, make_axes, mark_decades, name_lines, write_plots
from chainrule.training.callbacks import Record
from chainrule.training.journal import column, events

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def write_report(journal: Path, folder: Path, clip: float = 0.0) -> list[str]:
    """Write both plots into a new `folder`; returns notes on what could not be drawn. `clip` 0 means no clipping."""
    happened = list(events(journal))
    steps = [event for event in happened if event["event"] == "step"]
    evaluations = [event for event in happened if event["event"] == "evaluation"]
    if not steps:
        return []
    return write_plots(
        folder, lambda: {"loss": draw_loss(steps, evaluations), "gradients": draw_gradients(steps, clip)}
    )


def draw_loss(steps: Sequence[Record], evaluations: Sequence[Record]) -> "Figure":
    """Training and validation loss against tokens seen."""
    figure, axes = make_axes("Loss, in nats per token", "tokens seen")
    tokens = column(steps, "tokens")
    if tokens[-1] > 20 * tokens[0] > 0:  # most of the learning is in the first tenth
        axes.set_xscale("log")
        mark_decades(axes.xaxis, tokens)
    draw_line(axes, tokens, column(steps, "loss"), "training", color=BLUE, linewidth=1.2)
    if evaluations:
        evaluated_at = np.interp(column(evaluations, "step"), column(steps, "step"), tokens)
        losses = column(evaluations, "loss")
        draw_line(axes, evaluated_at, losses, "validation", color=ORANGE, linewidth=2, marker="o", markersize=4)
        if not np.isnan(losses).all():
            best = int(np.nanargmin(losses))
            _mark_best(axes, evaluated_at[best], evaluations[best])
    name_lines(axes)
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
    figure, axes = make_axes("Gradient norm, before clipping", "step")
    norms = column(steps, "gradient_norm")
    if (norms > 0).any():
        axes.set_yscale("log")
        mark_decades(axes.yaxis, norms)
    draw_line(axes, column(steps, "step"), norms, "norm", color=BLUE, linewidth=1.2)
    if clip:
        axes.axhline(clip, color=ORANGE, linewidth=1.3, linestyle=(0, (5, 3)), label=f"limit {clip:g}", gid="limit")
    clipped = [each for each in steps if each["clipped"]]
    if clipped:
        label = f"clipped: {len(clipped):,} of {len(steps):,} records ({len(clipped) / len(steps):.1%})"
        dots = {"color": ORANGE, "markersize": 3.5, "linestyle": "none", "marker": "o", "zorder": 3}
        draw_line(axes, column(clipped, "step"), column(clipped, "gradient_norm"), "clipped", **dots).set_label(label)
    name_lines(axes)
    return figure
