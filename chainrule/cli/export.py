"""`chainrule export`: a run in a format that other programs read."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chainrule.cli import completion, options
from chainrule.interop.base import FULL_PRECISION, all_formats, exporters

if TYPE_CHECKING:
    from chainrule.interop.export import Exported


def _list_formats() -> str:
    known = [f"{each.name} ({each.description})" for each in all_formats() if each.exporter is not None]
    return f"{', '.join(known)}."


def command(
    run: options.RunPath,
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT", help=_list_formats(), autocompletion=completion.complete(completion.format_names)
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file or folder to write; for ARPA, - is standard output and .gz compresses.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[
        str, typer.Option(help="The type of weights in GGUF: f32, f16, or q8_0 (8 bits).")
    ] = FULL_PRECISION,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier export.")] = False,
    as_json: options.Json = False,
) -> None:
    """Export a run for other programs; networks are read back by these, and their logits compared."""
    from chainrule.interop.export import export_run
    from chainrule.runs.folder import Run

    _report(export_run(Run(run), to, output, dtype, overwrite), as_json)


def _report(facts: "Exported", as_json: bool) -> None:
    from chainrule.cli.output import print_json, print_notes, say, size

    if as_json:
        print_json(facts)
        return
    path = Path(facts["path"])
    if path.is_file() or path.is_dir():
        print(path)
        say("; ".join(filter(None, [size(facts["bytes"]), exporters()[facts["format"]].read_by])))
    for check in facts.get("checks", []):
        say(str(check["sentence"]))
    print_notes(facts["notes"])
