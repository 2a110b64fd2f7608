"""The table of a comparison: a row for each model, best first, with intervals by resampling the same documents."""

import csv
import io
from dataclasses import asdict, dataclass
from math import exp, inf
from typing import Any

import numpy as np

from chainrule.comparison.measure import CommonText, Measured
from chainrule.errors import UserError
from chainrule.evaluation.score import NATS_PER_BIT
from chainrule.evaluation.significance import resample

SHOWN_SAMPLE = 80


@dataclass(frozen=True)
class Row:
    model: str
    bits: float  # per byte; or per token where a closed vocabulary hides bytes
    low: float  # 95 % interval, by documents
    high: float
    behind: float  # the best model, in the same bits
    behind_low: float
    behind_high: float
    p_value: float | None  # that it is not behind at all; None: it is the best
    ties_next: bool  # whether the one after it is not significantly worse
    perplexity_per_word: float | None
    parameters: int
    model_bytes: int
    seconds: float | None
    training_speed: float | None
    generation_speed: float
    sample: str
    run: str

    @property
    def is_behind(self) -> bool:
        return self.behind_low > 0


@dataclass(frozen=True)
class Table:
    unit: str  # byte or token
    documents: int
    bytes: int
    rows: list[Row]  # best first
    left_out: list[str]  # those that cannot be in it, and why

    def to_json(self) -> dict[str, Any]:
        return {"bits_per": self.unit, "documents": self.documents, "bytes": self.bytes,
                "models": [asdict(row) for row in self.rows], "left_out": self.left_out}  # fmt: skip

    def row(self, model: str) -> Row | None:
        return next((row for row in self.rows if row.model == model), None)


def make_table(measured: list[Measured], text: CommonText) -> Table:
    kept, left_out = _comparable(measured)
    if not kept:
        raise UserError(f"nothing can be compared: {'; '.join(left_out)}")
    is_open = all(each.is_lossless for each in kept)
    sizes = text.sizes.astype(np.float64) if is_open else kept[0].tokens.astype(np.float64)
    values = np.stack([each.nats for each in kept]) / NATS_PER_BIT  # (models, documents)
    order = np.argsort(values.sum(1), kind="stable")
    kept, values = [kept[i] for i in order], values[order]
    # one document cannot be resampled: then there are no intervals
    rounds = resample(values, sizes) if len(sizes) > 1 else np.repeat(values.sum(1, keepdims=True) / sizes.sum(), 2, 1)
    means = values.sum(1) / sizes.sum()
    words = float(text.words.sum())
    rows = []
    for place, each in enumerate(kept):
        behind = rounds[place] - rounds[0]
        following = rounds[place + 1] - rounds[place] if place + 1 < len(kept) else None
        low, high = np.quantile(rounds[place], [0.025, 0.975])
        behind_low, behind_high = np.quantile(behind, [0.025, 0.975])
        rows.append(
            Row(
                model=each.label,
                bits=float(means[place]),
                low=float(low),
                high=float(high),
                behind=float(means[place] - means[0]),
                behind_low=float(behind_low),
                behind_high=float(behind_high),
                p_value=None if place == 0 else float(min(1.0, 2 * ((behind <= 0).sum() + 1) / (len(behind) + 1))),
                ties_next=following is not None and bool(np.quantile(following, 0.025) <= 0),
                perplexity_per_word=_perplexity(float(each.nats.sum()) / words) if is_open else each.perplexity,
                parameters=each.parameters,
                model_bytes=each.model_bytes,
                seconds=each.seconds,
                training_speed=each.training_speed,
                generation_speed=each.generation_speed,
                sample=each.sample,
                run=each.run,
            )
        )
    return Table("byte" if is_open else "token", len(sizes), text.total_bytes, rows, left_out)


def _perplexity(nats: float) -> float:
    return exp(nats) if nats < 700 else inf


def _comparable(measured: list[Measured]) -> tuple[list[Measured], list[str]]:
    """What does not sum to one, gives some text no probability, or hides text that others show, is left out."""
    kept, left_out = [], []
    hides = next((each.tokenizer for each in measured if not each.is_lossless), None)
    for each in measured:
        if not each.is_normalised:
            left_out.append(f"{each.label}: its scores do not sum to one")
        elif not np.isfinite(each.nats).all():
            impossible = int((~np.isfinite(each.nats)).sum())
            left_out.append(f"{each.label}: it takes {impossible:,} of {len(each.nats):,} documents for impossible")
        elif hides is not None and each.tokenizer != hides:
            left_out.append(f"{each.label}: its tokens are others than those of a closed vocabulary that is compared")
        else:
            kept.append(each)
    return kept, left_out


COLUMNS = ("model", "bits per {unit}", "95 % interval", "behind the best", "parameters", "training",
           "perplexity per word", "size", "tokens/s in training", "tokens/s writing")  # fmt: skip


def columns(table: Table) -> list[str]:
    return [name.format(unit=table.unit) for name in COLUMNS]


def cells(row: Row) -> list[str]:
    """A row as people read it."""
    from chainrule.progress import size

    behind = "best" if row.p_value is None else f"+{row.behind:.4f}{'' if row.is_behind else ' (not significant)'}"
    return [
        row.model,
        f"{row.bits:.4f}",
        f"{row.low:.4f} to {row.high:.4f}",
        behind,
        f"{row.parameters:,}",
        "" if row.seconds is None else f"{row.seconds:,.1f} s",
        "" if row.perplexity_per_word is None else f"{row.perplexity_per_word:,.1f}",
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
    return "\n".join(lines) + "\n"


def to_csv(table: Table) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(asdict(table.rows[0])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in table.rows)
    return file.getvalue()
