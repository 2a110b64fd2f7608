"""The report of a comparison as one HTML page, from templates/report.html.j2; it loads nothing from elsewhere."""

import base64
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from chainrule.analysis.compare.plots import Plot, draw_plots
from chainrule.analysis.compare.report import Report
from chainrule.analysis.compare.table import cells, columns

SAMPLE_CHARACTERS = 300  # of what each model writes


@dataclass(frozen=True)
class EmbeddedPlot:
    """A plot whose two SVGs, for light and dark pages, are written as base64."""

    title: str
    light: str
    dark: str


def render_page(report: Report, plots: list[Plot]) -> str:
    """The HTML: verdict, table, plots, what was expected, and what each model writes."""
    return _render("report.html.j2", report, plots)


def render_fragment(report: Report) -> str:
    """Verdict, table and plots, for a notebook."""
    return _render("notebook.html.j2", report, draw_plots(report))


def _render(template: str, report: Report, plots: list[Plot]) -> str:
    return (
        _environment()
        .get_template(template)
        .render(
            report=report,
            table=report.table,
            text=", ".join(report.inputs) or "runs",
            columns=columns(report.table),
            rows=[cells(row) for row in report.table.rows],
            plots=[EmbeddedPlot(each.title, _base64(each.light), _base64(each.dark)) for each in plots],
            shown_characters=SAMPLE_CHARACTERS,
        )
    )


def _environment() -> Environment:
    """Everything put into a template is escaped; a name that it does not know is an error."""
    return Environment(
        loader=PackageLoader("chainrule.analysis.compare", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _base64(svg: bytes) -> str:
    return base64.b64encode(svg).decode()
