"""The model card: a README.md in the run folder that says what the model is, from what, how good, and how to use it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from chainrule.evaluation.figures import Evaluation
from chainrule.runs.records import DataConfig, RunConfig, TrainedEvent


def write_card(
    path: Path, name: str, config: RunConfig, trained: TrainedEvent, uses: Sequence[str] = (), example: str = ""
) -> None:
    """Write the card with these commands in it, or with those for a language model where none are given; and with an
    example of what was learned."""
    lines = [
        *about(name, config, trained),
        "",
        "```",
        *(uses or (f"chainrule sample {name} --prompt 'The'", f"chainrule evaluate {name} other.txt")),
        f"chainrule show {name}",
        "```",
        "",
        *(_example(example) if example else []),
    ]
    path.write_text("\n".join(lines), encoding="utf-8")


def _example(example: str) -> list[str]:
    return [
        "An example, as the model read it; what it learned to say is in brackets:",
        "",
        "````text",
        example,
        "````",
        "",
    ]


def about(name: str, config: RunConfig, trained: TrainedEvent) -> list[str]:
    """The lines that tell what the model is: in the run's own card and in that of an export."""
    data, tokenizer = config["data"], config["tokenizer"]
    made = f"made by Chainrule {config['chainrule']} on {config['started_at'][:10]}"
    return [
        f"# {name}",
        "",
        f"A {_kind(config)} of kind `{config['architecture']}`, {made}.",
        "",
        f"- **From:** {', '.join(f'`{each}`' for each in data['inputs'])}{_text(data)}",
        f"- **Tokens:** {tokenizer['kind']}, {tokenizer['vocabulary_size']:,} in the vocabulary.",
        f"- **Model:** {describe_settings(config['model'])}; {trained['parameters']:,} parameters.",
        f"- **Quality:** {_quality(trained['validation'])}",
        *[f"- Note: {note}." for note in config["notes"]],
    ]


def _kind(config: RunConfig) -> str:
    return f"model for {config['task']}" if "task" in config else "language model"


def _text(data: DataConfig) -> str:
    if "mixed" in data:
        return f", by mixing {', '.join(f'`{each}`' for each in data['mixed'])}."
    if "text" not in data:
        return f", without {', '.join(f'`{each}`' for each in data['forgotten'])}." if data.get("forgotten") else "."
    train = data["text"]["train"]
    return (
        f", one document per {data['unit']}: {train['documents']:,} documents, {train['bytes']:,} bytes, "
        f"{train['tokens']:,} tokens to train on (sha256 `{train['hash'][:16]}…`)."
    )


def _quality(measured: Evaluation | None) -> str:
    if measured is None:
        return "not measured: there was no validation text."
    of = f"{measured['documents']:,} validation documents"
    if measured["loss"] is None and not measured["impossible_tokens"]:
        return "not measured: its scores do not sum to one."
    if measured["loss"] is None:
        return (
            f"infinite perplexity, as {measured['impossible_tokens']:,} of the {measured['tokens']:,} tokens of {of} "
            "have probability zero."
        )
    bits = "" if measured["bits_per_byte"] is None else f"{measured['bits_per_byte']:.4f} bits per byte, "
    perplexity = "infinite" if measured["perplexity"] is None else f"{measured['perplexity']:.2f}"
    return f"{describe_figures(measured)}{bits}perplexity {perplexity} per token, on {of}."


def describe_figures(measured: Evaluation) -> str:
    """What a task measures beyond the loss, such as 'BLEU 36.50, '; empty where it measures nothing else."""
    return "".join(f"{name} {value:.2f}, " for name, value in measured.get("figures", {}).items())


def describe_settings(settings: Mapping[str, object]) -> str:
    """A model's settings for people, 'order 5, smoothing katz'; those that are off or do not apply are left out."""
    shown = {name: value for name, value in settings.items() if value not in ((), [], None, False, 0)}
    shown = {name: "on" if value is True else value for name, value in shown.items()}
    for name, smoothing in {"k": "add-k", "alpha": "stupid-backoff"}.items():
        if shown.get("smoothing") != smoothing:
            shown.pop(name, None)
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown.items())
