"""The result of a comparison as notebooks show it."""

from dataclasses import dataclass

from chainrule.analysis.compare.page import render_fragment
from chainrule.analysis.compare.report import Report


@dataclass(frozen=True)
class NotebookReport(Report):
    """A report that a notebook shows as its verdict, its table and its plots."""

    def _repr_html_(self) -> str:
        return render_fragment(self)
