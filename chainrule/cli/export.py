"""`chainrule export`: a run in a format that other programs read."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chainrule.cli import options

if TYPE_CHECKING:
    from chainrule.interop.export import Exported


def command(
    run: options.RunPath,
    to: Annotated[
        str,
        typer.Option(
            help="huggingface (a folder), gguf (for llama.cpp), onnx (a folder), or arpa (n-grams, for KenLM)."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file or folder to write; of ARPA, - is standard output and .gz compresses it.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[str, typer.Option(help="Of weights in GGUF: f32, f16, or q8_0 (8 bits).")] = "f32",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there if it was exported.")] = False,
    as_json: options.Json = False,
) -> None:
    """Write a run in another program's format; models that learn are read back there, and logits compared."""
    from chainrule.errors import UserError
    from chainrule.interop.export import DTYPES, FORMATS, export_run
    from chainrule.runs.folder import Run

    if dtype.lower() in DTYPES[1:] and to.lower() in FORMATS and to.lower() != "gguf":
        raise UserError(f"--dtype {dtype.lower()} is for --to gguf; {to.lower()} keeps all 32 bits")
    _report(export_run(Run(run), to, output, dtype, overwrite), as_json)


def _report(result: "Exported", as_json: bool) -> None:
    from chainrule.cli.output import print_json, print_notes, say, size

    if as_json:
        print_json(result)
        return
    path = Path(result["path"])
    if path.is_file() or path.is_dir():
        print(path)
        say(f"{size(result['bytes'])}; {READ_BY[result['format']]}")
    for check in result.get("checks", []):
        say(str(check["sentence"]))
    print_notes(result["notes"])


READ_BY = {
    "arpa": "KenLM, SRILM and Sphinx read it",
    "huggingface": "transformers reads it: AutoModelForCausalLM.from_pretrained, AutoTokenizer.from_pretrained",
    "gguf": "llama.cpp and all that rests on it read it",
    "onnx": "onnxruntime reads it",
}
