"""The table of a comparison: one row per model, best first, with intervals from resampling the same documents."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import exp
from typing import TypedDict

import numpy as np

from chainrule.analysis.compare.measure import CommonText, ModelScores
from chainrule.errors import UserError
from chainrule.evaluation.score import NATS_PER_BIT
from chainrule.evaluation.significance import FEWEST, resample
from chainrule.progress import size

SHOWN_SAMPLE = 80
Interval = tuple[float, float]  # 95 %


@dataclass(frozen=True)
class Row:
    """One model's figures. Intervals and p-values are None where there are too few documents to tell."""

    model: str
    bits: float  # per byte; per token where a closed vocabulary replaces words by <unk>
    interval: Interval | None
    behind: float  # how many more bits it needs than the best model
    behind_interval: Interval | None
    p_value: float | None  # that it is behind by chance alone; None for the best model
    perplexity: float | None  # per word, or per token like `bits`; None: too large for a float
    parameters: int
    model_bytes: int
    seconds: float | None
    training_speed: float | None
    generation_speed: float
    sample: str
    run: str

    @property
    def is_behind(self) -> bool:
        """Whether it is significantly worse than the best model."""
        return self.behind_interval is not None and self.behind_interval[0] > 0


@dataclass(frozen=True)
class Table:
    unit: str  # byte or token
    documents: int
    bytes: int
    rows: list[Row]  # best first
    left_out: list[str]  # models that cannot be compared, each with the reason
    notes: list[str]

    @property
    def can_tell(self) -> bool:
        return self.documents >= FEWEST

    def to_json(self) -> "TableFacts":
        return {
            "bits_per": self.unit,
            "documents": self.documents,
            "bytes": self.bytes,
            "models": [asdict(row) for row in self.rows],
            "left_out": self.left_out,
            "notes": self.notes,
        }

    def row(self, model: str) -> Row | None:
        return next((row for row in self.rows if row.model == model), None)


class TableFacts(TypedDict):
    """A table as JSON; `models` are the fields of each Row."""

    bits_per: str
    documents: int
    bytes: int
    models: list[dict[str, object]]
    left_out: list[str]
    notes: list[str]


def make_table(measured: list[ModelScores], text: CommonText, failed: Sequence[str] = ()) -> Table:
    """The table of these models; `failed` says of each model that could not be trained why."""
    kept, left_out = _comparable(measured)
    left_out = [*failed, *left_out]
    if not kept:
        raise UserError(f"nothing can be compared: {'; '.join(left_out)}")
    is_open = all(each.is_lossless for each in kept)
    sizes = text.sizes.astype(np.float64) if is_open else kept[0].tokens.astype(np.float64)
    values = np.stack([each.nats for each in kept]) / NATS_PER_BIT  # (models, documents)
    order = np.argsort(values.sum(1), kind="stable")
    kept, values = [kept[i] for i in order], values[order]
    means = values.sum(1) / sizes.sum()
    rounds = resample(values, sizes) if len(sizes) >= FEWEST else None
    words = text.words.sum() if is_open else kept[0].tokens.sum()
    rows = [_row(each, place, means, rounds, float(words)) for place, each in enumerate(kept)]
    return Table("byte" if is_open else "token", len(sizes), text.total_bytes, rows, left_out, _notes(kept, text))


def _row(each: ModelScores, place: int, means: np.ndarray, rounds: np.ndarray | None, words: float) -> Row:
    behind = None if rounds is None else rounds[place] - rounds[0]
    nats = float(each.nats.sum()) / words
    return Row(
        model=each.label,
        bits=float(means[place]),
        interval=None if rounds is None else interval(rounds[place]),
        behind=float(means[place] - means[0]),
        behind_interval=None if behind is None else interval(behind),
        p_value=None if place == 0 or behind is None else chance(behind),
        perplexity=exp(nats) if nats < 700 else None,
        parameters=each.parameters,
        model_bytes=each.model_bytes,
        seconds=each.seconds,
        training_speed=each.training_speed,
        generation_speed=each.generation_speed,
        sample=each.sample,
        run=each.run,
    )


def interval(rounds: np.ndarray) -> Interval:
    """The middle 95 % of resampled figures."""
    low, high = np.quantile(rounds, [0.025, 0.975])
    return float(low), float(high)


def chance(behind: np.ndarray) -> float:
    """Two-sided bootstrap p-value: twice the share of resampled texts on which the difference has the other sign."""
    return float(min(1.0, 2 * ((behind <= 0).sum() + 1) / (len(behind) + 1)))


def _notes(kept: list[ModelScores], text: CommonText) -> list[str]:
    notes = [
        f"{each.seen:,} of the {len(text.sizes):,} documents were in the training text of {each.label}"
        for each in kept
        if each.seen
    ]
    if len(text.sizes) < FEWEST:
        notes.append(
            f"{len(text.sizes)} documents are too few for significance tests; use smaller ones (unit line or block)"
        )
    if text.is_thinned:
        notes.append(f"of a longer text, {text.total_bytes:,} bytes from all over it were measured")
    return notes


def _comparable(measured: list[ModelScores]) -> tuple[list[ModelScores], list[str]]:
    """The models whose figures mean the same, and of each other one why it is left out.

    Left out are scores that do not sum to one and infinite ones. Models with a closed vocabulary are comparable only
    with others of the same tokenizer, so the largest group of comparable models is kept.
    """
    fine, left_out = [], []
    for each in measured:
        if not each.is_normalised:
            left_out.append(f"{each.label}: its scores do not sum to one")
        elif not np.isfinite(each.nats).all():
            impossible = int((~np.isfinite(each.nats)).sum())
            left_out.append(f"{each.label}: it gives {impossible:,} of {len(each.nats):,} documents probability zero")
        else:
            fine.append(each)
    groups = Counter("" if each.is_lossless else each.tokenizer for each in fine)
    kind = max(groups, key=lambda group: (groups[group], group == "")) if groups else ""
    for each in fine:
        if ("" if each.is_lossless else each.tokenizer) != kind:
            why = "its closed vocabulary replaces words by <unk>" if kind == "" else "the others replace words by <unk>"
            left_out.append(f"{each.label}: {why}, so they cannot be compared")
    return [each for each in fine if ("" if each.is_lossless else each.tokenizer) == kind], left_out


COLUMNS = ("model", "bits per {unit}", "95 % interval", "behind the best", "parameters", "training",
           "perplexity per {word}", "size", "tokens/s in training", "tokens/s writing")  # fmt: skip


def columns(table: Table) -> list[str]:
    """The headings, with the units of this table."""
    return [name.format(unit=table.unit, word="word" if table.unit == "byte" else "token") for name in COLUMNS]


def cells(row: Row) -> list[str]:
    """A row's figures as text, in the order of `columns`."""
    doubt = "" if row.is_behind or row.behind_interval is None else " (not significant)"
    return [
        row.model,
        f"{row.bits:.4f}",
        "" if row.interval is None else f"{row.interval[0]:.4f} to {row.interval[1]:.4f}",
        "best" if row.behind == 0 and row.p_value is None else f"+{row.behind:.4f}{doubt}",
        f"{row.parameters:,}",
        "" if row.seconds is None else f"{row.seconds:,.1f} s",
        "" if row.perplexity is None else f"{row.perplexity:,.1f}",
        size(row.model_bytes),
        "" if row.training_speed is None else f"{row.training_speed:,.0f}",
        f"{row.generation_speed:,.0f}",
    ]


def to_markdown(table: Table) -> str:
    names = columns(table)
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    lines += [f"| {' | '.join(cells(row))} |" for row in table.rows]
    lines += [""] + [f"- {row.model}: “{row.sample[:SHOWN_SAMPLE].replace('|', '/')}”" for row in table.rows]
    lines += [f"- Left out: {each}." for each in table.left_out]
    lines += [f"- Note: {each}." for each in table.notes]
    return "\n".join(lines) + "\n"


def to_csv(table: Table) -> str:
    file = io.StringIO()
    rows = [_flat(row) for row in table.rows]
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _flat(row: Row) -> dict[str, object]:
    """A row as CSV has it: an interval is two columns, low and high."""
    flat: dict[str, object] = {}
    for name, value in asdict(row).items():
        if name.endswith("interval"):
            low, high = value or (None, None)
            prefix = name.removesuffix("interval")
            flat |= {f"{prefix}low": low, f"{prefix}high": high}
        else:
            flat[name] = value
    return flat
