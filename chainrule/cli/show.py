"""`chainrule show`: what a run is, from what, and how good."""

from typing import Annotated

import typer

from chainrule.cli import options


def command(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="A run folder; without one, the runs there are.")
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="Of an infinigram: where in the corpus the longest end of this text was seen.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check every file against the hash it was written with.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Show what a run holds: text, tokens, model, quality; or list the runs."""
    if run is None:
        _list_runs(as_json)
        return
    if context is not None:
        _show_places(run, context, as_json)
        return
    from chainrule.cli.output import plural, print_json, print_notes, print_rows, say, size
    from chainrule.cli.train import describe_validation
    from chainrule.errors import UserError
    from chainrule.runs.folder import Run

    loaded = Run(run)
    damaged = loaded.verify() if verify else []
    facts = loaded.model.describe()
    metrics = loaded.metrics[-1] if loaded.metrics else {}
    if as_json:
        print_json(
            {"run": str(loaded.path), "config": loaded.config, "metrics": metrics, "model": facts, "damaged": damaged}
        )
    else:
        data = loaded.config["data"]
        rows = [("run", f"{loaded.path} ({size(loaded.size_bytes)})"), ("made", loaded.config["started_at"])]
        rows += [("text", ", ".join(data["inputs"]))]
        for name, part in data.get("text", {}).items():
            rows.append(
                (name, f"{plural(part['documents'], 'document')}, {part['tokens']:,} tokens, {size(part['bytes'])}")
            )
        tokenizer = loaded.config["tokenizer"]
        closed = ", closed" if tokenizer["is_closed"] else ""
        rows += [("tokens", f"{tokenizer['kind']}{closed}, vocabulary {tokenizer['vocabulary_size']:,}")]
        settings = ", ".join(f"{key} {value}" for key, value in loaded.config["model"].items() if value not in ((), []))
        rows += [("model", f"{loaded.architecture}: {settings}")]
        rows += [(name, _text(value)) for name, value in facts.items()]
        rows += [("quality", describe_validation(metrics.get("validation")))]
        print_rows(rows)
        print_notes(loaded.config["notes"])
        if verify and not damaged:
            say("every file is as it was written")
    if damaged:
        raise UserError(f"these files of '{loaded.path}' have changed since they were written: {', '.join(damaged)}")


def _show_places(run: str, context: str, as_json: bool) -> None:
    from chainrule.api import load
    from chainrule.cli.output import plural, print_json, say

    evidence = load(run).evidence(context)
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


def _list_runs(as_json: bool) -> None:
    import json

    from chainrule.cli.output import print_json, print_rows, say
    from chainrule.runs.folder import HOME

    found = sorted(path.parent for path in HOME.glob("*/config.json")) if HOME.is_dir() else []
    configs = [(path, json.loads((path / "config.json").read_text(encoding="utf-8"))) for path in found]
    if as_json:
        print_json(
            [
                {"run": str(path), "architecture": config["architecture"], "started_at": config["started_at"]}
                for path, config in configs
            ]
        )
    elif not configs:
        say("there are no runs in 'runs/' yet; make one with: chainrule train YOUR.txt")
    else:
        print_rows(
            [
                (
                    str(path),
                    f"{config['architecture']} of {', '.join(config['data']['inputs'])}, {config['started_at']}",
                )
                for path, config in configs
            ]
        )
