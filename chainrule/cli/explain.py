"""`chainrule explain`: why a model predicts what it does."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from chainrule.cli import options

if TYPE_CHECKING:
    from chainrule.analysis.explain.explanation import Explanation

MOST_TOP = 1000
MOST_WORDS = 100  # of a sentence whose tags are explained


def command(
    run: options.RunPath,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="The text before the prediction; - reads it from standard input.")
    ],
    token: Annotated[
        str | None, typer.Option(help="The token to explain; default: the most likely one.", show_default=False)
    ] = None,
    top: Annotated[int, typer.Option(help="How many of the most likely tokens to show.")] = 12,
    temperature: Annotated[float, typer.Option(help="Also show the distribution at this temperature.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Also show it with only the k most likely tokens (0: all).")] = 0,
    top_p: Annotated[
        float, typer.Option(help="Also show it with only the most likely tokens that together have this probability.")
    ] = 1.0,
    min_p: Annotated[
        float, typer.Option(help="Also show it with only tokens at least this likely relative to the most likely one.")
    ] = 0.0,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write the explanation as an HTML page, with heat maps.", show_default=False
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    faces: Annotated[int | None, typer.Option(hidden=True, help="The former name of --top.")] = None,
    as_json: options.Json = False,
) -> None:
    """Explain a prediction: the distribution, the surprisal, which tokens mattered, and what the model did inside."""
    options.let_threads_sleep()
    from chainrule.api import load
    from chainrule.cli.output import print_json, print_notes, say
    from chainrule.cli.standard_input import read_standard_input
    from chainrule.errors import UserError
    from chainrule.runs.folder import Run

    top = top if faces is None else faces
    if not 1 <= top <= MOST_TOP:
        raise UserError(f"--top must be from 1 to {MOST_TOP}, got {top}")
    if html is not None and html.exists() and not overwrite:
        raise UserError(f"'{html}' exists already; choose another name, or pass --overwrite")
    text = read_standard_input() if text == "-" else text
    opened = Run(run, task=None)
    if opened.task == "tagging":
        if html is not None:
            raise UserError(f"--html is not available for taggers such as '{run}'; leave it out, or pass --json")
        _explain_tags(run, text, as_json)
        return
    if not opened.is_language_model:
        _explain_pair(run, text, html, as_json)
        return
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    found = load(run, "language").explain(text, token, top=top, **sampling)
    if html is not None:
        _write(html, found.html())
    if as_json:
        print_json(found.to_json())
        return
    _report(found)
    print_notes(found.notes)
    say(f"page: {html}" if html else "for a page with heat maps, pass --html FILE.html")


def _write(file: Path, page: str) -> None:
    from chainrule.errors import UserError

    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write '{file}': {error.strerror}") from None


def _explain_pair(run: str, text: str, html: Path | None, as_json: bool) -> None:
    """Explain a run that writes one text from another: where each of its words came from."""
    from chainrule.analysis.explain.alignment import ReadsSource, explain_translation
    from chainrule.analysis.explain.translation_page import page
    from chainrule.api.pairs import load_pairs_run
    from chainrule.cli.output import print_json, print_table, say
    from chainrule.progress import visible_token

    loaded = load_pairs_run(run)
    found = explain_translation(loaded.task, cast(ReadsSource, loaded.model), text)
    if html is not None:
        _write(html, page(found))
    if as_json:
        print_json(found.to_json())
        return
    print(found.text)
    looked = found.attribution if found.attention is None else found.attention
    rows = []
    for token, probability, weights, parts in zip(
        found.target, found.probabilities, looked, found.attribution, strict=True
    ):
        at, by = int(weights.argmax()), int(parts.argmax())
        looks = visible_token(found.source[at]), f"{weights[at]:.2f}"
        owes = visible_token(found.source[by]), f"{parts[by]:+.2f}"
        rows.append((visible_token(token), f"{probability:.3f}", *looks, *owes))
    print_table(("word", "probability", "attends to", "weight", "depends on", "nats"), rows)
    say(f"page: {html}" if html else "for a page with the alignment and the beam, pass --html FILE.html")


def _explain_tags(run: str, text: str, as_json: bool) -> None:
    """Explain a tagger: how probable each tag is, and which words and letters it depends on."""
    from chainrule.cli.output import print_json, print_table
    from chainrule.errors import UserError
    from chainrule.runs.folder import Run
    from chainrule.tagging.reasons import explain
    from chainrule.tagging.words import cut_words
    from chainrule.tasks.tagging import Task

    loaded = Run(run, task="tagging")
    words = cut_words(text)[0]
    if not 1 <= len(words) <= MOST_WORDS:
        raise UserError(f"give one sentence of 1 to {MOST_WORDS} words to explain, got {len(words)} words")
    task = Task(loaded.path)
    found = explain(task.tagger(loaded.model), words, task.tagset.columns[0])
    if as_json:
        print_json([vars(each) for each in found])
        return
    rows = []
    for place, each in enumerate(found):
        own = max(each.own, key=each.own.__getitem__)
        others = [(lost, word) for at, (lost, word) in enumerate(zip(each.words, words, strict=True)) if at != place]
        lost, other = max(others, default=(0.0, "–"))
        tags = ", ".join(f"{tag} {probability:.3f}" for tag, probability in each.tags)
        rows.append((each.word, tags, own, other, f"{each.own[own]:+.2f}", f"{lost:+.2f}"))
    print_table(("word", "tags", "feature", "other word", "nats", "nats"), rows, left=4)


def _report(found: "Explanation") -> None:
    import sys

    from rich.console import Console

    from chainrule.analysis.explain.terminal import sections

    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    for section in sections(found):
        console.print(section)
