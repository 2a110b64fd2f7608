"""`chainrule train`: a model of your text."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainrule.cli import options

if TYPE_CHECKING:
    from chainrule.evaluation.figures import Evaluation

Text = "Text to learn from"
Tokens = "Tokens"
ModelPanel = "Model"
Learning = "Learning by gradient"


def command(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TEXT]...",
            help="Files, folders, 'globs', - for standard input; TEXT=WEIGHT mixes several by weight. "
            "Default: Python's own documentation.",
            show_default=False,
        ),
    ] = None,
    task: Annotated[
        str,
        typer.Option(metavar="NAME", help="language, or what the files are pairs for: translation, summarisation."),
    ] = "language",
    minutes: Annotated[
        float | None,
        typer.Option(
            help="The best model that so many minutes of this machine can buy, start to end.", rich_help_panel=Learning
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Or: so many updates.", rich_help_panel=Learning)] = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="N", help="Or: so many tokens (10M).", rich_help_panel=Learning)
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Or: so many times through the text.", rich_help_panel=Learning)
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="Go on with a training that was interrupted, exactly.", rich_help_panel=Learning
        ),
    ] = None,
    optimizer: Annotated[
        str | None, typer.Option(help="sgd, momentum, adamw or muon.", rich_help_panel=Learning)
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Its peak; chosen unless told.", rich_help_panel=Learning)
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="StreamBatches in one update.", rich_help_panel=Learning)
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="torch, or tape: gradients by our own engine, on NumPy.", rich_help_panel=Learning),
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write events for TensorBoard too.", rich_help_panel=Learning)
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="ngram (default), infinigram; mlp, bow, attention, elman, ugrnn, gru, lstm, transformer "
            "(with a budget, the default; of words, lstm).",
            rich_help_panel=ModelPanel,
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="A preset of the model, from tiny to large; of an ngram, its order.", rich_help_panel=ModelPanel
        ),
    ] = None,
    order: Annotated[
        int | None, typer.Option(help="n of the n-gram; 5 unless told otherwise.", rich_help_panel=ModelPanel)
    ] = None,
    smoothing: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="modified-kneser-ney (default), kneser-ney, absolute, witten-bell, katz, "
            "jelinek-mercer, add-k, stupid-backoff, maximum-likelihood.",
            rich_help_panel=ModelPanel,
        ),
    ] = None,
    prune: Annotated[
        str | None,
        typer.Option(
            metavar="'0 0 1'",
            help="Drop k-grams seen that often or less: a number per order from 1 up, first 0, never falling.",
            rich_help_panel=ModelPanel,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting of the model or of training.",
            rich_help_panel=ModelPanel,
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A JSON file of model settings.", rich_help_panel=ModelPanel)
    ] = None,
    tokenizer: Annotated[
        str,
        typer.Option(
            help="bytes, characters, words, bpe; or a tokenizer.json or run to take it from.", rich_help_panel=Tokens
        ),
    ] = "auto",
    vocabulary_size: Annotated[
        int | None, typer.Option(help="The most words, characters or (bpe) tokens.", rich_help_panel=Tokens)
    ] = None,
    min_count: Annotated[
        int | None, typer.Option(help="Leave out words seen less often.", rich_help_panel=Tokens)
    ] = None,
    closed_vocabulary: Annotated[
        bool, typer.Option("--closed-vocabulary", help="Unknown words become <unk>.", rich_help_panel=Tokens)
    ] = False,
    unit: Annotated[
        str, typer.Option(help="One document per: file, block, line, or auto.", rich_help_panel=Text)
    ] = "auto",
    field: Annotated[
        str, typer.Option(help="Field or column with the text (.jsonl, .csv, .parquet).", rich_help_panel=Text)
    ] = "text",
    encoding: Annotated[str, typer.Option(help="If not UTF-8.", rich_help_panel=Text)] = "auto",
    validation: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="Text of its own to measure on; repeat the flag for several.", rich_help_panel=Text
        ),
    ] = None,
    validation_fraction: Annotated[
        float, typer.Option(help="Else this share is kept aside.", rich_help_panel=Text)
    ] = 0.1,
    split: Annotated[
        str, typer.Option(help="documents (by content) or tail (the last part).", rich_help_panel=Text)
    ] = "documents",
    seed: Annotated[int, typer.Option(help="Of the split, the weights and the order.", rich_help_panel=Text)] = 0,
    as_: options.As = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Train a model on your text and store it as a run folder."""
    given = dict(locals())
    from chainrule.analysis.plan.quantities import parse_count
    from chainrule.cli.main import started_at
    from chainrule.config import parse_assignments
    from chainrule.data.corpus import Reading
    from chainrule.data.split import Splitting
    from chainrule.text.choice import Tokenization
    from chainrule.training.pipeline import train
    from chainrule.training.request import DEFAULT_CORPUS, Request

    named: dict[str, Any] = {
        "order": order,
        "smoothing": smoothing,
        "prune": prune,
        "minutes": minutes,
        "steps": steps,
        "tokens": None if tokens is None else parse_count(tokens, "--tokens"),
        "epochs": epochs,
        "optimizer": optimizer,
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "engine": engine,
    }
    settings = {name: value for name, value in named.items() if value is not None} | parse_assignments(set_ or [])
    if resume is not None:
        _report(_resume(resume, given, settings), as_json)
        return
    request = Request(
        inputs=tuple(inputs or [DEFAULT_CORPUS]),
        task=task,
        validation=tuple(validation or []),
        model=model,
        size=size,
        config=config,
        settings=settings,
        reading=Reading(unit, field, encoding),
        splitting=Splitting(validation_fraction, split, seed),
        tokenization=Tokenization(tokenizer, vocabulary_size, min_count, closed_vocabulary),
        path=Path(as_) if as_ else None,
        overwrite=overwrite,
        tensorboard=tensorboard,
        started_at=started_at(),
    )
    _report(train(request), as_json)


RESUMABLE_WITH = {"resume", "tensorboard", "as_json", "set_", "minutes", "steps", "tokens", "epochs", "optimizer"}
RESUMABLE_WITH |= {"learning_rate", "batch_size", "model"}  # compared with those it began with
RESUMABLE_WITH |= {"engine"}  # which may change


def _resume(name: str, given: dict[str, Any], settings: dict[str, Any]) -> Any:
    """Whatever else was given would be without effect, so it is refused by name."""
    import inspect

    from chainrule.errors import UserError
    from chainrule.training.pipeline import resume

    for parameter in inspect.signature(command).parameters.values():
        if parameter.name not in RESUMABLE_WITH and given[parameter.name] != parameter.default:
            flag = "the text" if parameter.name == "inputs" else "--" + parameter.name.rstrip("_").replace("_", "-")
            raise UserError(f"--resume goes on with what training began with; leave out {flag}")
    return resume(name, settings | ({"model": given["model"]} if given["model"] else {}), given["tensorboard"])


def _report(run: Any, as_json: bool) -> None:
    from chainrule.cli import output
    from chainrule.runs.card import describe_settings
    from chainrule.tasks.base import find_task

    metrics = run.metrics[-1]
    if as_json:
        output.print_json(
            {"run": str(run.path), **{k: v for k, v in metrics.items() if k != "event"}, "config": run.config}
        )
        return
    config, measured = run.config, metrics["validation"]
    train, tokenizer = config["data"]["text"]["train"], config["tokenizer"]
    unit, text_size = config["data"]["unit"], output.size(train["bytes"])
    rows = [
        ("text", f"{output.plural(train['documents'], 'document')} ({unit}), {text_size}, sha256 {train['hash'][:12]}"),
        ("tokens", f"{train['tokens']:,} ({tokenizer['kind']}, vocabulary {tokenizer['vocabulary_size']:,})"),
        ("model", f"{run.architecture}: {describe_settings(config['model'])}"),
        ("parameters", f"{metrics['parameters']:,} ({output.size(run.size_bytes)} on disk)"),
        *_describe_learning(metrics),
        ("time", f"{metrics['seconds']:.1f} s"),
        ("validation", describe_validation(measured)),
        ("run", str(run.path)),
    ]
    output.print_rows(rows)
    for source in run.config["data"].get("mixture", []):
        output.say(f"mixture: {source['name']}: {source['weight']:.1%} of the text, {source['epochs']:.2f} epochs")
    output.print_notes(run.config["notes"])
    output.say(f"next: {find_task(run.task).usages(str(run.path))[0]}   or   chainrule show {run.path}")


def _describe_learning(metrics: dict[str, Any]) -> list[tuple[str, str]]:
    """Of a model that learned by gradient: how far it went."""
    if "steps" not in metrics:
        return []
    epochs = ", ".join(f"{each:.2f}" for each in metrics["epochs"])
    speed = f"{metrics['tokens_per_second']:,} tokens/s"
    best = f"; the best weights are those of step {metrics['best_step']:,}" if metrics["best_step"] else ""
    return [("learning", f"{metrics['steps']:,} steps, {epochs} epochs, {speed}{best}")]


def describe_validation(measured: "Evaluation | None") -> str:
    from chainrule.cli.output import number, plural
    from chainrule.runs.card import describe_figures

    if measured is None:
        return "none was kept aside"
    where = f"on {plural(measured['documents'], 'document')}, {measured['tokens']:,} tokens"
    impossible = measured["impossible_tokens"]
    if measured["loss"] is None and not impossible:
        return f"not measured: these scores do not sum to one ({where})"
    if impossible:
        return f"perplexity infinite: {impossible:,} tokens have probability zero under this model ({where})"
    bits = "" if measured["bits_per_byte"] is None else f"{number(measured['bits_per_byte'], 4)} bits per byte, "
    figures, per = describe_figures(measured), measured.get("per", "token, <eos> counted")
    return f"{figures}{bits}perplexity {number(measured['perplexity'])} per {per} ({where})"
