"""The model card of an export: what the model is, how to use it there, and who has checked it."""

from pathlib import Path

from chainrule.interop._parity import Check
from chainrule.interop.base import Exporter
from chainrule.runs.card import about
from chainrule.runs.folder import Run
from chainrule.runs.records import METRICS, RunConfig, damaged


def write_card(path: Path, run: Run, exporter: Exporter, name: str, checks: list[Check], notes: list[str]) -> None:
    """Write the card of a file or folder called `name`, as Markdown with the header that Hugging Face reads."""
    trained = run.trained
    if trained is None:
        raise damaged(run.path / METRICS)
    data = run.config["data"]
    names = [Path(each).name for each in data["inputs"]]  # their folders are private
    config: RunConfig = {**run.config, "data": {**data, "inputs": names}}
    lines = [
        "---",
        *([f"library_name: {exporter.library}"] if exporter.library else []),
        "pipeline_tag: text-generation",
        "tags: [chainrule]",
        "---",
        *about(run.name, config, trained),
        *[f"- Note: {note}." for note in notes],
        "",
        *_usage(exporter, name),
        "Read back after it was written:",
        "",
        *[f"- {check.sentence()}." for check in checks],
        "",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")


def _usage(exporter: Exporter, name: str) -> list[str]:
    lines = exporter.usage(name)
    return [f"```{exporter.usage_language}", *lines, "```", ""] if lines else []
