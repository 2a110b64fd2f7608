"""The page of a comparison: the verdict, the table, the plots, what was expected, and what each model writes."""

import base64
from html import escape

from chainrule.analysis.compare.expectations import Expectation
from chainrule.analysis.compare.report import Report
from chainrule.analysis.compare.table import cells, columns

SHOWN_SAMPLE = 300
STYLE = """
:root { color-scheme: light dark; }
:root { --ink: #1f2328; --faint: #59636e; --line: #d9dee3; --paper: #ffffff; --tint: #0072b21a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --faint: #9aa4af; --line: #30363d; --paper: #0d1117; --tint: #56b4e926; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1.2rem 1.2rem 3rem; }
h1 { font-size: 1.45rem; margin: 0 0 .2rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .4rem; }
p { max-width: 48rem; } .faint { color: var(--faint); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .8rem .25rem 0; text-align: right; white-space: nowrap; }
th { color: var(--faint); font-weight: 400; border-bottom: 1px solid var(--line); vertical-align: bottom; }
th:first-child, td:first-child, .text { text-align: left; }
td.text { white-space: normal; min-width: 18rem; }
tr.best td { font-weight: 600; background: var(--tint); }
img { max-width: 100%; height: auto; display: block; }
"""


def page(report: Report, plots: dict[str, dict[str, bytes]]) -> str:
    """`plots`: for each its SVG in light and in dark."""
    of = ", ".join(report.inputs) or "runs"
    table = report.table
    sections = [
        f"<h1>{escape(report.verdict)}</h1>",
        f"<p class='faint'>{escape(of)}; {table.documents:,} documents, {table.bytes:,} bytes to measure on; "
        f"{report.minutes:g} minute{'s' * (report.minutes != 1)} for each model that learns by gradient.</p>",
        _table(report),
        *[_plot(name, pictures) for name, pictures in plots.items()],
        _expectations(report),
        _samples(report),
    ]
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<title>Models of {escape(of)}, compared</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(sections)}</main></body></html>\n"
    )


def _table(report: Report) -> str:
    header = "".join(f"<th>{escape(name)}</th>" for name in columns(report.table))
    rows = "".join(
        f"<tr class='{'best' if place == 0 else ''}'>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells(row))
        + "</tr>"
        for place, row in enumerate(report.table.rows)
    )
    said = [f"Left out: {each}." for each in report.table.left_out] + [f"Note: {each}." for each in report.table.notes]
    notes = "".join(f"<p class='faint'>{escape(each)}</p>" for each in said)
    return (
        f"<h2>The table</h2><div class='wide'><table><tr>{header}</tr>{rows}</table></div>{notes}"
        "<p class='faint'>Intervals are by 2,000 texts of as many documents, drawn with replacement, the same for all "
        "models: two intervals may overlap where the difference is still significant. They are about this text and "
        "these models as they were trained; trained with another seed, models that are close may change places.</p>"
    )


def _plot(name: str, pictures: dict[str, bytes]) -> str:
    light, dark = (base64.b64encode(pictures[kind]).decode() for kind in ("light", "dark"))
    return (
        f"<h2>{escape(name)}</h2><picture>"
        f"<source media='(prefers-color-scheme: dark)' srcset='data:image/svg+xml;base64,{dark}'>"
        f"<img alt='{escape(name)}' src='data:image/svg+xml;base64,{light}'></picture>"
    )


def _expectations(report: Report) -> str:
    if not report.expectations:
        return ""
    rows = "".join(
        f"<tr><td>{escape(each.better)} over {escape(each.worse)}</td><td class='text'>{escape(each.why)}</td>"
        f"<td>{each.gain:+.4f}</td><td>{_interval(each)}</td>"
        f"<td class='text'>{each.verdict}</td></tr>"
        for each in report.expectations
    )
    header = f"<tr><th>expected</th><th class='text'>because</th><th>bits per {report.table.unit} gained</th>"
    header += "<th>95 % interval</th><th class='text'>found</th></tr>"
    return f"<h2>What was to be expected</h2><div class='wide'><table>{header}{rows}</table></div>"


def _interval(each: Expectation) -> str:
    return "" if each.interval is None else f"{each.interval[0]:+.4f} to {each.interval[1]:+.4f}"


def _samples(report: Report) -> str:
    rows = "".join(
        f"<tr><td>{escape(row.model)}</td><td class='text'>{escape(row.sample[:SHOWN_SAMPLE])}</td></tr>"
        for row in report.table.rows
    )
    return f"<h2>What each writes</h2><div class='wide'><table>{rows}</table></div>"
