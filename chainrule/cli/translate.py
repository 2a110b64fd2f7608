"""`chainrule translate`: a text out of each line that is read."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainrule.cli import options

if TYPE_CHECKING:
    pass


def command(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run of chainrule train --task translation or summarisation.")
    ],
    source: Annotated[
        str, typer.Argument(metavar="[FILE]", help="One source a line, plain or .gz; - is standard input.")
    ] = "-",
    beam: Annotated[int, typer.Option(help="How many beginnings are kept; 1 is greedy.")] = 5,
    length_penalty: Annotated[float, typer.Option(help="Above 0 favours long texts.")] = 1.0,
    max_tokens: Annotated[int, typer.Option(help="Stop after so many tokens.")] = 200,
    n_best: Annotated[int, typer.Option(help="So many texts of each line: its number, score and text, by tabs.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="The score before each text, and a tab.")] = False,
    alignments: Annotated[
        bool,
        typer.Option(
            "--alignments", help="After each text, a tab and which words came from which: 0-0 1-2, source first."
        ),
    ] = False,
    reference: Annotated[
        str | None, typer.Option(metavar="FILE", help="The right texts: BLEU and chrF are measured against them.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="RUN", help="With --reference: is the difference from this run real?")
    ] = None,
    truncate: Annotated[
        bool, typer.Option("--truncate", help="Read only the beginning of a line that is too long.")
    ] = False,
    encoding: options.Encoding = "auto",
    as_json: options.Json = False,
) -> None:
    """Translate, or summarise: line by line, from standard input to standard output."""
    options.let_threads_sleep()
    from chainrule.cli.output import print_json, show_text
    from chainrule.data.pairs import read_lines
    from chainrule.errors import UserError
    from chainrule.evaluation import bleu
    from chainrule.generation.beam import Beam
    from chainrule.tasks._pair_run import load_pairs_run

    if against is not None and reference is None:
        raise UserError("--against compares two runs by their translations; give the right ones with --reference FILE")
    if not 1 <= n_best <= max(beam, 1):
        raise UserError(f"--n-best must be from 1 to the width of the beam, which is {beam}, got {n_best}")
    loaded = load_pairs_run(run)
    other = None if against is None else load_pairs_run(against)
    search = Beam(beam, length_penalty, max_tokens, n_best, truncate)
    lines = read_lines(source, encoding)
    references = None if reference is None else read_lines(reference, encoding)
    if references is not None and len(references) != len(lines):
        raise UserError(f"there are {len(lines):,} sources but {len(references):,} lines in '{reference}'")
    if references is not None:
        bleu.check_measurable()
    written = _write(loaded, lines, search)
    links = [_links(loaded, line, each) for line, each in zip(lines, written, strict=True)] if alignments else None
    measured = None
    if references is not None:
        others = None if other is None else [each.texts[0] for each in _write(other, lines, search)]
        measured = _measure([each.texts[0] for each in written], others, references, loaded.task.settings.lowercase)
    if as_json:
        print_json(
            {"run": run, "lines": _as_json(lines, written, links), **({"measured": measured} if measured else {})}
        )
        return
    for number, each in enumerate(written):
        for rank, text in enumerate(each.texts):
            score = each.found[rank].score if each.found else 0.0
            columns = [f"{number + 1}"] * (n_best > 1) + [f"{score:.4f}"] * (scores or n_best > 1) + [text]
            columns += [links[number][rank]] if links is not None else []
            show_text("\t".join(columns), end="\n")
    if measured:
        _say(measured)


def evaluate(run: Any, inputs: list[str] | None, encoding: str, as_json: bool) -> None:
    """What `chainrule evaluate` says of such a run: loss, and how near its translations come to the right ones."""
    from chainrule.cli.output import print_json, print_notes
    from chainrule.cli.train import describe_validation
    from chainrule.errors import UserError
    from chainrule.tasks._pair_run import load_pairs_run

    task = load_pairs_run(run.path).task
    pairs, notes = task.read(inputs, encoding) if inputs else (task.held_out, [])
    if not len(pairs):
        raise UserError(f"'{run.path}' has no pair kept aside; name some: chainrule evaluate {run.path} PAIRS.tsv")
    measured = task.evaluate_on(run.model, pairs)
    if as_json:
        print_json({"run": str(run.path), "inputs": inputs or ["validation"], **measured, "notes": notes})
        return
    print(describe_validation(measured))
    print_notes(notes)


def _write(loaded: Any, lines: list[str], search: Any) -> Any:
    from chainrule.progress import progress

    with progress("translating", sum(bool(line.strip()) for line in lines), "lines") as advance:
        return loaded.task.write(loaded.model, lines, search, search.truncate, advance)


def _links(loaded: Any, line: str, written: Any) -> list[str]:
    from chainrule.analysis.explain.alignment import link_words

    return [link_words(loaded.task, loaded.model, line, text) for text in written.texts]


def _as_json(lines: list[str], written: Any, links: Any) -> list[dict[str, Any]]:
    return [
        {
            "source": line,
            "texts": [
                {
                    "text": text,
                    "score": each.found[rank].score if each.found else None,
                    **({"alignment": links[number][rank]} if links else {}),
                }
                for rank, text in enumerate(each.texts)
            ],
        }
        for number, (line, each) in enumerate(zip(lines, written, strict=True))
    ]


def _measure(texts: list[str], others: list[str] | None, references: list[str], lowercase: bool) -> dict[str, Any]:
    from dataclasses import asdict

    from chainrule.evaluation import bleu

    measured = asdict(bleu.measure(texts, references, lowercase))
    if others is not None:
        measured["against"] = [asdict(each) for each in bleu.compare(texts, others, references, lowercase)]
    return measured


def _say(measured: dict[str, Any]) -> None:
    from chainrule.cli.output import say

    say(f"BLEU {measured['bleu']:.2f}  {measured['bleu_signature']}")
    say(f"chrF {measured['chrf']:.2f}  {measured['chrf_signature']}")
    for each in measured.get("against", []):
        verdict = "real" if each["p_value"] < 0.05 else "may be chance"
        say(f"{each['metric']}: {each['score']:.2f} against {each['other']:.2f}, p = {each['p_value']:.4f}: {verdict}")
