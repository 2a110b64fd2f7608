"""What training that began from a run changed: on the text kept aside, on a neutral text, and in what is said."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.data.corpus import Corpus, Reading
from chainrule.data.documents import Documents
from chainrule.evaluation.figures import NATS_PER_BIT, Evaluation
from chainrule.evaluation.score import stream_of
from chainrule.kernels.waiting import considerate_waits
from chainrule.plotting import BLUE, FAINT, make_axes, write_plots
from chainrule.runs.records import NeutralFigures
from chainrule.tasks.base import Said, Task
from chainrule.text.base import Tokenizer
from chainrule.training.request import DEFAULT_CORPUS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEUTRAL, NEUTRAL_BYTES = "Python's documentation", 10_000
PICTURE, ANSWERS = "before-after", "answers.md"


@dataclass(frozen=True)
class BeforeAfter:
    """The figures of the run that training began from, and what both models say."""

    before: Evaluation | None
    neutral: NeutralFigures | None = None
    said: list[Said] = field(default_factory=list)


def compare(before: Any, after: Any, task: Task, recipe: Any, inputs: list[str]) -> BeforeAfter:
    """Two models of the task's tokens: the one that training began from, and what came of it."""
    with considerate_waits():
        measured, neutral = task.evaluate(before, recipe), None
        text = _neutral_text(task.tokenizer)
        if DEFAULT_CORPUS not in inputs and text is not None:
            bits = [
                -float(model.score(text[0]).astype(float).sum()) / NATS_PER_BIT / text[1] for model in (before, after)
            ]
            neutral = NeutralFigures(text=NEUTRAL, before=bits[0], after=bits[1])
        return BeforeAfter(measured, neutral, task.compare(before, after))


def _neutral_text(tokenizer: Tokenizer) -> tuple[np.ndarray, int] | None:
    """The beginning of a text that is always there and that nobody fine-tunes on: its tokens, and how many bytes it
    has; None where tokens do not spell it."""
    batch: Documents = next(Corpus([DEFAULT_CORPUS], Reading()).batches())
    documents = batch.select(batch.sizes.cumsum() <= NEUTRAL_BYTES)
    stream = stream_of(tokenizer, documents)
    if tokenizer.find_changed(documents, stream[1:]).any():
        return None
    return stream, int(documents.sizes.sum())


def write_report(folder: Path, found: BeforeAfter, after: Evaluation | None) -> list[str]:
    """A picture of the figures, and what both models said side by side; returns notes on what could not be drawn."""
    if found.said:
        folder.mkdir(exist_ok=True)
        (folder / ANSWERS).write_text(_side_by_side(found.said), encoding="utf-8")
    bars: list[tuple[str, float, float]] = []
    if found.before and after and found.before["bits_per_byte"] and after["bits_per_byte"]:
        bars.append(("text kept aside", found.before["bits_per_byte"], after["bits_per_byte"]))
    if found.neutral is not None:
        bars.append((f"neutral: {found.neutral['text']}", found.neutral["before"], found.neutral["after"]))
    return write_plots(folder, lambda: {PICTURE: draw(bars)}) if bars else []


def draw(bars: list[tuple[str, float, float]]) -> "Figure":
    """Bits per byte before and after, a pair of bars for each text."""
    figure, axes = make_axes("Bits per byte, before and after", "")
    axes.set_yticks([])
    axes.grid(False)
    for row, (name, was, now) in enumerate(bars):
        axes.text(0, -row + 0.13, name, va="bottom")
        for place, (value, color, word) in enumerate(((was, FAINT, "before"), (now, BLUE, "after"))):
            at = -row - 0.2 * (place - 0.5) - 0.1
            axes.barh(at, value, height=0.17, color=color)
            axes.annotate(f"{value:.3f} {word}", (value, at), (6, 0), textcoords="offset points", va="center")
    axes.set_ylim(-len(bars) + 0.6, 0.4)
    axes.set_xlim(0, 1.25 * max(max(was, now) for _, was, now in bars))
    return figure


def _side_by_side(said: list[Said]) -> str:
    lines = ["# What the model says, before and after", ""]
    for each in said:
        lines += [f"**{_line(each.asked)}**", "", f"- before: {_line(each.before)}", f"- after: {_line(each.after)}"]
        lines += [*([f"- in the data: {_line(each.expected)}"] if each.expected else []), ""]
    return "\n".join(lines)


def _line(text: str) -> str:
    return " ".join(text.split()) or "(nothing)"
