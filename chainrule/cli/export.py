"""`chainrule export`: a run in a format that other programs read."""

from pathlib import Path
from typing import Annotated

import typer

from chainrule.cli import options


def command(
    run: options.RunPath,
    to: Annotated[str, typer.Option(help="The format: arpa.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The file to write, - for standard output; .gz compresses it.", show_default=False
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace that file if it exists.")] = False,
    as_json: options.Json = False,
) -> None:
    """Write a run in another program's format."""
    from chainrule.cli.output import print_json, print_notes, say, size
    from chainrule.errors import UserError, did_you_mean
    from chainrule.interop.arpa import write_arpa
    from chainrule.runs.folder import Run

    if to.lower() != "arpa":
        raise UserError(f"unknown format '{to}'{did_you_mean(to, ['arpa'])} (there are: arpa)")
    loaded = Run(run)
    if loaded.architecture != "ngram":
        raise UserError(f"'{loaded.path}' is a model of kind {loaded.architecture}; ARPA files hold n-gram models only")
    path = output or Path(f"{loaded.name}.arpa")
    if str(path) == "-":
        path = Path("/dev/stdout")
    if path.is_file() and not overwrite:
        raise UserError(f"'{path}' exists already; choose another name with -o, or pass --overwrite")
    if path.suffix in (".zst", ".bz2", ".xz", ".zip"):
        raise UserError(f"only .gz is compressed, got '{path}'; choose a name that ends in .arpa or .arpa.gz")
    notes = write_arpa(loaded.model, loaded.tokenizer, path)  # type: ignore[arg-type]
    if as_json:
        print_json(
            {"run": str(loaded.path), "format": to, "path": str(path), "bytes": path.stat().st_size, "notes": notes}
        )
    elif not path.is_file():
        print_notes(notes)
    else:
        print(path)
        say(f"{size(path.stat().st_size)}; KenLM, SRILM and Sphinx read it")
        print_notes(notes)
