"""What a comparison found: the table, the verdict in a sentence, and what theory led to expect."""

from dataclasses import asdict, dataclass

from chainrule.analysis.compare.expectations import Expectation
from chainrule.analysis.compare.measure import ModelScores
from chainrule.analysis.compare.table import Table, TableFacts


@dataclass(frozen=True)
class Report:
    inputs: list[str]
    minutes: float
    table: Table
    expectations: list[Expectation]
    measured: list[ModelScores]

    @property
    def verdict(self) -> str:
        """One sentence: which model is best, by how much, and whether the difference is significant."""
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


class ReportFacts(TableFacts):
    """A report as `chainrule compare --json` and table.json have it; `expectations` are the fields of each one."""

    inputs: list[str]
    minutes: float
    verdict: str
    expectations: list[dict[str, object]]


def facts(report: Report) -> ReportFacts:
    """The whole report but for the learning curves, ready to be written as JSON."""
    expectations = [asdict(each) | {"verdict": each.verdict, "remark": each.remark} for each in report.expectations]
    return {
        "inputs": report.inputs,
        "minutes": report.minutes,
        "verdict": report.verdict,
        **report.table.to_json(),
        "expectations": expectations,
    }
