"""`chainrule tag`: a tag for every word of a text."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainrule.cli import options

if TYPE_CHECKING:
    from chainrule.data.conllu import Sentence
    from chainrule.data.settings import Reading
    from chainrule.runs.folder import Run

WIDEST_MATRIX = 140  # characters, where there is no screen that says how wide it is


def command(
    run: options.RunPath,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|TEXT",
            help="CoNLL-U, or plain text with one sentence per line; a sentence; default: standard input.",
            show_default=False,
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="The output: conllu, or words (word/TAG); default: conllu if the input is CoNLL-U, else words.",
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(help="Which tags to write as word/TAG: upos or xpos; default: the first that the run has."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Tag the words of a text with a run trained by chainrule train --task tagging."""
    options.let_threads_sleep()
    from chainrule.api.tagging import load_tagger_run
    from chainrule.checks import require_choice
    from chainrule.cli.output import print_json, show_text
    from chainrule.data import conllu
    from chainrule.errors import UserError
    from chainrule.tasks.tagging import slashed

    if form is not None:
        require_choice("--format", form, ("conllu", "words"))
    tagger = load_tagger_run(run)
    column = column or tagger.columns[0]
    require_choice("--column", column, tagger.columns)
    texts = [text for given in inputs or ["-"] for text in _read(given)]
    is_raw = not any(conllu.is_conllu(text) for text, _ in texts)
    sentences = [each for text, name in texts for each in (_raw(text) if is_raw else conllu.parse(text, name))]
    if not sentences:
        raise UserError(f"there are no words to tag in {', '.join(name for _, name in texts)}")
    words = [sentence.words for sentence in sentences]
    if as_json:
        print_json(tagger.tag_words(words))
        return
    found = tagger.task.tagger(tagger.run.model).tag(words)
    if (form or ("words" if is_raw else "conllu")) == "conllu":
        filled = [sentence.with_columns(tags) for sentence, tags in zip(sentences, found, strict=True)]
        show_text(conllu.write(filled) + ("\n" if is_raw else ""))
    else:
        show_text("".join(f"{slashed(each, tags[column])}\n" for each, tags in zip(words, found, strict=True)))


def _read(given: str) -> list[tuple[str, str]]:
    """The texts that an argument stands for, and what to call them."""
    from chainrule.data.conllu import read_text
    from chainrule.data.sources import expand, is_sentence

    if is_sentence(given):
        return [(given, "the sentence")]
    return [(read_text(source), source.name) for source in expand([given])]


def _raw(text: str) -> "list[Sentence]":
    """The sentences of a raw text, which has one a line."""
    from chainrule.data.conllu import make_sentence
    from chainrule.tagging.words import cut_words

    lines = [line.strip() for line in text.splitlines()]
    cut = [(line, *cut_words(line)) for line in lines]
    return [make_sentence(words, spaced, line) for line, words, spaced in cut if words]


def evaluate(run: "Run", inputs: list[str] | None, reading: "Reading", as_json: bool) -> None:
    """What `chainrule evaluate` prints of a tagger: accuracies, beside those of simple taggers."""
    from chainrule.api.tagging import load_tagger_run
    from chainrule.cli.output import print_json, print_notes

    result = load_tagger_run(run.path).evaluate(inputs or None, reading.encoding)
    if as_json:
        print_json(result)
        return
    _report(result)
    print_notes(result["notes"])


def _report(result: dict[str, Any]) -> None:
    import sys
    from shutil import get_terminal_size

    from chainrule.cli.output import plural, print_table

    print(f"{plural(result['sentences'], 'sentence')}, {plural(result['words'], 'word')}")
    rows = []
    names = list(dict.fromkeys(baseline for found in result["columns"].values() for baseline in found["beside"]))
    for name, found in result["columns"].items():
        unseen = f"{name} of {found['unseen']['words']:,} unseen words"
        beside = [found["beside"].get(each, {}) for each in names]
        rows.append([name, _percent(found["accuracy"]), *[_percent(each.get("accuracy")) for each in beside]])
        rows.append(
            [unseen, _percent(found["unseen"]["accuracy"]), *[_percent(each.get("unseen_accuracy")) for each in beside]]
        )
    print_table(["accuracy, %", "tagger", *names], rows)
    for name, found in result["columns"].items():
        print()
        print_table([name, "words", "precision", "recall", "F1"], map(_tag_row, found["by_tag"]))
        matrix = _matrix(**found["confusion"])
        if len(matrix[0]) <= (get_terminal_size().columns if sys.stdout.isatty() else WIDEST_MATRIX):
            print("", *matrix, "", sep="\n")
        for right, guess, count in found["mistakes"]:
            print(f"{right} was tagged as {guess} {plural(count, 'time')}")


def _tag_row(each: "dict[str, Any]") -> list[str]:
    return [each["tag"], f"{each['words']:,}", *[_percent(each[name]) for name in ("precision", "recall", "f1")]]


def _matrix(tags: list[str], counts: list[list[int]]) -> list[str]:
    """A line for each right tag, and in it a column for each that was given."""
    cells = [["right ↓ given →", *tags]]
    cells += [[tag, *[str(count) if count else "·" for count in row]] for tag, row in zip(tags, counts, strict=True)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rows = [zip(row, widths, strict=True) for row in cells]
    return [
        " ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(row)) for row in rows
    ]


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f}"
