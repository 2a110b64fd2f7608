"""`chainrule train`: a model of your text."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from chainrule.cli import completion, options
from chainrule.cli.common import settings_from_file
from chainrule.cli.flags import Flags, Given
from chainrule.data.settings import Reading, Splitting
from chainrule.ngram import config as ngram
from chainrule.text.settings import Tokenization
from chainrule.training.recipe import Recipe

if TYPE_CHECKING:
    from chainrule.evaluation.figures import EnsembleEvaluation, Evaluation
    from chainrule.runs.folder import Run
    from chainrule.runs.records import RunConfig, TrainedEvent

TEXT = "Training and validation text"
TOKENS = "Tokenizer"
MODEL = "Model"
LEARNING = "Training by gradient descent"
TASKS = ", ".join(completion.task_names())
MODELS = ", ".join(completion.model_names())


def command(
    context: typer.Context,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="Files, folders, quoted patterns ('*.txt') or - for standard input; TEXT=WEIGHT mixes several texts "
            "by weight. Default: Python's own documentation.",
            show_default=False,
        ),
    ] = None,
    task: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"What to learn from the files: {TASKS}.",
            autocompletion=completion.complete(completion.task_names),
        ),
    ] = "language",
    *,
    learning: Annotated[
        Given, Flags(Recipe, ("minutes", "steps", "tokens", "epochs"), panel=LEARNING, as_text=("tokens",))
    ],
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Resume an interrupted training exactly where it stopped.",
            autocompletion=completion.unfinished_runs,
            rich_help_panel=LEARNING,
        ),
    ] = None,
    how: Annotated[
        Given, Flags(Recipe, ("lora", "optimizer", "learning_rate", "batch_size", "seed", "engine"), panel=LEARNING)
    ],
    one: Annotated[
        bool,
        typer.Option(
            "--one",
            help="With --minutes: train a single network, which can be exported, instead of an ensemble.",
            rich_help_panel=LEARNING,
        ),
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write TensorBoard event files.", rich_help_panel=LEARNING)
    ] = False,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Begin from the weights of a run, trained here or imported, with its tokenizer (fine-tuning).",
            autocompletion=completion.runs,
            rich_help_panel=LEARNING,
        ),
    ] = None,
    lesson: Annotated[
        bool,
        typer.Option(
            "--lesson",
            help="Count as by hand: whole words, all of the text, no smoothing, order 3, unless other flags say "
            "otherwise; then chainrule show RUN --counts 'two words' shows the table.",
            rich_help_panel=MODEL,
        ),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"The architecture: {MODELS}. Default: ngram; with --minutes alone, an ensemble; with any other "
            "budget, transformer (lstm with --tokenizer words).",
            autocompletion=completion.complete(completion.model_names),
            rich_help_panel=MODEL,
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(help="A preset size, from tiny to large (for an n-gram, its order).", rich_help_panel=MODEL),
    ] = None,
    counting: Annotated[Given, Flags(ngram.Config, panel=MODEL)],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting of the model, the task or the training; repeat the flag for several.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    tokenization: Annotated[Tokenization, Flags(panel=TOKENS)],
    reading: Annotated[Reading, Flags(panel=TEXT)],
    validation: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="Validate on this text instead; repeat the flag for several.", rich_help_panel=TEXT
        ),
    ] = None,
    splitting: Annotated[Splitting, Flags(panel=TEXT)],
    as_: options.As = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Train a model on your text and store it as a run folder."""
    from chainrule.analysis.plan.quantities import parse_count
    from chainrule.cli.main import started_at
    from chainrule.cli.output import say
    from chainrule.config import parse_assignments
    from chainrule.training.ensemble import is_open
    from chainrule.training.pipeline import train
    from chainrule.training.request import DEFAULT_CORPUS, Request

    if "tokens" in learning:
        learning["tokens"] = parse_count(str(learning["tokens"]), "--tokens")
    learning = _one_budget(context, learning)
    settings = {**settings_from_file(context), **learning, **how, **counting, **parse_assignments(set_ or [])}
    if lesson:
        settings, tokenization, splitting = _lesson(context, task, model, settings, tokenization, splitting)
    if resume is not None:
        refuse_without_effect(context)
        _report(_resume(resume, settings | ({"model": model} if model else {}), tensorboard), as_json)
        return
    request = Request(
        inputs=tuple(inputs or [DEFAULT_CORPUS]),
        task=task,
        validation=tuple(validation or []),
        model=model,
        size=size,
        settings=settings,
        reading=reading,
        splitting=splitting,
        tokenization=tokenization,
        start=Path(start) if start else None,
        path=Path(as_) if as_ else None,
        overwrite=overwrite,
        tensorboard=tensorboard,
        one=one,
        started_at=started_at(),
    )
    if is_open(request):
        say("note: --minutes alone trains an ensemble, which cannot be exported; pass --one for a network that can be")
    _report(train(request), as_json)


def _lesson(
    context: typer.Context, task: str, model: str | None, settings: Given, tokens: Tokenization, split: Splitting
) -> tuple[Given, Tokenization, Splitting]:
    """The settings of a lesson, except for those that were given on the command line."""
    from chainrule.config import fields, override
    from chainrule.ngram.lesson import LESSON, check_lesson

    check_lesson(task, model, settings)
    left = {name: value for name, value in LESSON.items() if not _is_given(context, name)}
    own = [{name: left.pop(name) for name in fields(type(group)) if name in left} for group in (tokens, split)]
    return {**left, **settings}, override(tokens, own[0], "--lesson"), override(split, own[1], "--lesson")


def _one_budget(context: typer.Context, learning: Given) -> Given:
    """The settings of how long to train; those on the command line replace the ones of a file."""
    given = {name: value for name, value in learning.items() if _is_given(context, name)}
    return given or learning


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


RESUMABLE_WITH = {"resume", "tensorboard", "as_json", "set_", "quiet"}
RESUMABLE_WITH |= {"minutes", "steps", "tokens", "epochs", "optimizer"}  # these are compared with
RESUMABLE_WITH |= {"learning_rate", "batch_size", "model"}  # the ones that training began with
RESUMABLE_WITH |= {"engine"}  # this may change


def refuse_without_effect(context: typer.Context) -> None:
    """A training that is resumed takes its settings from its folder: refuse any flag that would change nothing."""
    from chainrule.errors import UserError

    for parameter in context.command.params:
        name = parameter.name or ""
        is_given = _is_given(context, name) and context.params[name] != parameter.default
        if name not in RESUMABLE_WITH and is_given:
            flag = "the text" if name == "inputs" else parameter.opts[0]
            raise UserError(f"--resume continues with the settings that training began with; leave out {flag}")


def _resume(name: str, settings: Given, tensorboard: bool) -> "Run":
    from chainrule.training.pipeline import resume

    return resume(name, settings, tensorboard)


def _report(run: "Run", as_json: bool) -> None:
    from chainrule.cli import output
    from chainrule.runs.card import describe_settings
    from chainrule.tasks.base import find_task

    metrics = run.trained
    assert metrics is not None
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
        *_describe_start(config, metrics),
        ("time", f"{metrics['seconds']:.1f} s"),
        ("validation", describe_validation(measured)),
        *_describe_parts(measured),
        *_describe_counting(config, measured),
        ("run", str(run.path)),
    ]
    output.print_rows(rows)
    for source in run.config["data"].get("mixture", []):
        output.say(f"mixture: {source['name']}: {source['weight']:.1%} of the text, {source['epochs']:.2f} epochs")
    output.print_notes(run.config["notes"])
    output.say(f"next: {find_task(run.task).usages(str(run.path))[0]}   or   chainrule show {run.path}")


def _describe_learning(metrics: "TrainedEvent") -> list[tuple[str, str]]:
    """Of a model that learned by gradient: how far it went."""
    if "steps" not in metrics:
        return []
    epochs = ", ".join(f"{each:.2f}" for each in metrics["epochs"])
    speed = f"{metrics['tokens_per_second']:,} tokens/s"
    best = f"; the best weights are those of step {metrics['best_step']:,}" if metrics["best_step"] else ""
    return [("learning", f"{metrics['steps']:,} steps, {epochs} epochs, {speed}{best}")]


def _describe_start(config: "RunConfig", metrics: "TrainedEvent") -> list[tuple[str, str]]:
    """Of a model that began from a run: how good that was on the same text."""
    from chainrule.cli.output import number
    from chainrule.runs.card import describe_figures

    before, start = metrics.get("before"), config.get("training", {}).get("start")
    if not before or not start:
        return []
    bits = before["bits_per_byte"]
    figures = f"perplexity {number(before['perplexity'])}" if bits is None else f"{number(bits, 4)} bits per byte"
    figures = describe_figures(before) + figures
    return [("before", f"{figures}: '{Path(start).name}', which training began from, on the same text")]


def _describe_parts(measured: "Evaluation | None") -> list[tuple[str, str]]:
    """Of an ensemble: each part by itself on the same text, and counting."""
    from chainrule.cli.output import number

    if measured is None or "counting" not in measured:
        return []
    parts = cast("EnsembleEvaluation", measured)
    rows = [
        (part["name"], f"{number(part['bits_per_byte'], 4)} alone; the mix would be {part['saves']:.1%} worse without")
        for part in parts["parts"]
    ]
    counting = parts["counting"]
    return rows if counting is None else [*rows, ("counting", f"{number(counting, 4)}: an n-gram of the same text")]


def _describe_counting(config: "RunConfig", measured: "Evaluation | None") -> list[tuple[str, str]]:
    """Of a network that had a budget: what counting makes of its tokens."""
    from chainrule.evaluation.figures import describe_counting

    counting = config.get("training", {}).get("counting")
    if not counting or measured is None:
        return []
    is_beaten = counting["loss"] is not None and measured["loss"] is not None and counting["loss"] < measured["loss"]
    return [("counting", f"{describe_counting(counting)}{', which is better' * is_beaten}")]


def describe_validation(measured: "Evaluation | None") -> str:
    from chainrule.cli.output import number, plural
    from chainrule.runs.card import describe_figures

    if measured is None:
        return "none was kept aside"
    where = f"on {plural(measured['documents'], 'document')}, {measured['tokens']:,} tokens"
    if "scored_tokens" in measured:
        where += f"; {measured['scored_tokens']:,} of them, from all over, were scored"
    impossible = measured["impossible_tokens"]
    if measured["loss"] is None and not impossible:
        return f"not measured: these scores do not sum to one ({where})"
    if impossible:
        return f"perplexity infinite: {impossible:,} tokens have probability zero under this model ({where})"
    bits = "" if measured["bits_per_byte"] is None else f"{number(measured['bits_per_byte'], 4)} bits per byte, "
    figures, per = describe_figures(measured), measured.get("per", "token, <eos> counted")
    return f"{figures}{bits}perplexity {number(measured['perplexity'])} per {per} ({where})"
