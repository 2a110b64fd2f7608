"""`make compare`: the whole ladder on three texts, so many minutes for each model; goes to docs/results/comparisons.md.

Every section is a run of `chainrule compare` itself, kept under runs/comparisons; begun again, it goes on where it
stopped, and one that is whole is only written down.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks.corpora import DATA, SHAKESPEARE, SPEECHES
from benchmarks.measure import run_process
from benchmarks.report import COMPARISONS, RESULTS_FOLDER, Section
from chainrule.analysis.compare.table import Row, Table, cells, columns

HOME = Path("runs") / "comparisons"
PTB = DATA / "ptb"
CLOSED_WORDS = ("--unit", "line", "--tokenizer", "words", "--closed-vocabulary")
TEXTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "tinyshakespeare": ("tinyshakespeare, characters", (str(SHAKESPEARE), "--tokenizer", "characters")),
    "ptb": (
        "Penn Treebank, words",
        (str(PTB / "ptb.train.txt"), "--validation", str(PTB / "ptb.valid.txt"), "--test", str(PTB / "ptb.test.txt"),
         *CLOSED_WORDS),
    ),
    "sotu": (
        "State of the Union, BPE",
        (str(SPEECHES), "--test", str(SPEECHES.with_name("test_1990_2026.txt")), "--tokenizer", "bpe"),
    ),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.comparison", description=__doc__)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help=f"{', '.join(TEXTS)}; default: all")
    parser.add_argument("--minutes", type=float, default=1.0, help="for each model that learns by gradient")
    arguments = parser.parse_args()
    for name in arguments.texts or TEXTS:
        title, flags = TEXTS[name]
        folder = HOME / name
        command = ["compare", *flags, "--minutes", str(arguments.minutes), "--as", str(folder), "--json"]
        found = json.loads(run_process([sys.executable, "-m", "chainrule", *command]).output)
        COMPARISONS.keep(name, describe(title, name, folder / "report", found))
    print(COMPARISONS.path)


def describe(title: str, name: str, report: Path, found: dict[str, Any]) -> Section:
    """The table of a report, its plot, and of what was expected that which did not come."""
    found["inputs"] = [Path(each).name for each in found["inputs"]]
    pictures = RESULTS_FOLDER / "comparisons"
    pictures.mkdir(exist_ok=True)
    shutil.copyfile(report / "time.svg", pictures / f"{name}-time.svg")
    rows = [Row(**model) for model in found["models"]]
    table = Table(found["bits_per"], found["documents"], found["bytes"], rows, found["left_out"], found["notes"])
    others = [each for each in found["expectations"] if each["verdict"] != "so it is"]
    as_expected = len(found["expectations"]) - len(others)
    text = [
        f"{found['verdict']} {found['minutes']:g} minute{'s' * (found['minutes'] != 1)} for each model that learns by "
        "gradient; "
        f"{found['documents']:,} documents, {found['bytes']:,} bytes to measure on. {as_expected} of "
        f"{len(found['expectations'])} expectations came true{':' if others else '.'}",
        "",
        *[
            f"- {e['better']} over {e['worse']}, as {e['why']}: {e['verdict']} ({e['gain']:+.4f}). {e['remark']}."
            for e in others
        ],
        "",
        f"![Bits against the time of training](comparisons/{name}-time.svg)",
    ]
    return Section(title, "\n".join(text), columns(table), [cells(row) for row in rows], figures=found)


if __name__ == "__main__":
    main()
