"""The documents that measurements go to, each with a JSON beside it that keeps them: so a part can be measured alone.

`python -m benchmarks.report` writes the documents anew from what is kept.
"""

import json
import os
import platform
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RESULTS_FOLDER = Path(__file__).resolve().parents[1] / "docs" / "results"


@dataclass
class Section:
    title: str
    text: str
    header: list[str]
    rows: list[list[str]]
    figures: dict[str, Any] = field(default_factory=dict)  # what the rows were made of
    made: str = ""

    def lines(self) -> list[str]:
        table = ["| " + " | ".join(cells) + " |" for cells in (self.header, ["---"] * len(self.header), *self.rows)]
        return [f"## {self.title}", "", *([self.text, ""] if self.text else []), *table, "", f"*{self.made}*"]


@dataclass(frozen=True)
class Document:
    path: Path
    title: str
    text: str
    order: tuple[str, ...]  # of its sections

    @property
    def store(self) -> Path:
        return self.path.with_suffix(".json")

    def sections(self) -> dict[str, Section]:
        kept = json.loads(self.store.read_text()) if self.store.exists() else {}
        return {name: Section(**kept[name]) for name in self.order if name in kept}

    def figures(self, name: str) -> dict[str, Any]:
        """What is kept of a section, so that some of its rows can be measured anew."""
        found = self.sections().get(name)
        return found.figures if found else {}

    def keep(self, name: str, section: Section) -> None:
        """In place of the section that was kept under this name; the document is written at once."""
        assert name in self.order, name
        section.made = this_machine()
        kept = self.sections() | {name: section}
        ordered = {each: asdict(kept[each]) for each in self.order if each in kept}
        new = self.store.with_suffix(".json.tmp")
        new.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
        new.replace(self.store)
        self.write()

    def write(self) -> None:
        lines = [f"# {self.title}", "", self.text]
        for section in self.sections().values():
            lines += ["", *section.lines()]
        self.path.write_text("\n".join(lines) + "\n")


BENCHMARKS = Document(
    RESULTS_FOLDER / "benchmarks.md",
    "Benchmarks",
    "Made by `make bench`; below each table stands when and where. Medians of interleaved repeats, with the peak\n"
    "resident memory beside some. Compare the ratios: the machine is shared, and its speed moves.",
    (
        "time-to-quality",
        "throughput-transformer",
        "throughput-lstm",
        "finetuning",
        "translating",
        "tape",
        "explaining",
        "serving",
        "generation",
        "estimation",
        "scoring",
        "sampling",
        "start-up",
    ),
)
RESULTS = Document(
    RESULTS_FOLDER / "quality.md",
    "Results",
    "What models predict of text they have not seen. Made by `make results` (models that count) and `make learn`\n"
    "(models that learn by gradient); below each table stands when and where.",
    ("learning", "ladder", "engines", "penn-treebank", "tokenizers"),
)
COMPARISONS = Document(
    RESULTS_FOLDER / "comparisons.md",
    "Every kind of model on the same text, for the same time",
    "Made by `make compare`: the ladder of `chainrule compare` on three texts. Intervals are by 2,000 texts of as\n"
    "many documents, drawn with replacement, the same for all models.",
    ("tinyshakespeare", "ptb", "sotu"),
)
MIXING = Document(
    RESULTS_FOLDER / "mixing.md",
    "Mixing: results",
    "What [mixing](../guides/mixing.md) runs gains on text that neither they nor the weights have seen. Made by\n"
    "`make mixes`; below each table stands when and where.",
    ("penn-treebank",),
)
TRANSLATIONS = Document(
    RESULTS_FOLDER / "translation.md",
    "Translation: results",
    "What each kind of [conditional model](../guides/translation.md) makes of Multi30k. Made by\n"
    "`make translations`; below each table stands when and where.",
    ("de-en", "en-de"),
)
TAGGING = Document(
    RESULTS_FOLDER / "tagging.md",
    "Tagging: results",
    "How well [taggers](../guides/tagging.md) do, beside those that count. Made by `make tag`; below the table\n"
    "stands when and where.",
    ("english",),
)

PROMISE = Document(
    RESULTS_FOLDER / "promise.md",
    "What minutes buy",
    "`chainrule train TEXT --minutes M` on texts of many kinds, beside the n-gram that the same command makes in a\n"
    "second, and compressors that have read the training text first. Made by `make promise`; below each table stands\n"
    "when and where.",
    ("texts", "splits"),
)
FINETUNING = Document(
    RESULTS_FOLDER / "finetuning.md",
    "What beginning from a pretrained model gains",
    "[Fine-tuning](../guides/finetuning.md) SmolLM2 by `chainrule train TEXT --from RUN --minutes M`. Made by\n"
    "`make finetunings`; below the table stands when and where.",
    ("texts",),
)
RECIPES = Document(
    RESULTS_FOLDER / "recipes.md",
    "Recipes: one search for every family",
    "How the settings of training were found that `--minutes` and `chainrule compare` give each family that learns\n"
    "by gradient. Made by `make recipes`; below each table stands when and where.",
    ("table-12", "table-40", "many", "few"),
)


def this_machine() -> str:
    day = time.strftime("%Y-%m-%d")
    return f"{day}, {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def show(section: Section) -> None:
    print("\n".join(["", *section.lines()[:-2], ""]), flush=True)


def publish(document: Document, name: str, section: Section, is_trial: bool) -> None:
    """Shown; and unless it is only a trial, kept and written to the document."""
    show(section)
    if not is_trial:
        document.keep(name, section)


if __name__ == "__main__":
    for each in (BENCHMARKS, RESULTS, COMPARISONS, MIXING, TRANSLATIONS, TAGGING, PROMISE, RECIPES, FINETUNING):
        each.write()
        print(each.path)
