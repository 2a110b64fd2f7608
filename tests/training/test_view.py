import io
import math
import re

import pytest
from rich.console import Console

from chainrule.training.view import Curve, View, clock_time, sparkline

FACTS = {
    "architecture": "lstm", "parameters": 1_234_567, "vocabulary_size": 4096,
    "total_steps": 1000, "budget_seconds": None, "resumed_at_step": 0,
}  # fmt: skip


def step_record(step: int, loss: float | None = 2.5, **changes):
    return {
        "step": step, "tokens": step * 4096, "progress": step / 1000, "seconds": step * 0.3, "loss": loss,
        "bits_per_byte": 1.1, "learning_rate": 3e-4, "gradient_norm": 0.875, "clipped": False,
        "tokens_per_second": 13_653, "memory_bytes": 612_000_000, "epochs": [1.25], **changes,
    }  # fmt: skip


def evaluation(step: int, loss: float, is_best: bool):
    bits = loss / math.log(2) / 4
    return {"step": step, "loss": loss, "perplexity": math.exp(loss), "bits_per_byte": bits, "is_best": is_best}


class Screen:
    """A view on a terminal of so many columns, with a clock that stands still unless told."""

    def __init__(self, width: int, facts: dict = FACTS, **console):
        self.file = io.StringIO()
        self.now = 0.0
        environment = {"TERM": "xterm-256color", "COLUMNS": str(width), "LINES": "40", **console.pop("environ", {})}
        self.console = Console(
            file=self.file, width=width, force_terminal=True, legacy_windows=False, _environ=environment, **console
        )
        self.view = View(self.console, lambda: self.now)
        self.view.on_event({"event": "begin", **facts})

    def shows(self) -> str:
        """What the view looks like now, lines joined by single spaces."""
        with self.console.capture() as capture:
            self.console.print(self.view.render())
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capture.get())
        assert max(len(line.rstrip()) for line in plain.split("\n")) <= self.console.width
        return " ".join(plain.split())

    def printed(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.file.getvalue())


@pytest.mark.parametrize("width", [40, 80, 120, 300])
def test_the_numbers_given_are_shown_at_any_width(width):
    screen = Screen(width)
    for step in (100, 200, 300, 400):
        screen.view.step(step_record(step, loss=10 - step / 100))
    screen.view.evaluation(evaluation(400, 2.125, is_best=True))
    screen.view.sample({"step": 400, "text": "To be"})
    words = screen.shows()
    for part in ("lstm", "1,234,567", "4,096", "6.0000 █▆▃▁", "2.1250,", "0.7664", "★ best", "3.00e-04", "0.875",
                 "400,", "1,638,400", "1.25", "13,653", "612.0 MB", "40%", "2:00", "3:00", "sample To be"):  # fmt: skip
        assert part in words


def test_it_fits_into_the_narrowest_window():
    screen = Screen(16)
    screen.view.step(step_record(400))
    screen.view.evaluation(evaluation(400, 2.125, is_best=True))
    screen.view.sample({"step": 400, "text": "To be or not to be"})
    assert "2.1250" in screen.shows()


def test_a_validation_that_is_not_the_best_names_the_best():
    screen = Screen(120)
    screen.view.evaluation(evaluation(100, 2.0, is_best=True))
    screen.view.evaluation(evaluation(200, 2.5, is_best=False))
    assert "validation 2.5000, 0.9017 bits per byte, best was 2.0000" in screen.shows()
    screen.view.evaluation({**evaluation(300, 1.5, is_best=True), "bits_per_byte": None})
    assert "validation 1.5000, ★ best" in screen.shows()


def test_clipping_and_several_sources_and_figures_that_are_missing_are_shown():
    screen = Screen(120)
    screen.view.step(step_record(1, loss=None, clipped=True, gradient_norm=math.inf, epochs=[0.5, 2.0]))
    words = screen.shows()
    assert "gradient norm ? (clipped)" in words
    assert "0.50/2.00 epochs" in words
    assert "loss ?" in words


def test_a_sample_cannot_command_the_terminal_and_is_cut_to_four_lines():
    screen = Screen(40)
    screen.view.sample({"step": 1, "text": "red \x1b[31m\x07\r\n" + "\n".join("abcdefgh")})
    assert screen.shows().endswith("sample red \\x1b[31m\\x07\\x0d a b c …")


def test_a_sample_is_not_markup():
    screen = Screen(80)
    screen.view.sample({"step": 1, "text": "[bold]x[/bold] [/]"})
    screen.view.message("read [red]poems[/red].txt \x1b[1m")
    assert "[bold]x[/bold] [/]" in screen.shows()
    assert "read [red]poems[/red].txt \\x1b[1m\n" in screen.printed()


@pytest.mark.parametrize(
    ("facts", "records", "left"),
    [
        ({}, [(0.1, 10.0)], 90.0),  # by progress and seconds alone
        ({}, [(0.1, 10.0), (0.2, 15.0)], 40.0),  # by the pace since the first record
        ({"budget_seconds": 60.0}, [(0.25, 15.0), (0.5, 30.0)], 30.0),
        ({"budget_seconds": 60.0}, [(1.0, 61.0)], 0.0),
        ({"resumed_at_step": 500}, [(0.5, 100.0)], None),  # nothing is known of this process's pace yet
        ({"resumed_at_step": 500}, [(0.5, 100.0), (0.6, 110.0)], 40.0),
    ],
)
def test_time_left(facts, records, left):
    screen = Screen(80, FACTS | facts)
    for number, (progress, seconds) in enumerate(records, 1):
        screen.view.step(step_record(number, progress=progress, seconds=seconds))
    assert screen.view.seconds_left() == (left if left is None else pytest.approx(left))


def test_it_is_drawn_at_most_four_times_a_second():
    screen = Screen(80)
    for step in range(1, 101):
        screen.now = step / 20  # five seconds in all
        screen.view.step(step_record(step))
    assert 15 <= screen.printed().count("learning") <= 20


def test_what_stays_is_one_or_two_lines_below_the_messages():
    screen = Screen(120)
    screen.view.message("chosen: two layers")
    screen.view.step(step_record(999))
    screen.view.evaluation(evaluation(999, 2.0, is_best=True))
    screen.view.step(step_record(1000, loss=2.25))
    screen.view.on_event({"event": "end"})
    screen.view.close()
    assert screen.printed().endswith(
        "trained for 1,000 steps, 4,096,000 tokens (1.25 epochs) in 5:00, training loss 2.2500\n"
        "best validation loss 2.0000, 0.7213 bits per byte, at step 999\n"
    )
    assert screen.file.getvalue().count("\x1b[?25h") == 1  # the cursor is back
    assert screen.printed().startswith("chosen: two layers\n")


def test_an_interrupted_training_gives_the_terminal_back():
    screen = Screen(120)
    screen.view.step(step_record(10))
    screen.view.close()
    assert "\x1b[?25h" in screen.file.getvalue()
    assert "stopped after 10 steps" in screen.printed()


def test_no_color_means_none():
    for environ, has_colour in (({}, True), ({"NO_COLOR": "1"}, False)):
        screen = Screen(80, environ=environ)
        screen.view.step(step_record(1))
        assert ("\x1b[36m" in screen.file.getvalue()) == has_colour


def test_without_a_terminal_only_messages_are_printed(capsys):
    view = View()
    view.on_event({"event": "begin", **FACTS})
    for step in range(1, 50):
        view.step(step_record(step))
    view.evaluation(evaluation(50, 2.0, is_best=True))
    view.sample({"step": 50, "text": "To be"})
    view.message("a line for people, which is longer than the eighty columns that rich takes a file to be wide")
    view.on_event({"event": "end"})
    view.close()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "a line for people, which is longer than the eighty columns that rich takes a file to be wide\n"
    )


def test_standard_output_stays_the_callers_own(capsys):
    screen = Screen(80)
    screen.view.step(step_record(1))
    print("a result")
    screen.view.close()
    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in screen.printed()


def test_a_terminal_that_went_away_does_not_end_the_training():
    screen = Screen(80)

    def fail(text: str) -> int:
        raise OSError(5, "Input/output error")

    screen.file.write = fail  # type: ignore[method-assign]
    screen.view.step(step_record(1))
    screen.view.message("unseen")
    screen.view.step(step_record(2))
    screen.view.on_event({"event": "end"})
    screen.view.close()


@pytest.mark.parametrize(
    ("values", "width", "expected"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8], 8, "▁▂▃▄▅▆▇█"),
        ([8, 4, 2, 1], 10, "█▄▂▁"),
        ([0, 2, 4, 6, 7, 7], 3, "▁▆█"),  # averages 1, 5, 7
        ([3, 3, 3], 5, "▁▁▁"),
        ([1, math.nan, 8, math.inf], 5, "▁ █ "),
        ([math.nan], 5, " "),
        ([], 5, ""),
        ([1, 2], 0, ""),
    ],
)
def test_sparklines(values, width, expected):
    assert sparkline(values, width) == expected


def test_a_sparkline_is_cut_at_its_ceiling():
    assert sparkline([100, 50, 8, 4, 1], 9, ceiling=8) == "███▄▁"


def test_a_curve_keeps_averages_of_equal_spans():
    curve = Curve()
    for value in range(3 * Curve.LIMIT):
        curve.append(value)
    assert curve.values == [4 * i + 1.5 for i in range(3 * Curve.LIMIT // 4)]
    curve = Curve()
    for value in [9.0, 3.0, 2.0, None, 1.0]:
        curve.append(value)
    assert curve.ceiling == 3.0


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (75, "1:15"), (3725, "1:02:05"), (360_000, "100:00:00")]
)
def test_times(seconds, text):
    assert clock_time(seconds) == text
