"""The report of a comparison: a page with nothing from elsewhere, its plots, and the table as JSON, CSV, Markdown."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chainrule.analysis.compare.expectations import Expectation
from chainrule.analysis.compare.measure import Measured
from chainrule.analysis.compare.table import Table, to_csv, to_markdown


@dataclass(frozen=True)
class Report:
    inputs: list[str]
    minutes: float
    table: Table
    expectations: list[Expectation]
    measured: list[Measured]

    @property
    def verdict(self) -> str:
        """One sentence: who is best, and by how much of what the next one is not."""
        best, *others = self.table.rows
        if not others:
            return f"{best.model} has {best.bits:.4f} bits per {self.table.unit}."
        said = f"{best.model} is best with {best.bits:.4f} bits per {self.table.unit}"
        if not self.table.can_tell:
            return f"{said}; {self.table.documents} documents are too few to tell whether that is chance."
        level = [row.model for row in others if not row.is_behind]
        if level:
            return f"{said}, but not significantly better than {', '.join(level)}."
        following = others[0]
        assert following.behind_interval is not None
        low, high = following.behind_interval
        return (
            f"{said}: {following.behind:.4f} below {following.model}, the next (95 % interval {low:.4f} to {high:.4f})."
        )


def facts(report: Report) -> dict[str, Any]:
    """All of it but the curves, as JSON has it."""
    found = {"inputs": report.inputs, "minutes": report.minutes, "verdict": report.verdict, **report.table.to_json()}
    return found | {"expectations": [asdict(each) | {"verdict": each.verdict} for each in report.expectations]}


def write_report(report: Report, folder: Path) -> None:
    from chainrule.analysis.compare.page import page
    from chainrule.analysis.compare.plots import draw

    folder.mkdir(exist_ok=True)
    table = report.table
    (folder / "table.json").write_text(json.dumps(facts(report), indent=1, ensure_ascii=False), encoding="utf-8")
    (folder / "table.csv").write_text(to_csv(table), encoding="utf-8")
    (folder / "table.md").write_text(to_markdown(table), encoding="utf-8")
    plots = draw(report, folder)
    (folder / "index.html").write_text(page(report, plots), encoding="utf-8")
