"""`chainrule evaluate`: how well a model predicts a text."""

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from chainrule.cli import options
from chainrule.cli.output import number

if TYPE_CHECKING:
    from chainrule.data.settings import Reading
    from chainrule.evaluation.figures import Evaluation
    from chainrule.evaluation.seen import Seen
    from chainrule.evaluation.text import Against, DocumentFigures
    from chainrule.runs.folder import Run


def command(
    run: options.RunPath,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT", help="The text to measure on; default: the run's validation text.", show_default=False
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="RUN", help="Test whether the difference from this run is significant.")
    ] = None,
    worst: Annotated[int, typer.Option(help="How many of the worst-predicted passages to show.")] = 3,
    documents: Annotated[bool, typer.Option("--documents", help="Also print the figures of every document.")] = False,
    csv: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the figures of every document as a table; - for standard output."),
    ] = None,
    unit: options.Unit = "auto",
    field: options.Field = "text",
    encoding: options.Encoding = "auto",
    delimiter: options.Delimiter = "auto",
    quantize: options.Quantize = None,
    as_json: options.Json = False,
) -> None:
    """Measure a run on a text: bits per byte, perplexity, hard passages; taggers by accuracy, translators by BLEU, and
    runs of conversations by their answers, or by which of two they prefer."""
    from chainrule.api import load
    from chainrule.api.conversations import holds_conversations
    from chainrule.cli.output import print_json
    from chainrule.data.settings import Reading
    from chainrule.errors import UserError
    from chainrule.evaluation.text import MOST_PASSAGES
    from chainrule.runs.folder import Run

    if not 0 <= worst <= MOST_PASSAGES:
        raise UserError(f"--worst must be from 0 to {MOST_PASSAGES}, got {worst}")
    opened = Run(run, task=None)
    is_of_conversations = holds_conversations(opened, inputs) and field == "text"
    if is_of_conversations or not opened.is_language_model:
        asked = {
            "--against": against,
            "--documents": documents,
            "--csv": csv,
            "--unit": unit != "auto",
            "--quantize": quantize,
        }
        reading = Reading(field=field, encoding=encoding, delimiter=delimiter)
        measure = _evaluate_conversations if is_of_conversations else _evaluate_task
        measure(opened, inputs, [flag for flag, value in asked.items() if value], reading, as_json)
        return
    loaded = load(run, "language")
    if quantize:
        options.quantize(loaded, quantize)
    settings: dict[str, object] = {"unit": unit, "field": field, "encoding": encoding, "delimiter": delimiter}
    text = loaded.open_text(inputs or None, settings)
    result: dict[str, Any] = {"run": str(loaded.path), "inputs": inputs or ["validation"], "unit": text.unit}
    result |= {"worst_passages": [], **loaded.evaluate_text(text, worst, documents or csv is not None, against)}
    if csv is not None:
        _write_csv(result["per_document"] if documents else result.pop("per_document"), csv)
    if csv == "-":
        return
    if as_json:
        print_json(result)
    else:
        _report(result, loaded.tokenizer.is_closed)


def _write_csv(figures: "list[DocumentFigures]", name: str) -> None:
    """The figures of every document as a table with a header; a figure that is not given is an empty field."""
    import csv
    import sys
    from contextlib import nullcontext

    from chainrule.errors import UserError

    try:
        with nullcontext(sys.stdout) if name == "-" else open(name, "w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, list(figures[0]), lineterminator="\n")
            table.writeheader()
            table.writerows(figures)
    except OSError as error:
        raise UserError(f"cannot write '{name}': {error.strerror}") from None


def _evaluate_task(run: "Run", inputs: list[str] | None, flags: list[str], reading: "Reading", as_json: bool) -> None:
    """Measure a run of another task by the module of the command that uses such runs."""
    import importlib

    from chainrule.errors import UserError
    from chainrule.tasks.base import find_task

    name = find_task(run.task).command
    module = importlib.import_module(f"chainrule.cli.{name}")
    if flags:
        raise UserError(
            f"{', '.join(flags)}: only for language models, and '{run.path}' is a run for {run.task}; leave it out"
        )
    module.evaluate(run, inputs, reading, as_json)


def _evaluate_conversations(
    run: "Run", inputs: list[str] | None, flags: list[str], reading: "Reading", as_json: bool
) -> None:
    """Measure a run of conversations on conversations, or one of preferences on pairs of answers."""
    from chainrule.api import load
    from chainrule.api.preferences import PREFERENCES
    from chainrule.cli.output import print_json, print_notes, print_rows
    from chainrule.cli.train import describe_validation
    from chainrule.errors import UserError

    if flags:
        raise UserError(f"{', '.join(flags)}: only for text, and these are conversations; leave it out, or name a text")
    loaded = load(run.path, "language")
    measure = loaded.evaluate_preferences if run.task == PREFERENCES else loaded.evaluate_conversations
    found = measure(inputs, encoding=reading.encoding, delimiter=reading.delimiter)
    if as_json:
        print_json(found)
        return
    print_rows([("text", ", ".join(found["inputs"])), ("quality", describe_validation(cast("Evaluation", found)))])
    print_notes(found["notes"])


def _report(result: dict[str, Any], is_closed: bool) -> None:
    from chainrule.cli.output import plural, print_notes, print_rows, size, visible

    documents, tokens = result["documents"], result["tokens"]
    text = f"{plural(documents, 'document')} ({result['unit']}), {size(result['bytes'])}, "
    text += f"{tokens:,} tokens + {documents:,} <eos>"
    rows = [("text", text), *_quality(result, is_closed), ("vocabulary", describe_unknown(result))]
    print_rows([*rows, *(("training", seen) for seen in describe_seen(result["run"], result["seen"]))])
    for each in result.get("per_document", []):
        print(f"{each['path']}:{each['line']}\t{_describe_document(each)}")
    if "against" in result:
        report_difference(result["against"], _trained_on_it(result))
        for seen in describe_seen(result["against"]["run"], result["against"]["other_seen"]):
            print(seen)
    for passage in result["worst_passages"]:
        words = visible(" ".join(passage["text"].split())).strip("\ufffd")
        bits = passage["bits_per_token"]
        hardness = "impossible" if bits == float("inf") else f"{bits:.1f} bits per token"
        print(f"hard ({hardness}) {passage['path']}:{passage['line']}: {words[:160]}")
    print_notes(result["notes"])


def _describe_document(each: "DocumentFigures") -> str:
    nats, bits = each["nats"], each["bits_per_byte"]
    if bits is None:
        return f"{nats / log(2) / (each['tokens'] + 1):.4f} bits per token, {each['tokens']:,} tokens"
    return f"{bits:.4f} bits per byte, {each['tokens']:,} tokens"


def _quality(result: dict[str, Any], is_closed: bool) -> list[tuple[str, str]]:
    if not result["is_normalised"]:
        score = result["nats"] / (result["tokens"] + result["documents"])
        return [("score", f"{number(score, 4)} per token; not a perplexity, as these scores do not sum to one")]
    if result["impossible_tokens"]:
        return [
            ("perplexity", f"infinite: {result['impossible_tokens']:,} tokens have probability zero under this model")
        ]
    if result["bits_per_byte"] is None:
        changed = f"{result['changed_documents']:,} of the {result['documents']:,} documents"
        why = "a closed vocabulary loses spelling and spaces" if is_closed else f"tokens do not spell {changed} exactly"
        bits = f"not defined: {why}"
    else:
        bits = f"{number(result['bits_per_byte'], 4)} ({number(result['bits_per_character'], 4)} per character)"
    with_eos, without = number(result["perplexity"]), number(result["perplexity_without_eos"])
    return [("bits per byte", bits), ("perplexity", f"{with_eos} per token with <eos>, {without} without")]


def describe_seen(run: str, seen: "Seen | None") -> list[str]:
    """A warning where a run was trained on the text that it is measured on."""
    if seen is None or not seen["documents"]:
        return []
    share = f"{seen['documents']:,} of these {seen['of']:,} documents ({seen['unit']})"
    return [f"{run} was trained on {share}, so its figures say little about new text"]


def describe_unknown(result: dict[str, Any]) -> str:
    if not result["unknown_tokens"]:
        return "no unknown tokens"
    share = result["unknown_tokens"] / max(result["tokens"], 1)
    text = f"{result['unknown_tokens']:,} tokens ({share:.1%}) are <unk>, scored as that one token"
    rest = result["perplexity_without_unknown"]
    return text if rest is None else f"{text}; perplexity of the rest {number(rest)}"


def _trained_on_it(result: dict[str, Any]) -> list[str]:
    """The two runs of a comparison, as far as they were trained on documents of the text."""
    seen = {result["run"]: result["seen"], result["against"]["run"]: result["against"]["other_seen"]}
    return [run for run, found in seen.items() if found is not None and found["documents"]]


def report_difference(against: "Against", trained_on_it: Sequence[str] = ()) -> None:
    """Print the difference of two runs, and whether it is real; `trained_on_it` are those that know the text."""
    from chainrule.cli.output import print_sentence

    but = f"; but {' and '.join(trained_on_it)} learned from this text, so this is no test" if trained_on_it else ""
    gap, ends = against["bits_per_byte"], sorted(abs(each) for each in (against["low"], against["high"]))
    if against["low"] <= 0 <= against["high"]:
        verdict = f"no significant difference from {against['run']}"
        print_sentence(
            f"{verdict} ({gap:+.4f} bits per byte, 95 % interval {against['low']:+.4f} to {against['high']:+.4f}){but}"
        )
        return
    word = "better" if gap < 0 else "worse"
    floor = 2 / (against["rounds"] + 1)
    chance = f"p ≤ {floor:.3f}" if against["p_value"] <= floor else f"p = {against['p_value']:.3f}"
    interval = f"95 % interval {ends[0]:.4f} to {ends[1]:.4f}, {chance}"
    print_sentence(f"{abs(gap):.4f} bits per byte {word} than {against['run']}: significant ({interval}){but}")
