"""Writes the report of a comparison: an HTML page, its plots, and the table as JSON, CSV and Markdown."""

import json
from pathlib import Path

from chainrule.analysis.compare.page import render_page
from chainrule.analysis.compare.plots import draw_plots
from chainrule.analysis.compare.report import Report, facts
from chainrule.analysis.compare.table import to_csv, to_markdown


def write_report(report: Report, folder: Path) -> None:
    """Fill `folder` with index.html, time and parameters as .svg and .png, and table as .json, .csv and .md."""
    folder.mkdir(exist_ok=True)
    (folder / "table.json").write_text(json.dumps(facts(report), indent=1, ensure_ascii=False), encoding="utf-8")
    (folder / "table.csv").write_text(to_csv(report.table), encoding="utf-8")
    (folder / "table.md").write_text(to_markdown(report.table), encoding="utf-8")
    plots = draw_plots(report)
    for plot in plots:
        (folder / f"{plot.name}.svg").write_bytes(plot.light)
        (folder / f"{plot.name}.png").write_bytes(plot.png)
    (folder / "index.html").write_text(render_page(report, plots), encoding="utf-8")
