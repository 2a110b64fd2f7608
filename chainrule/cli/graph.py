"""`chainrule graph`: the computation graph of a model, drawn."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chainrule import registry
from chainrule.cli import options
from chainrule.cli.output import print_json, say
from chainrule.errors import UserError

if TYPE_CHECKING:
    from chainrule.tape.graph import Node

UNROLLED = registry.table_names("chainrule.tape.unrolled", "UNROLLED")
OTHERS = [name for name in registry.table_names("chainrule.tape.models", "MODELS") if name not in UNROLLED]
LENGTHS = (1, 2, 4, 8, 12, 16, 24, 32)  # of texts whose nodes are counted


def command(
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"{', '.join(UNROLLED)} (unrolled word by word), {', '.join(OTHERS)} (as trained).",
        ),
    ] = "elman",
    length: Annotated[int, typer.Option(help="The length of the text, in words.")] = 8,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="An .svg, .dot or .json file; default: MODEL-LENGTH.svg.")
    ] = None,
    growth: Annotated[
        Path | None, typer.Option(help="Also plot the number of nodes against the length, as .png or .svg.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
    as_json: options.Json = False,
) -> None:
    """Draw the computation graph of a model on Chainrule's own autodiff tape, and count its nodes."""
    from collections import Counter

    from chainrule.analysis.explain.computation import computation
    from chainrule.tape.graph import to_dot, to_svg
    from chainrule.tape.unrolled import count_nodes

    if not 1 <= length <= 64:
        raise UserError(f"--length must be from 1 to 64 words, got {length}")
    file = output or Path(f"{model}-{length}.svg")
    draw = {".svg": to_svg, ".dot": to_dot, ".json": _to_json}.get(file.suffix)
    if draw is None:
        raise UserError(f"--output must end in .svg, .dot or .json, got '{file}'")
    if growth and growth.suffix not in (".png", ".svg"):
        raise UserError(f"--growth must end in .png or .svg, got '{growth}'")
    for each in filter(None, (file, growth)):
        if each.exists() and not overwrite:
            raise UserError(f"'{each}' exists already; choose another name, or pass --overwrite")
    nodes = computation(model, length)
    _write(file, lambda: file.write_text(draw(nodes), encoding="utf-8"))
    modules = Counter(node.name for node in nodes if node.kind == "module")
    counts = {name: {str(each): count_nodes(name, each) for each in LENGTHS} for name in UNROLLED}
    if growth:
        _plot(counts, growth)
    if as_json:
        print_json({"file": str(file), "modules": dict(modules), "nodes": sum(modules.values()), "growth": counts})
        return
    listed = ", ".join(f"{count} {name}" for name, count in modules.most_common())
    say(f"{model} on {length} words: {sum(modules.values())} modules ({listed}), drawn in {file}")
    for name, found in counts.items():
        say(f"{name}, modules by length: {', '.join(f'{each}: {count}' for each, count in found.items())}")


def _to_json(nodes: "list[Node]") -> str:
    import json

    return json.dumps([node.as_dict() for node in nodes], indent=1) + "\n"


def _plot(counts: dict[str, dict[str, int]], file: Path) -> None:
    import numpy as np

    from chainrule.plotting import BLUE, ORANGE, draw_line, make_axes, name_lines, styled, to_png, to_svg

    with styled():
        figure, axes = make_axes("Nodes on the tape", "words")
        for (name, found), colour in zip(counts.items(), (BLUE, ORANGE), strict=True):
            words, nodes = np.array(list(map(int, found))), np.array(list(found.values()))
            draw_line(axes, words, nodes, name, color=colour, marker="o")
        name_lines(axes)
        picture = (to_svg if file.suffix == ".svg" else to_png)(figure)
    _write(file, lambda: file.write_bytes(picture))


def _write(file: Path, write: Callable[[], object]) -> None:
    try:
        write()
    except (OSError, ValueError) as error:
        raise UserError(f"cannot write '{file}' ({error}); choose another name") from None
