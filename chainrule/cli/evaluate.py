"""`chainrule evaluate`: how well a model predicts a text."""

from typing import Annotated, Any

import typer

from chainrule.cli import options
from chainrule.cli.output import number

MOST_PASSAGES = 100


def command(
    run: options.RunPath,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TEXT]...", help="Any text; default: the run's own validation text.", show_default=False
        ),
    ] = None,
    against: Annotated[str | None, typer.Option(metavar="RUN", help="Another run: is the difference real?")] = None,
    worst: Annotated[int, typer.Option(help="How many of the worst-predicted passages to show.")] = 3,
    documents: Annotated[bool, typer.Option("--documents", help="Also the figures of every document.")] = False,
    unit: Annotated[
        str | None, typer.Option(help="One document per: file, block, line; default: as in training.")
    ] = None,
    field: options.Field = "text",
    encoding: options.Encoding = "auto",
    quantize: options.Quantize = None,
    as_json: options.Json = False,
) -> None:
    """Measure a run on a text: perplexity, bits per byte, the hardest passages; tags of CoNLL-U; pairs of texts."""
    from chainrule.cli.output import print_json
    from chainrule.data.corpus import Corpus, Reading
    from chainrule.errors import UserError
    from chainrule.evaluation.score import figures
    from chainrule.evaluation.worst_passages import worst_passages
    from chainrule.runs.folder import Run
    from chainrule.tasks.base import LANGUAGE

    if not 0 <= worst <= MOST_PASSAGES:
        raise UserError(f"--worst must be from 0 to {MOST_PASSAGES}, got {worst}")
    loaded = Run(run, task=None)
    if loaded.task != LANGUAGE:
        asked = {"--against": against, "--documents": documents, "--unit": unit, "--quantize": quantize}
        _evaluate_task(loaded, inputs, [flag for flag, value in asked.items() if value], encoding, as_json)
        return
    if quantize:
        options.quantize(loaded, quantize)
    unit = unit or loaded.config["data"].get("unit", "auto")
    corpus = Corpus(inputs, Reading(unit, field, encoding)) if inputs else _kept_aside(loaded)
    scores = _score(loaded, corpus)
    result: dict[str, Any] = {"run": str(loaded.path), "inputs": inputs or ["validation"], "unit": corpus.unit}
    result |= figures(scores, loaded.model, loaded.tokenizer)
    hardest = worst_passages(loaded.model, loaded.tokenizer, corpus.batches(), worst) if worst > 0 else []
    result["worst_passages"] = [vars(passage) for passage in hardest]
    if documents:
        result["per_document"] = _per_document(scores)
    if against:
        result["against"] = _compare(loaded, scores, Run(against), corpus)
    if as_json:
        print_json(result)
    else:
        _report(result, corpus.notes)


def _evaluate_task(run: Any, inputs: list[str] | None, flags: list[str], encoding: str, as_json: bool) -> None:
    """A run of another task than text is measured by the command that it is for."""
    import importlib

    from chainrule.errors import UserError
    from chainrule.tasks.base import find_task

    name = find_task(run.task).command
    module = importlib.import_module(f"chainrule.cli.{name}")
    if flags:
        raise UserError(
            f"{', '.join(flags)}: for language models alone, and '{run.path}' is for {run.task}; leave it out"
        )
    module.evaluate(run, inputs, encoding, as_json)


def _kept_aside(run: Any) -> Any:
    from chainrule.errors import UserError
    from chainrule.runs.folder import KeptAside

    if not run.config["data"].get("text", {}).get("validation", {}).get("documents"):
        raise UserError(f"'{run.path}' has no text kept aside; name one: chainrule evaluate {run.path} OTHER.txt")
    return KeptAside(run)


def _score(run: Any, corpus: Any) -> Any:
    from chainrule.evaluation.score import score
    from chainrule.progress import progress

    with progress("scoring", corpus.total_bytes) as advance:
        return score(run.model, run.tokenizer, corpus.batches(advance))


def _compare(run: Any, scores: Any, other: Any, corpus: Any) -> dict[str, Any]:
    from chainrule.errors import UserError
    from chainrule.evaluation.score import figures
    from chainrule.evaluation.significance import paired_bootstrap

    for each in (run, other):
        if not each.model.is_normalised:
            raise UserError(f"'{each.path}' gives scores that do not sum to one, so it cannot be compared")
    hides_text = not (run.tokenizer.is_lossless and other.tokenizer.is_lossless)
    if hides_text and run.tokenizer.fingerprint != other.tokenizer.fingerprint:
        raise UserError(
            "a tokenizer that hides text cannot be compared with another: use runs that share it, or open ones"
        )
    theirs = _score(other, corpus)
    summary = figures(theirs, other.model, other.tokenizer)
    return {
        "run": str(other.path),
        **vars(paired_bootstrap(scores, theirs)),
        "other_bits_per_byte": summary["bits_per_byte"],
        "other_perplexity": summary["perplexity"],
    }


def _per_document(scores: Any) -> list[dict[str, Any]]:
    from math import log

    columns = zip(
        scores.files, scores.lines, scores.tokens, scores.nats, scores.text_bytes, scores.unknown, strict=True
    )
    return [
        {
            "path": scores.paths[int(file)],
            "line": int(line),
            "tokens": int(tokens),
            "unknown_tokens": int(unknown),
            "nats": float(nats),
            "bits_per_byte": float(nats / log(2) / max(size, 1)),
        }
        for file, line, tokens, nats, size, unknown in columns
    ]


def _report(result: dict[str, Any], notes: list[str]) -> None:
    from chainrule.cli.output import plural, print_notes, print_rows, size, visible

    documents, tokens = result["documents"], result["tokens"]
    text = f"{plural(documents, 'document')} ({result['unit']}), {size(result['bytes'])}, "
    text += f"{tokens:,} tokens + {documents:,} <eos>"
    print_rows([("text", text), *_quality(result), ("vocabulary", describe_unknown(result))])
    for each in result.get("per_document", []):
        bits = f"{each['bits_per_byte']:.4f} bits per byte, {each['tokens']:,} tokens"
        print(f"{each['path']}:{each['line']}\t{bits}")
    if "against" in result:
        report_difference(result["against"])
    for passage in result["worst_passages"]:
        words = visible(" ".join(passage["text"].split())).strip("\ufffd")
        bits = passage["bits_per_token"]
        hardness = "impossible" if bits == float("inf") else f"{bits:.1f} bits per token"
        print(f"hard ({hardness}) {passage['path']}:{passage['line']}: {words[:160]}")
    print_notes(notes)


def _quality(result: dict[str, Any]) -> list[tuple[str, str]]:
    if not result["is_normalised"]:
        score = result["nats"] / (result["tokens"] + result["documents"])
        return [("score", f"{number(score, 4)} per token; not a perplexity, as these scores do not sum to one")]
    if result["impossible_tokens"]:
        return [
            ("perplexity", f"infinite: {result['impossible_tokens']:,} tokens have probability zero under this model")
        ]
    if result["bits_per_byte"] is None:
        bits = "not given: a closed vocabulary hides spelling and spaces, so bytes cannot be compared"
    else:
        bits = f"{number(result['bits_per_byte'], 4)} ({number(result['bits_per_character'], 4)} per character)"
    with_eos, without = number(result["perplexity"]), number(result["perplexity_without_eos"])
    return [("bits per byte", bits), ("perplexity", f"{with_eos} per token with <eos>, {without} without")]


def describe_unknown(result: dict[str, Any]) -> str:
    if not result["unknown_tokens"]:
        return "nothing is unknown"
    share = result["unknown_tokens"] / max(result["tokens"], 1)
    text = f"{result['unknown_tokens']:,} tokens ({share:.1%}) are <unk>, scored as that one token"
    rest = result["perplexity_without_unknown"]
    return text if rest is None else f"{text}; perplexity of the rest {number(rest)}"


def report_difference(against: dict[str, Any]) -> None:
    gap, ends = against["bits_per_byte"], sorted(abs(each) for each in (against["low"], against["high"]))
    if against["low"] <= 0 <= against["high"]:
        verdict = f"no significant difference from {against['run']}"
        print(f"{verdict} ({gap:+.4f} bits per byte, 95 % interval {against['low']:+.4f} to {against['high']:+.4f})")
        return
    word = "better" if gap < 0 else "worse"
    floor = 2 / (against["rounds"] + 1)
    chance = f"p ≤ {floor:.3f}" if against["p_value"] <= floor else f"p = {against['p_value']:.3f}"
    interval = f"95 % interval {ends[0]:.4f} to {ends[1]:.4f}, {chance}"
    print(f"{abs(gap):.4f} bits per byte {word} than {against['run']}: significant ({interval})")
