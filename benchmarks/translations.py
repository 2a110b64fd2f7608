"""`make translations`: every rung of translation on Multi30k, both ways; goes to docs/results/translation.md.

Tuned on the validation sentences. The test sentences are looked at here alone, once a row.
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT, run_process
from benchmarks.report import TRANSLATIONS, Section, publish
from chainrule.runs.folder import Run

RAW = ROOT.parent / "shared" / "data" / "multi30k" / "raw"
ALL = {"lowercase": "true", "label_smoothing": "0.1", "evaluations": "6", "validated": "300", "workers": "2"}


@dataclass(frozen=True)
class Row:
    """One kind of model, and how often it goes through the pairs: a busy machine takes longer and learns the same."""

    size: str
    epochs: float
    settings: dict[str, str] = field(default_factory=dict)


ROWS = {
    "context vector, read left to right": Row("context-vector", 2, {"direction": "ahead", "dropout": "0.1"}),
    "context vector, read right to left": Row("context-vector", 2, {"dropout": "0.1"}),
    "dot-product attention": Row("dot", 2, {"dropout": "0.1"}),
    "additive attention": Row("additive", 2, {"dropout": "0.1"}),
    "Transformer": Row("small", 4, {"width": "128", "encoder_layers": "2", "decoder_layers": "2", "dropout": "0.05"}),
}
WAYS = {"de-en": ("de", "en"), "en-de": ("en", "de")}
HEADER = ["", "epochs", "minutes", "parameters", "validation BLEU", "test2016 BLEU", "chrF"]


def file(part: str, side: str) -> str:
    return str(RAW / f"{part}.{side}.gz")


def measure(row: Row, way: str, folder: Path, epochs: float) -> dict[str, Any]:
    source, target = WAYS[way]
    command = [sys.executable, "-m", "chainrule", "train", "--task", "translation", "--json"]
    command += [file("train", source), file("train", target), "--size", row.size, "--epochs", str(epochs)]
    command += [word for side in (source, target) for word in ("--validation", file("val", side))]
    command += [word for name, value in (ALL | row.settings).items() for word in ("--set", f"{name}={value}")]
    made = run_process([*command, "--vocabulary-size", "4000", "--as", str(folder)]).json
    tested = run_process(
        [sys.executable, "-m", "chainrule", "translate", str(folder), file("test_2016_flickr", source), "--json",
         "--beam", "5", "--reference", file("test_2016_flickr", target)]
    ).json["measured"]  # fmt: skip
    return {
        "epochs": made["epochs"][0],
        "minutes": made["seconds"] / 60,
        "parameters": made["parameters"],
        "validation": made["validation"]["figures"]["BLEU"],
        **tested,
        "log": [each for each in Run(folder, task=None).metrics if each["event"] == "evaluation"],
    }


def section(way: str, figures: dict[str, Any]) -> Section:
    source, target = WAYS[way]
    signatures = {each["bleu_signature"] for each in figures.values()}
    text = (
        "29,000 pairs to learn from, 1,014 to choose the best weights by, 1,000 to test on.\n"
        f"Beam 5, small letters; BLEU is sacreBLEU's, `{' '.join(sorted(signatures))}`."
    )
    rows = [
        [
            name, f"{each['epochs']:g}", f"{each['minutes']:.1f}", f"{each['parameters']:,}",
            f"{each['validation']:.2f}", f"{each['bleu']:.2f}", f"{each['chrf']:.2f}",
        ]
        for name, each in figures.items()
    ]  # fmt: skip
    return Section(f"Multi30k, {source} → {target}", text, HEADER, rows, figures)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.translations", description=__doc__)
    parser.add_argument("ways", nargs="*", default=list(WAYS), help=f"{', '.join(WAYS)}; default: both")
    parser.add_argument("--only", action="append", help="a row by a part of its name; may be given several times")
    parser.add_argument("--epochs", type=float, help="for every row, as a trial that is shown and kept nowhere")
    arguments = parser.parse_args(words)
    for way in arguments.ways:
        kept = TRANSLATIONS.figures(way)
        for name, row in ROWS.items():
            if arguments.only and not any(part in name for part in arguments.only):
                continue
            with tempfile.TemporaryDirectory() as folder:
                kept[name] = measure(row, way, Path(folder) / "run", arguments.epochs or row.epochs)
            ordered = {each: kept[each] for each in ROWS if each in kept}
            publish(TRANSLATIONS, way, section(way, ordered), is_trial=arguments.epochs is not None)


if __name__ == "__main__":
    main()
