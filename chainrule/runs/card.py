"""The model card: a README.md in the run folder that says what the model is, from what, how good, and how to use it."""

from pathlib import Path
from typing import Any

from chainrule.tasks.base import find_task


def write_card(path: Path, name: str, settings: dict[str, Any], metrics: dict[str, Any]) -> None:
    lines = [
        *about(name, settings, metrics),
        "",
        "```",
        *_uses(name, settings),
        f"chainrule show {name}",
        "```",
        "",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")


def _uses(name: str, settings: dict[str, Any]) -> list[str]:
    if "task" in settings:
        return [f"chainrule {find_task(settings['task']).command} {name}"]
    return [f"chainrule sample {name} --prompt 'The'", f"chainrule evaluate {name} other.txt"]


def about(name: str, settings: dict[str, Any], metrics: dict[str, Any]) -> list[str]:
    """What the model is, wherever it goes."""
    data, tokenizer = settings["data"], settings["tokenizer"]
    made = f"made by Chainrule {settings['chainrule']} on {settings['started_at'][:10]}"
    return [
        f"# {name}",
        "",
        f"A {_kind(settings)} of kind `{settings['architecture']}`, {made}.",
        "",
        f"- **From:** {', '.join(f'`{each}`' for each in data['inputs'])}{_text(data)}",
        f"- **Tokens:** {tokenizer['kind']}, {tokenizer['vocabulary_size']:,} in the vocabulary.",
        f"- **Model:** {describe_settings(settings['model'])}; {metrics['parameters']:,} parameters.",
        f"- **Quality:** {_quality(metrics['validation'])}",
        *[f"- Note: {note}." for note in settings["notes"]],
    ]


def _kind(settings: dict[str, Any]) -> str:
    return f"model for {settings['task']}" if "task" in settings else "language model"


def _text(data: dict[str, Any]) -> str:
    if "mixed" in data:
        return f", by mixing {', '.join(f'`{each}`' for each in data['mixed'])}."
    if "text" not in data:
        return f", without {', '.join(f'`{each}`' for each in data['forgotten'])}." if data.get("forgotten") else "."
    train = data["text"]["train"]
    return (
        f", one document per {data['unit']}: {train['documents']:,} documents, {train['bytes']:,} bytes, "
        f"{train['tokens']:,} tokens to train on (sha256 `{train['hash'][:16]}…`)."
    )


def _quality(measured: dict[str, Any] | None) -> str:
    if measured is None:
        return "not measured: no validation text was kept."
    of = f"{measured['documents']:,} validation documents"
    if measured["loss"] is None and not measured["impossible_tokens"]:
        return "not measured: its scores do not sum to one."
    if measured["loss"] is None:
        return f"gives {measured['impossible_tokens']:,} of {measured['tokens']:,} tokens of {of} probability zero."
    bits = "" if measured["bits_per_byte"] is None else f"{measured['bits_per_byte']:.4f} bits per byte, "
    perplexity = "beyond numbers" if measured["perplexity"] is None else f"{measured['perplexity']:.2f}"
    return f"{describe_figures(measured)}{bits}perplexity {perplexity} per token, on {of}."


def describe_figures(measured: dict[str, Any]) -> str:
    """What a task measures beyond the loss: 'BLEU 36.50, ', or nothing."""
    return "".join(f"{name} {value:.2f}, " for name, value in measured.get("figures", {}).items())


def describe_settings(settings: dict[str, Any]) -> str:
    """'order 5, smoothing katz': without what is off or does not apply."""
    shown = {name: value for name, value in settings.items() if value not in ((), [], None, False, 0)}
    shown = {name: "on" if value is True else value for name, value in shown.items()}
    if shown.get("smoothing") != "add-k":
        shown.pop("k", None)
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown.items())
