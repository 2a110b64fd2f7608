"""`chainrule show`: what a run is, from what, and how good."""

from typing import Annotated

import typer

from chainrule.cli import completion, options

MOST_FOLLOWERS = 50  # that are shown
SMALLEST_REST = 5e-5  # the probability of all other tokens that is worth a line


def command(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="A run folder; default: list the runs in runs/.",
            autocompletion=completion.runs,
            show_default=False,
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(help="For an infinigram: where the longest suffix of this text occurs in the training text."),
    ] = None,
    counts: Annotated[
        str | None, typer.Option(metavar="TEXT", help="For an n-gram: what followed these words, and how often.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check the hash of every file.")] = False,
    as_json: options.Json = False,
) -> None:
    """Show what a run is: its text, tokens, model and quality."""
    if run is None:
        from chainrule.cli.list import command as list_runs

        list_runs(as_json=as_json)
        return
    if counts is not None:
        _show_counts(run, counts, as_json)
        return
    if context is not None:
        _show_places(run, context, as_json)
        return
    from chainrule.cli.output import plural, print_json, print_notes, print_rows, say, size
    from chainrule.cli.train import describe_validation
    from chainrule.errors import UserError
    from chainrule.runs.card import describe_settings
    from chainrule.runs.folder import Run
    from chainrule.tasks.base import LANGUAGE, find_task

    loaded = Run(run, task=None)
    damaged = loaded.verify() if verify else []
    facts = loaded.model.describe()
    metrics = loaded.trained
    if as_json:
        print_json(
            {
                "run": str(loaded.path),
                "config": loaded.config,
                "metrics": metrics or {},
                "model": facts,
                "damaged": damaged,
            }
        )
    else:
        data = loaded.config["data"]
        rows = [("run", f"{loaded.path} ({size(loaded.size_bytes)})"), ("made", loaded.config["started_at"])]
        without = f", without {', '.join(data['forgotten'])}" if data.get("forgotten") else ""
        rows += [("text", ", ".join(data["inputs"]) + without)]
        for name, part in data.get("text", {}).items():
            rows.append(
                (name, f"{plural(part['documents'], 'document')}, {part['tokens']:,} tokens, {size(part['bytes'])}")
            )
        tokenizer = loaded.config["tokenizer"]
        closed = ", closed" if tokenizer["is_closed"] else ""
        rows += [("tokens", f"{tokenizer['kind']}{closed}, vocabulary {tokenizer['vocabulary_size']:,}")]
        rows += [("model", f"{loaded.architecture}: {describe_settings(loaded.config['model'])}")]
        rows += [(name, _text(value)) for name, value in facts.items()]
        rows += [("quality", describe_validation(metrics["validation"] if metrics else None))]
        print_rows(rows)
        print_notes(loaded.config["notes"])
        if loaded.task != LANGUAGE:
            say(f"for: chainrule {find_task(loaded.task).command} {loaded.path}")
        if verify and not damaged:
            say("all files are unchanged")
    if damaged:
        raise UserError(f"these files of '{loaded.path}' have changed since they were written: {', '.join(damaged)}")


def _show_counts(run: str, text: str, as_json: bool) -> None:
    from chainrule.api import load
    from chainrule.cli.output import plural, print_json, print_table, say, visible

    found = load(run, "language").counts(text)
    if as_json:
        print_json(found)
        return
    context, total = visible(found["context"]), found["total"]
    if not total:
        say(f"nothing followed '{visible(text.strip())}' in the text that was counted")
        return
    if not found["is_whole"]:
        say(f"the model looks at the last words alone: '{context}'")
    rows = [
        [
            visible(each["token"]).strip(" "),
            f"{each['count']:,}",
            f"{each['count']:,}/{total:,}",
            f"{each['probability']:.4f}",
        ]
        for each in found["followers"][:MOST_FOLLOWERS]
    ]
    hidden = len(found["followers"]) - len(rows)
    if hidden:
        rows.append([f"and {hidden:,} more", "", "", ""])
    if found["rest"] > SMALLEST_REST:
        rows.append(["anything else", "0", f"0/{total:,}", f"{found['rest']:.4f}"])
    print_table([f"after '{context}'", "count", "share", "probability"], rows)
    say(f"{plural(total, 'time')} in all")


def _show_places(run: str, context: str, as_json: bool) -> None:
    from chainrule.api import load
    from chainrule.cli.output import plural, print_json, say

    evidence = load(run, "language").evidence(context)
    if as_json:
        print_json(evidence)
        return
    say(f"'{evidence['text']}' ({plural(evidence['tokens'], 'token')}) occurs {plural(evidence['count'], 'time')}:")
    for place in evidence["places"]:
        print(f"{place['path']}:{place['line']}")


def _text(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return "; ".join(" ".join(f"{number:.4f}" for number in row) for row in value)
    return str(value)
