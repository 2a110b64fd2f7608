"""Training as it goes, on the terminal: the loss as a curve, quality, speed, time left and the newest sample.

Drawn on standard error at most four times a second, by the loop's own calls (no thread); where that is not a terminal,
only messages are printed.
"""

import math
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from chainrule.progress import is_quiet, size, visible
from chainrule.training.callbacks import Callback, Record

BLOCKS = "▁▂▃▄▅▆▇█"
REFRESH_SECONDS = 0.25
SAMPLE_LINES = 4
NAMES_WIDTH = 12  # of the column of names, with the space after it
CURVE_WIDTH = 60
SHORTEST_BAR = 10
PLAIN = {"event", "step", "seconds", "loss", "perplexity", "bits_per_byte", "is_best"}  # of an evaluation


class View(Callback):
    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic):
        self._console = console or Console(stderr=True, highlight=False, quiet=is_quiet())
        self._is_shown = self._console.is_terminal if console else sys.stderr.isatty() and not is_quiet()
        self._clock = clock
        self._live: Live | None = None
        self._refreshed_at = -math.inf
        self._facts: Record = {}
        self._first: Record = {}
        self._last: Record = {}
        self._evaluation: Record = {}
        self._best: Record = {}
        self._sample = ""
        self._losses = Curve()

    def begin(self, record: Record) -> None:
        self._facts = record
        if self._is_shown:
            is_same = (
                sys.stdout.isatty()
            )  # else standard output is a file or pipe, and what is printed there goes there
            self._live = Live(console=self._console, auto_refresh=False, transient=True, redirect_stdout=is_same)
            self._guard(self._live.start)

    def step(self, record: Record) -> None:
        self._first = self._first or record
        self._last = record
        self._losses.append(record["loss"])
        self._refresh()

    def evaluation(self, record: Record) -> None:
        self._evaluation = record
        if record["is_best"]:
            self._best = record
        self._refresh()

    def sample(self, record: Record) -> None:
        self._sample = record["text"]
        self._refresh()

    def message(self, text: str) -> None:
        self._guard(lambda: self._console.print(Text(visible(text)), soft_wrap=True))

    def end(self, record: Record) -> None:
        self._finish("trained for")

    def close(self) -> None:
        self._finish("stopped after")

    def _finish(self, verb: str) -> None:
        """The live area gives way to a line or two that stay."""
        if self._live is None:
            return
        self._guard(self._live.stop)
        self._live = None
        if self._last:
            self._guard(lambda: self._console.print(Text("\n".join(self._summary(verb)))))

    def _refresh(self) -> None:
        if self._live is None or self._clock() - self._refreshed_at < REFRESH_SECONDS:
            return
        live = self._live
        self._guard(lambda: live.update(self.render(), refresh=True))
        self._refreshed_at = self._clock()

    def _guard(self, draw: Callable[[], object]) -> None:
        """A terminal that has gone away must not end the training."""
        try:
            draw()
        except OSError:
            self._is_shown = False
            self._live = None

    @property
    def _width(self) -> int:
        """The width of the column of figures."""
        return max(self._console.width - NAMES_WIDTH, 12)

    def render(self) -> Table:
        """All rows that have something to show."""
        grid = Table.grid(padding=(0, 0))
        grid.add_column(style="dim", no_wrap=True, width=NAMES_WIDTH)
        grid.add_column(overflow="fold", width=self._width)
        grid.add_row("model", self._model())
        if self._last:
            grid.add_row("loss", self._loss())
        if self._evaluation:
            grid.add_row("validation", self._validation())
        if self._last:
            grid.add_row("learning", _phrases(self._learning(), self._width))
            grid.add_row("seen", _phrases(self._seen(), self._width))
            grid.add_row("speed", _phrases(self._speed(), self._width))
            grid.add_row("time", self._time())
        if self._sample:
            grid.add_row("sample", self._newest_sample())
        return grid

    def _model(self) -> Text:
        facts = self._facts
        phrases = [str(facts.get("architecture", "?")), f"{facts.get('parameters', 0):,} parameters"]
        if facts.get("vocabulary_size"):
            phrases.append(f"vocabulary of {facts['vocabulary_size']:,}")
        if facts.get("resumed_at_step"):
            phrases.append(f"resumed at step {facts['resumed_at_step']:,}")
        return _phrases(phrases, self._width)

    def _loss(self) -> Text:
        curve = sparkline(self._losses.values, min(self._width - 9, CURVE_WIDTH), self._losses.ceiling)
        return Text.assemble((_number(self._last["loss"], ".4f"), "bold"), "  ", (curve, "cyan"))

    def _validation(self) -> Text:
        measured = self._evaluation
        mark = "★ best" if measured["is_best"] else f"best was {_number(self._best.get('loss'), '.4f')}"
        bits = [f"{_number(measured['bits_per_byte'], '.4f')} bits per byte"] if measured["bits_per_byte"] else []
        others = [f"{name} {_number(value, '.2f')}" for name, value in measured.items() if name not in PLAIN]
        text = _phrases([_number(measured["loss"], ".4f"), *bits, *others, mark], self._width)
        text.highlight_regex(r"^\S+(?=,)", "bold")
        text.highlight_regex("★ best", "green")
        return text

    def _learning(self) -> list[str]:
        last = self._last
        clipped = " (clipped)" if last["clipped"] else ""
        return [
            f"rate {_number(last['learning_rate'], '.2e')}",
            f"gradient norm {_number(last['gradient_norm'], '.3g')}{clipped}",
        ]

    def _seen(self) -> list[str]:
        last = self._last
        return [f"step {last['step']:,}", f"{last['tokens']:,} tokens", _epochs(last)]

    def _speed(self) -> list[str]:
        return [f"{_number(self._last['tokens_per_second'], ',.0f')} tokens/s", f"{size(self._last['memory_bytes'])}"]

    def _time(self) -> Text:
        last, left = self._last, self.seconds_left()
        phrases = [f"{last['progress']:.0%}", f"{clock_time(last['seconds'])} elapsed"]
        phrases += [f"{clock_time(left)} left"] if left is not None else []
        times = _phrases(phrases, self._width)
        beside = min(self._width - len(times) - 2, CURVE_WIDTH)
        is_beside = beside >= SHORTEST_BAR
        width = beside if is_beside else self._width
        done = min(int(width * last["progress"]), width)
        return Text.assemble(("━" * done, "cyan"), ("─" * (width - done), "dim"), "  " if is_beside else "\n", times)

    def _newest_sample(self) -> Text:
        """The first lines of the newest sample."""
        text = visible(self._sample.strip("\n")[: self._width * SAMPLE_LINES * 4]).expandtabs(4)
        lines = Text(text).wrap(self._console, self._width)
        if len(lines) > SAMPLE_LINES:
            lines[SAMPLE_LINES - 1].truncate(self._width - 2)
            lines[SAMPLE_LINES - 1].append(" …", style="dim")
        return Text("\n").join(lines[:SAMPLE_LINES])

    def seconds_left(self) -> float | None:
        """The estimated time left: by the time budget or by the speed so far, whichever ends first."""
        first, last, guesses = self._first, self._last, []
        if self._facts.get("budget_seconds") is not None:
            guesses.append(max(self._facts["budget_seconds"] - last["seconds"], 0.0))
        if last["progress"]:
            done, spent = last["progress"] - first["progress"], last["seconds"] - first["seconds"]
            if done > 0:
                guesses.append(spent / done * (1 - last["progress"]))
            elif not self._facts.get("resumed_at_step"):
                guesses.append(last["seconds"] / last["progress"] * (1 - last["progress"]))
        return min(guesses) if guesses else None

    def _summary(self, verb: str) -> list[str]:
        last, best = self._last, self._best
        seen = f"{last['step']:,} steps, {last['tokens']:,} tokens ({_epochs(last)})"
        lines = [f"{verb} {seen} in {clock_time(last['seconds'])}, training loss {_number(last['loss'], '.4f')}"]
        if best:
            bits = "" if best.get("bits_per_byte") is None else f", {best['bits_per_byte']:.4f} bits per byte"
            lines.append(f"best validation loss {_number(best['loss'], '.4f')}{bits}, at step {best['step']:,}")
        return lines


class Curve:
    """All values seen, as at most 512 averages over equal spans."""

    LIMIT = 512

    def __init__(self) -> None:
        self.values: list[float] = []
        self._span = 1
        self._pending: list[float] = []

    def append(self, value: float | None) -> None:
        self._pending.append(math.nan if value is None else value)
        if len(self._pending) == self._span:
            self.values.append(_mean(self._pending))
            self._pending = []
        if len(self.values) == self.LIMIT:
            self.values = [_mean(self.values[i : i + 2]) for i in range(0, self.LIMIT, 2)]
            self._span *= 2

    @property
    def ceiling(self) -> float:
        """The largest value after the first fifth: the steep beginning would flatten all that follows it."""
        return max(filter(math.isfinite, self.values[len(self.values) // 5 :]), default=math.inf)


def sparkline(values: Sequence[float], width: int, ceiling: float = math.inf) -> str:
    """[1, 2, 3, 8] -> '▁▂▃█': at most `width` blocks, averaging neighbours; a gap where a value is not finite."""
    if len(values) > width:
        edges = [i * len(values) // max(width, 1) for i in range(width + 1)]
        values = [_mean(values[start:stop]) for start, stop in pairwise(edges)]
    finite = [min(value, ceiling) for value in values if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(
        BLOCKS[round((min(value, ceiling) - low) * scale)] if math.isfinite(value) else " " for value in values
    )


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan


def clock_time(seconds: float) -> str:
    """75 -> '1:15', 3725 -> '1:02:05'."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def _number(value: float | None, form: str) -> str:
    return "?" if value is None or not math.isfinite(value) else format(value, form)


def _epochs(record: Record) -> str:
    """1.25 epochs; of several sources, each its own."""
    return "/".join(f"{each:.2f}" for each in record["epochs"]) + " epochs"


def _phrases(phrases: Sequence[str], width: int) -> Text:
    """Phrases joined by commas, so that a narrow terminal breaks lines between them and not within."""
    text = phrases[0]
    for phrase in phrases[1:]:
        line, comma = text.rpartition("\n")[2], phrase is not phrases[-1]
        text += f", {phrase}" if len(line) + len(phrase) + 2 + comma <= width else f",\n{phrase}"
    return Text(text)
