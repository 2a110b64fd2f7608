"""From counting to GPT on one text: n-grams, an LSTM and a Transformer of Python's own documentation, side by side.

python examples/demo.py            what `make demo` runs: under three minutes
python examples/demo.py FILE.svg   the same, kept as a picture
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

import chainrule
from chainrule.api import TrainedRun
from chainrule.cli.options import let_threads_sleep
from chainrule.cli.output import visible

HOME = Path("runs") / "demo"
COUNTING = {"1-gram": {"order": 1}, "3-gram": {"order": 3}, "5-gram": {"order": 5}}
# Those that learn by gradient read characters: of so small a vocabulary, half a minute is enough to learn something.
LEARNING = {"lstm": "LSTM", "transformer": "Transformer"}
MINUTES = 0.5  # for each of them
PROMPT = "The value of the"
EXPLAINED = "New in version"


def main(picture: str | None = None) -> None:
    let_threads_sleep()
    console = Console(record=picture is not None, width=100 if picture else None, highlight=False)
    console.print("The text: [bold]builtin:python-docs[/bold], Python's own language reference.")
    shutil.rmtree(HOME, ignore_errors=True)
    runs = count_and_learn(console)
    console.print(comparison(runs))
    show_what_was_measured(console, next(iter(runs.values())))
    explain(console, HOME / "5-gram")
    show_next_steps(console)
    if picture:
        drawn = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="make demo"), flags=re.DOTALL)
        Path(picture).write_text(
            drawn.replace("Fira Code", "ui-monospace, DejaVu Sans Mono")
        )  # no fonts from elsewhere


def count_and_learn(console: Console) -> dict[str, TrainedRun]:
    """{name: run} of every rung, trained one after the other."""
    runs = {}
    console.print("\nCounting: 1-, 3- and 5-grams (the first time also compiles the counting loops, half a minute)")
    for name, settings in COUNTING.items():
        runs[name] = timed(console, name, model="ngram", **settings)
    console.print(f"\nLearning by gradient: {MINUTES * 60:.0f} seconds each")
    for model, name in LEARNING.items():
        runs[name] = timed(console, model, model=model, tokenizer="characters", minutes=MINUTES)
    return runs


def timed(console: Console, folder: str, **settings: object) -> TrainedRun:
    began = time.perf_counter()
    run = chainrule.train(path=HOME / folder, **settings)  # type: ignore[arg-type]
    console.print(f"  {HOME / folder} in {time.perf_counter() - began:.1f} s")
    return run


def comparison(runs: dict[str, TrainedRun]) -> Table:
    """One row a model: bits per byte on the text kept aside, its size, and how it continues the prompt."""
    table = Table("model", "tokens", "bits/byte", f"after '{PROMPT}'", padding=(0, 1, 1, 1), show_edge=False)
    for name, run in runs.items():
        measured = run.metrics[-1]
        length = 40 if run.tokenizer.kind == "words" else 140  # about the same number of letters
        sample = " ".join(run.sample(PROMPT, seed=11, max_tokens=length, temperature=0.7).split())
        table.add_row(
            name,
            run.tokenizer.kind,
            f"{measured['validation']['bits_per_byte']:.3f}",
            Text(visible(sample[len(PROMPT) :])),
        )
    return table


def show_what_was_measured(console: Console, run: TrainedRun) -> None:
    part = run.config["data"]["text"]["validation"]
    console.print(
        f"Lower is better. All were measured on the same {part['documents']} documents ({part['bytes']:,} bytes) that "
        "were kept aside; bits per byte compare models of any tokens. This text quotes itself, which favours counting, "
        "and half a minute is short for the others: docs/results has longer ones."
    )


def explain(console: Console, run: Path) -> None:
    """Why the 5-gram predicts what it does: the counts it has, order by order."""
    console.print(f"\n$ chainrule explain {run} '{EXPLAINED}'", markup=False)
    command = [sys.executable, "-m", "chainrule", "explain", str(run), EXPLAINED]
    environment = os.environ | {"COLUMNS": "110"}  # so that no context is cut short
    shown = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout
    for line in shown.splitlines():
        console.print(Text(line.rstrip()), soft_wrap=True)


def show_next_steps(console: Console) -> None:
    console.print(f"\nThe page, with all of them in it; first: [bold]source {activation()}[/bold]")
    shown = " ".join(str(HOME / name) for name in ("5-gram", *LEARNING))
    console.print(f"  chainrule serve {shown}", soft_wrap=True)
    console.print("\nYour own text:")
    for command, what in (
        ("chainrule train YOUR.txt", "count it, in seconds → runs/YOUR"),
        ("chainrule train YOUR.txt --minutes 5 --as runs/five", "the best model that five minutes can buy"),
        ("chainrule compare YOUR.txt", "every kind of model, a minute each"),
        ("chainrule sample runs/YOUR --prompt The", "text from it"),
    ):
        console.print(f"  {command:<54} {what}", soft_wrap=True)


def activation() -> Path:
    """The script that puts `chainrule` on the path, from here if it is below this folder."""
    path = Path(sys.prefix) / "bin" / "activate"
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


if __name__ == "__main__":
    main(*sys.argv[1:])
