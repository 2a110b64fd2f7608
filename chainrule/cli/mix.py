"""`chainrule mix`: several runs as one, each with a weight fitted on text that none was trained on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from chainrule.cli import options

if TYPE_CHECKING:
    from chainrule.evaluation.figures import MixEvaluation
    from chainrule.evaluation.text import Against
    from chainrule.models.mix import Model
    from chainrule.runs.folder import Run


def command(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN RUN...", help="Runs of any architecture with the same tokenizer.")
    ],
    cache: Annotated[
        bool, typer.Option("--cache", help="Add a cache: the words of the text so far, recent ones with more weight.")
    ] = False,
    dynamic: Annotated[
        float,
        typer.Option(
            metavar="RATE",
            help="Dynamic evaluation: networks keep learning from the text they score, at this rate (such as 0.3).",
        ),
    ] = 0.0,
    by: Annotated[
        str,
        typer.Option(
            help="Weights for all contexts alike, or by the order or the entropy of the context: all, order, entropy."
        ),
    ] = "all",
    on: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Fit the weights on this text; default: the text that the runs kept aside."),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Measure the mix on this text; repeat the flag for several."),
    ] = None,
    as_: options.As = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Interpolate runs: a mix with weights fitted on held-out text usually predicts better than each part."""
    from chainrule.analysis.mix.make import MixRequest, mix
    from chainrule.cli.main import started_at
    from chainrule.cli.output import print_json
    from chainrule.models.mix import Config
    from chainrule.runs.folder import Run

    request = MixRequest(
        runs=tuple(Run(run) for run in runs),
        config=Config(by, dynamic),
        cache=cache,
        on=tuple(on or []),
        test=tuple(test or []),
        path=Path(as_) if as_ else None,
        overwrite=overwrite,
        started_at=started_at(),
    )
    made = mix(request)
    if as_json:
        metrics = {name: value for name, value in made.metrics[-1].items() if name != "event"}
        print_json({"run": str(made.path), **metrics, "config": made.config, "model": made.model.describe()})
    else:
        _report(made)


def _report(run: "Run") -> None:
    from chainrule.cli.evaluate import report_difference
    from chainrule.cli.output import print_notes, print_sentence, say
    from chainrule.models.mix import Model

    trained = run.trained
    assert trained is not None
    measured = cast("MixEvaluation", trained.get("test") or trained["validation"])
    _print_parts(measured)
    assert isinstance(run.model, Model)
    if run.model.guide is not None:
        _print_weights(run.model)
    against = measured["against"]
    if against:
        best = next(part for part in measured["parts"] if part["name"] == against["run"])
        text = _text(measured, bool(trained.get("test")))
        if measured["perplexity"] and best["perplexity"]:
            change = measured["perplexity"] / best["perplexity"] - 1
            side = "above" if change > 0 else "below"
            print_sentence(f"perplexity {abs(change):.1%} {side} that of {best['name']}, the best part, on {text}")
        report_difference(cast("Against", against))
    print(run.path)
    print_notes(run.config["notes"])
    say(f"next: chainrule sample {run.path} --prompt '...'   or   chainrule evaluate {run.path} YOUR.txt")


def _text(measured: "MixEvaluation", is_test: bool) -> str:
    from chainrule.cli.output import plural

    which = "the test text" if is_test else "the text it was fitted on"
    return f"{which} ({plural(measured['documents'], 'document')}, {measured['tokens']:,} tokens)"


def _print_parts(measured: "MixEvaluation") -> None:
    from chainrule.cli.output import number, print_table

    has_bits = measured["bits_per_byte"] is not None
    titles = ["part", "kind", "weight", "perplexity", *(["bits per byte"] if has_bits else [])]
    rows = [[part["name"], part["architecture"], f"{part['weight']:.3f}"] for part in measured["parts"]]
    rows.append(["mix", "", ""])
    for row, part in zip(rows, [*measured["parts"], measured], strict=True):
        row += [number(part["perplexity"]), *([number(part["bits_per_byte"], 4)] if has_bits else [])]
    print_table(titles, rows, left=2)


def _print_weights(model: "Model") -> None:
    from chainrule.cli.output import print_table

    print(f"weights by {model.describe_signal()}")
    rows = zip(model.bucket_names(), model.weights, strict=True)
    print_table(["", *model.names], [[name, *(f"{weight:.3f}" for weight in row)] for name, row in rows], left=1)
