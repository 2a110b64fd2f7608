"""`make tag`: taggers of English beside those that count, on the Universal Dependencies English Web Treebank.

Every row is a run of `chainrule train --task tagging` itself, kept under runs/tagging; one that is whole is only
measured again, on the development sentences that chose its weights and on the test sentences that nothing saw.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.corpora import DATA
from benchmarks.measure import run_process
from benchmarks.report import TAGGING, Section

HOME = Path("runs") / "tagging"
EWT = DATA / "ud-english-ewt"
ENCODERS: dict[str, tuple[str, ...]] = {
    "BiLSTM": (),
    "LSTM, left to right": ("--set", "directions=1"),
    "Transformer": ("--set", "encoder=transformer", "--set", "num_layers=2", "--set", "width=256"),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tagging", description=__doc__)
    parser.add_argument("encoders", nargs="*", metavar="ENCODER", help=f"{', '.join(ENCODERS)}; default: all")
    parser.add_argument("--minutes", type=float, default=15.0, help="for each")
    arguments = parser.parse_args()
    figures = TAGGING.figures("english")
    for name in arguments.encoders or ENCODERS:
        figures[name] = train_and_measure(name, arguments.minutes)
        TAGGING.keep("english", describe(figures))
    print(TAGGING.path)


def train_and_measure(name: str, minutes: float) -> dict[str, Any]:
    run = HOME / "".join(c if c.isalnum() else "-" for c in name.lower())
    train, dev, test = (str(EWT / f"en_ewt-ud-{part}.conllu") for part in ("train", "dev", "test"))
    if not (run / "config.json").is_file():
        asked = ("--validation", dev, "--minutes", str(minutes), *ENCODERS[name], "--as", str(run))
        run_process([sys.executable, "-m", "chainrule", "train", "--task", "tagging", train, *asked])
    measured = {part: _evaluate(run, path) for part, path in (("dev", dev), ("test", test))}
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    kept = ("seconds", "steps", "epochs", "parameters")
    return {**{each: last[each] for each in kept}, "minutes": minutes, "measured": measured}


def _evaluate(run: Path, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        run_process([sys.executable, "-m", "chainrule", "evaluate", str(run), path, "--json"]).output
    )
    return {
        name: {key: each[key] for key in ("accuracy", "unseen", "beside")} for name, each in found["columns"].items()
    }


def describe(figures: dict[str, Any]) -> Section:
    first = next(iter(figures.values()))["measured"]
    rows = [[f"{name}", "", *_cells(first, name)] for name in first["dev"]["upos"]["beside"]]
    rows += [
        [name, f"{found['seconds'] / 60:.1f} min, {found['epochs'][0]:.0f} epochs", *_cells(found["measured"], None)]
        for name, found in figures.items()
    ]
    columns = [
        f"{part} {column}{unseen}"
        for part in ("dev", "test")
        for column in ("UPOS", "XPOS")
        for unseen in ("", ", unseen")
    ]
    text = "Per cent of words with the right tag, and of the words that training never saw. No vectors from elsewhere."
    return Section("UD English-EWT 2.16", text, ["tagger", "training", *columns], rows, figures)


def _cells(measured: dict[str, Any], baseline: str | None) -> list[str]:
    cells = []
    for part in ("dev", "test"):
        for column in ("upos", "xpos"):
            found = measured[part][column]
            if baseline is None:
                pair = (found["accuracy"], found["unseen"]["accuracy"])
            else:
                pair = (found["beside"][baseline]["accuracy"], found["beside"][baseline]["unseen_accuracy"])
            cells += [f"{100 * each:.2f}" for each in pair]
    return cells


if __name__ == "__main__":
    main()
