"""`chainrule compare`: every kind of model on your text, for the same time."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chainrule.cli import options
from chainrule.cli.flags import option
from chainrule.data.settings import Splitting
from chainrule.training.recipe import Recipe

if TYPE_CHECKING:
    from chainrule.analysis.compare.report import Report

PIPED = 180  # columns of what is not a terminal
GAP = 2  # between columns of the table


def command(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TEXT]...", help="Text to train on; a part of it is kept aside to measure on.", show_default=False
        ),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Models to compare, with settings (ngram:order=3,smoothing=katz), or existing runs; repeat the flag, "
            "or separate them by spaces. Default: every architecture, from unigrams to a Transformer.",
            show_default=False,
        ),
    ] = None,
    minutes: Annotated[float, typer.Option(help="Minutes for each model that is trained by gradient descent.")] = 1.0,
    test: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Measure on this text; default: the text kept aside.", show_default=False),
    ] = None,
    validation: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Use this text for validation, rather than a part of the training text."),
    ] = None,
    validation_fraction: Annotated[float | None, option(Splitting, "validation_fraction")] = None,
    split: Annotated[
        str,
        typer.Option(help="What to keep aside: documents (chosen by a hash of their content) or tail (the last part)."),
    ] = "documents",
    split_seed: Annotated[int, option(Splitting, "split_seed")] = 0,
    tokenizer: Annotated[
        str,
        typer.Option(
            help="One tokenizer for all models: bytes, characters, words, bpe (default), a run or a tokenizer.json."
        ),
    ] = "auto",
    vocabulary_size: Annotated[int | None, typer.Option(help="The largest vocabulary.")] = None,
    closed_vocabulary: Annotated[
        bool, typer.Option("--closed-vocabulary", help="Replace words outside the vocabulary by <unk>.")
    ] = False,
    unit: options.Unit = "auto",
    field: options.Field = "text",
    encoding: options.Encoding = "auto",
    delimiter: options.Delimiter = "auto",
    seed: Annotated[int, option(Recipe, "seed")] = 0,
    as_: Annotated[str | None, typer.Option("--as", metavar="FOLDER", help="The folder to write.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing comparison.")] = False,
    as_json: options.Json = False,
) -> None:
    """Train several models on your text, measure them on the same bytes, and tell which differences are significant."""
    from chainrule.analysis.compare.compare import Comparison, compare, default_path
    from chainrule.analysis.compare.entrants import read_entrants
    from chainrule.cli.output import print_json, say
    from chainrule.data.corpus import Reading
    from chainrule.text.choice import Tokenization

    asked = Comparison(
        inputs=tuple(inputs or []),
        entrants=tuple(read_entrants(_names(models or []))),
        minutes=minutes,
        test=tuple(test or []),
        validation=tuple(validation or []),
        reading=Reading(unit, field, encoding, delimiter),
        splitting=Splitting(validation_fraction, split, split_seed),
        seed=seed,
        tokenization=Tokenization(tokenizer, vocabulary_size, None, closed_vocabulary),
    )
    path = Path(as_) if as_ else default_path(asked.inputs)
    report = compare(asked, path, overwrite, say)
    if as_json:
        from chainrule.analysis.compare.report import facts

        print_json({"folder": str(path), **facts(report)})
    else:
        _print(report, path)


def _names(written: list[str]) -> list[str]:
    """Split names at spaces, unless they are the path of one run."""
    return [name for each in written for name in ([each] if Path(each).is_dir() else each.split())]


def _print(report: "Report", path: Path) -> None:
    import sys

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from chainrule.analysis.compare.table import cells, columns
    from chainrule.cli.output import print_notes, say
    from chainrule.progress import visible

    is_terminal = sys.stdout.isatty()
    console = Console(highlight=False, width=None if is_terminal else PIPED, soft_wrap=not is_terminal)
    names, rows = columns(report.table), [cells(row) for row in report.table.rows]
    widths = [
        max(map(len, [*name.split(), *column])) for name, column in zip(names, zip(*rows, strict=True), strict=True)
    ]
    shown = _count_fitting(widths, console.width)  # the report has all of them
    table = Table(box=None, padding=(0, GAP, 0, 0))
    for number, (name, width) in enumerate(zip(names[:shown], widths, strict=False)):
        table.add_column(name, justify="right" if number else "left", header_style="dim", min_width=width)
    for row in report.table.rows:
        best = row is report.table.rows[0]
        table.add_row(*map(Text, cells(row)[:shown]), style="bold" if best else "")
    console.print(table)
    console.print()
    for row in report.table.rows:
        sample = Text(f"{row.model}: {visible(row.sample[:100])}", style="dim", no_wrap=True, overflow="ellipsis")
        console.print(sample)
    for reason in report.table.left_out:
        say(f"left out: {reason}")
    print_notes(report.table.notes)
    for each in report.expectations:
        if report.table.can_tell and not each.is_met:
            found = f"{each.verdict} ({each.gain:+.4f} bits)" + (f"; {each.remark}" if each.remark else "")
            say(f"expected {each.better} below {each.worse} ({each.why}); {found}")
    console.print(Text(report.verdict, style="bold"))
    say(f"report: {path / 'report' / 'index.html'}")


def _count_fitting(widths: list[int], room: int) -> int:
    """How many columns of these widths fit side by side; the first two are always shown."""
    ends = [sum(widths[:count]) + GAP * count for count in range(len(widths) + 1)]
    return max(2, sum(end <= room for end in ends) - 1)
