"""What the doctor found, as a list that a notebook shows as a table, with the picture of the gradients below it."""

import base64
from collections.abc import Iterable
from html import escape
from pathlib import Path

from chainrule.training.finding import Finding

COLOURS = {"problem": "#d1242f", "note": "#9a6700", "good": "#1a7f37"}


class Findings(list[Finding]):
    """The findings about one run, the gravest first."""

    def __init__(self, found: Iterable[Finding] = (), picture: Path | None = None):
        """`picture` is an SVG file; one that does not exist is not shown."""
        super().__init__(found)
        self.picture = picture

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><td style="color:{COLOURS[each.severity]}">{each.severity}</td>'
            f'<td style="text-align:left"><strong>{escape(each.name)}</strong>: {escape(each.found)}'
            f"{f'<br>→ {escape(each.advice)}' if each.advice else ''}</td></tr>"
            for each in self
        )
        return f"<table>{rows}</table>{self._embedded_picture()}"

    def _embedded_picture(self) -> str:
        if self.picture is None or not self.picture.is_file():
            return ""
        source = base64.b64encode(self.picture.read_bytes()).decode()
        return f'<img alt="Gradients by depth" src="data:image/svg+xml;base64,{source}">'
