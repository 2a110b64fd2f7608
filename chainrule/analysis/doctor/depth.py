"""Measures how gradients vanish or explode: down through the layers, and back through the text.

Down: the norm of dL/dx, where x is the output of a layer and L the mean loss of some training windows. Back: the norm
of d(-log p(last word))/de, where e is the vector of a word k tokens before; it is a product of many factors, so it
vanishes or explodes with k (Bengio et al., 1994). Both are drawn in report/depth.svg.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from chainrule.analysis.doctor.layers import find_layers, token_table
from chainrule.analysis.doctor.outputs import LayerOutputs
from chainrule.analysis.doctor.subject import Subject
from chainrule.models._neural import NeuralModel
from chainrule.models.contract import Batch
from chainrule.plotting import BLUE, ORANGE, draw_line, mark_decades, name_lines, short, write_plots
from chainrule.training.finding import Finding

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS, LENGTH = 16, 128  # of the windows of text that are read
UNEVEN = 100.0  # the ratio of two layers' norms that is too large
FAINT = 0.01  # words with a smaller share of the nearest word's gradient do not count
SHORT_REACH = 10  # tokens back
PICTURE = Path("report") / "depth.svg"  # in the run's folder


@dataclass(frozen=True)
class Gradients:
    """Norms of gradients by layer and by distance."""

    layers: dict[str, float]  # at each layer's output, from the token table up
    distances: np.ndarray  # at the word so many tokens before the last one; empty where no token table is known

    @property
    def reach(self) -> int:
        """How many tokens back the farthest word is that counts."""
        return int(np.flatnonzero(self.distances >= FAINT * self.distances[0])[-1])


def measure(model: NeuralModel, tokens: Tensor) -> Gradients:
    """The gradients on tokens (batch, time + 1): each row is a window and the word after it."""
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    state = model.start(len(tokens)) if model.carries_state else None
    with LayerOutputs(find_layers(model)) as layers:
        loss, _ = model.advance(Batch(inputs, targets), state)
        norms = {name: float(each.norm()) for name, each in layers.gradients(loss.mean).items()}
        hidden, _ = model.read(inputs, state)
        last = F.cross_entropy(model.output(hidden[:, -1]), targets[:, -1])
        at_words = layers.gradient_by_time(last, token_table(model), inputs)  # (time, batch, width)
    if at_words is None:
        return Gradients(norms, np.zeros(0))
    distances = at_words.flip(0).flatten(1).norm(dim=1)
    return Gradients(norms, distances.numpy().astype(np.float64))


def look_at_gradients(subject: Subject) -> list[Finding]:
    """Findings about gradients by depth and by distance; a finished run also gets a picture of them."""
    model = subject.model
    if not isinstance(model, NeuralModel):
        return []
    tokens = subject.tokens("train", ROWS, min(LENGTH, model.context_length or LENGTH) + 1)
    if tokens is None:
        return []
    gradients = measure(model, torch.from_numpy(tokens))
    found = [*_describe_depth(gradients), *_describe_reach(gradients, model)]
    can_draw = subject.is_finished and len(gradients.layers) and len(gradients.distances)
    return found + draw(gradients, subject.folder / PICTURE) if can_draw else found


def _describe_depth(gradients: Gradients) -> list[Finding]:
    names, norms = list(gradients.layers), np.array(list(gradients.layers.values()))
    if len(norms) < 2 or not norms.max() > 0:
        return []
    first, top = norms[0], norms[-1]
    path = f"the norm of the loss's gradient is {top:.2g} at {names[-1]} and {first:.2g} at {names[0]}"
    if first < top / UNEVEN:
        advice = "use residual connections or a pre-norm (norm_placement=pre, residual=true), or fewer layers"
        return [Finding("gradients vanish with depth", "problem", path, advice)]
    if first > top * UNEVEN:
        return [
            Finding(
                "gradients grow with depth", "note", path, "clip them, lower the learning rates, or add normalisation"
            )
        ]
    return [Finding("gradients by depth", "good", path)]


def _describe_reach(gradients: Gradients, model: NeuralModel) -> list[Finding]:
    if not len(gradients.distances):
        return [Finding("gradients in time", "note", "unknown: the model declares no token embedding")]
    if model.receptive_field is not None or not gradients.distances[0] > 0:
        return []  # how far back it looks is one of its settings
    reach, most = gradients.reach, len(gradients.distances) - 1
    end = f"{reach:,} tokens back" if reach < most else f"{most:,} tokens back, the farthest examined"
    found = f"the farthest token whose gradient is {FAINT:.0%} of the last one's is {end}"
    if reach < min(SHORT_REACH, most):
        advice = "gates remember longer (--model lstm or gru), and attention looks back directly (--model transformer)"
        return [Finding("gradients vanish in time", "note", found, advice)]
    return [Finding("gradients in time", "good", found)]


def draw(gradients: Gradients, picture: Path) -> list[Finding]:
    """Draw the picture; the finding says where it is, or why it could not be drawn."""
    try:
        notes = write_plots(picture.parent, lambda: {picture.stem: draw_gradients(gradients)})
    except OSError as error:
        notes = [f"'{picture}' could not be written: {error.strerror}"]
    if notes:
        return [Finding("picture", "note", note, "then run the doctor again") for note in notes]
    return [Finding("picture", "good", f"gradients by layer and by distance are drawn in {picture}")]


def draw_gradients(gradients: Gradients) -> "Figure":
    """Left, the norm by layer; right, by distance in tokens."""
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots_adjust(left=0.14, wspace=0.24)
    left, right = figure.subplots(1, 2)
    _draw_layers(left, gradients.layers)
    _draw_distances(right, gradients.distances)
    return figure


def _draw_layers(axes: "Axes", layers: dict[str, float]) -> None:
    from matplotlib.ticker import NullFormatter

    norms = np.array(list(layers.values()))
    axes.set(title="Gradient by layer", xlabel="norm of the loss's gradient", xscale="log")
    draw_line(axes, norms, np.arange(len(norms)), "at its output", color=BLUE, linewidth=1.2, marker="o", markersize=5)
    axes.set_yticks(np.arange(len(norms)), [_label(name) for name in layers])
    if norms.min() > 0:  # at least whole powers of ten, so that small differences look small
        axes.set_xlim(10 ** np.floor(np.log10(norms.min() / 2)), 10 ** np.ceil(np.log10(norms.max() * 2)))
    axes.xaxis.set_major_formatter(short)
    axes.xaxis.set_minor_formatter(NullFormatter())
    name_lines(axes)


def _draw_distances(axes: "Axes", distances: np.ndarray) -> None:
    from matplotlib.ticker import MaxNLocator

    shares = distances / (distances[0] or 1.0)
    axes.set(title="Gradient by distance", xlabel="tokens back", yscale="log")
    draw_line(
        axes, np.arange(len(shares)), np.where(shares > 0, shares, np.nan), "at a word", color=BLUE, linewidth=1.4
    )
    axes.axhline(FAINT, color=ORANGE, linewidth=1.3, linestyle=(0, (5, 3)), label=f"{FAINT:.0%}", gid="faint")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if (shares > 0).any():
        mark_decades(axes.yaxis, np.append(shares, FAINT))
    name_lines(axes)


def _label(name: str) -> str:
    """'recurrent.cells.0' -> 'cell 0'."""
    *_, kind, last = ("", *name.split("."))
    return f"{kind.removesuffix('s')} {last}" if last.isdigit() else last
