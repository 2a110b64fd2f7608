"""`chainrule translate`: a text out of each line that is read."""

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from chainrule.cli import options
from chainrule.cli.flags import option
from chainrule.generation.settings import Beam

if TYPE_CHECKING:
    from chainrule.api.pairs import Translation
    from chainrule.data.settings import Reading
    from chainrule.evaluation.figures import Evaluation
    from chainrule.runs.folder import Run


def command(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run of chainrule train --task translation or summarisation.")
    ],
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|TEXT", help="A file of one text per line, plain or .gz; a sentence; - is standard input."
        ),
    ] = "-",
    beam: Annotated[int, option(Beam, "width")] = 5,
    length_penalty: Annotated[float, option(Beam, "length_penalty")] = 1.0,
    max_tokens: Annotated[int, option(Beam, "max_tokens")] = 200,
    n_best: Annotated[
        int,
        option(
            Beam,
            "samples",
            "--n-best",
            help="Write this many texts per line: number, score and text, separated by tabs.",
        ),
    ] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Write the score and a tab before each text.")] = False,
    alignments: Annotated[
        bool,
        typer.Option("--alignments", help="Write a tab and the word alignment after each text: 0-0 1-2, source first."),
    ] = False,
    reference: Annotated[
        str | None, typer.Option(metavar="FILE", help="Reference translations, to measure BLEU and chrF.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="With --reference: test whether the difference from this run is significant."),
    ] = None,
    truncate: Annotated[
        bool, option(Beam, "truncate", help="Read only the beginning of a line that is too long.")
    ] = False,
    encoding: options.Encoding = "auto",
    as_json: options.Json = False,
) -> None:
    """Translate or summarise a text line by line."""
    options.let_threads_sleep()
    from chainrule.api.pairs import load_pairs_run
    from chainrule.cli.output import print_json
    from chainrule.data.pairs import read_lines
    from chainrule.data.sources import is_sentence
    from chainrule.errors import UserError
    from chainrule.evaluation import bleu

    if against is not None and reference is None:
        raise UserError("--against compares the translations of two runs; give the reference with --reference FILE")
    if not 1 <= n_best <= max(beam, 1):
        raise UserError(f"--n-best must be from 1 to the width of the beam, which is {beam}, got {n_best}")
    loaded = load_pairs_run(run)
    other = None if against is None else load_pairs_run(against)
    search = Beam(beam, length_penalty, max_tokens, n_best, truncate)
    lines = source.splitlines() if is_sentence(source) else read_lines(source, encoding)
    references = None if reference is None else read_lines(reference, encoding)
    if references is not None:
        bleu.check_measurable()
        if len(references) != len(lines):
            raise UserError(f"there are {len(lines):,} sources but {len(references):,} lines in '{reference}'")
    written = loaded.search(lines, search, alignments)
    measured = None
    if references is not None:
        others = None if other is None else [each[0].text for each in other.search(lines, search)]
        measured = loaded.measure([each[0].text for each in written], references, others)
    if as_json:
        print_json({"run": run, "lines": _as_json(lines, written), **({"measured": measured} if measured else {})})
        return
    _print(written, has_numbers=n_best > 1, has_scores=scores or n_best > 1)
    if measured:
        _say(measured)


def evaluate(run: "Run", inputs: list[str] | None, reading: "Reading", as_json: bool) -> None:
    """What `chainrule evaluate` prints of such a run: loss, and how near its translations come to the right ones."""
    from chainrule.api.pairs import load_pairs_run
    from chainrule.cli.output import print_json, print_notes
    from chainrule.cli.train import describe_validation

    measured = load_pairs_run(run.path).evaluate(inputs or None, reading.encoding, reading.delimiter)
    if as_json:
        print_json(measured)
        return
    print(describe_validation(cast("Evaluation", measured)))
    print_notes(measured["notes"])


def _print(written: "list[list[Translation]]", has_numbers: bool, has_scores: bool) -> None:
    """A line for each text, its columns separated by tabs."""
    from chainrule.cli.output import show_text

    for number, texts in enumerate(written, start=1):
        for each in texts:
            columns = [f"{number}"] * has_numbers + [f"{each.score or 0.0:.4f}"] * has_scores + [each.text]
            columns += [] if each.alignment is None else [each.alignment]
            show_text("\t".join(columns), end="\n")


def _as_json(lines: list[str], written: "list[list[Translation]]") -> list[dict[str, object]]:
    return [
        {"source": line, "texts": [_describe(each) for each in texts]}
        for line, texts in zip(lines, written, strict=True)
    ]


def _describe(found: "Translation") -> dict[str, object]:
    described: dict[str, object] = {"text": found.text, "score": found.score}
    return described if found.alignment is None else described | {"alignment": found.alignment}


def _say(measured: dict[str, Any]) -> None:
    from chainrule.cli.output import say

    say(f"BLEU {measured['bleu']:.2f}  {measured['bleu_signature']}")
    say(f"chrF {measured['chrf']:.2f}  {measured['chrf_signature']}")
    for each in measured.get("against", []):
        verdict = "significant" if each["p_value"] < 0.05 else "not significant"
        say(f"{each['metric']}: {each['score']:.2f} against {each['other']:.2f}, p = {each['p_value']:.4f}: {verdict}")
