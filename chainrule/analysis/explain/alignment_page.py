"""A translation explained, as HTML: heat maps of where it looked and of what that did, and the beam as a tree."""

from html import escape

import numpy as np

from chainrule.analysis.explain.alignment import Branch, Translated
from chainrule.analysis.explain.page import AGAINST, FOR, STYLE
from chainrule.progress import visible_token

STEP_WIDTH, ROW_HEIGHT, TOKEN_LETTERS = 96, 24, 10
MORE_STYLE = """
.chainrule .heat th { font-family: ui-monospace, monospace; border: 0; padding: .1rem .25rem; color: var(--ink); }
.chainrule .heat .places th { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left; }
.chainrule .heat td { min-width: 1.7rem; height: 1.5rem; padding: 0; border: 1px solid var(--line); font-size: .7rem; }
.chainrule .heat td { text-align: center; }
.chainrule svg text { font: 12px ui-monospace, monospace; fill: var(--faint); }
.chainrule svg .best { fill: var(--ink); font-weight: 700; }
.chainrule svg path { fill: none; stroke: var(--line); }
.chainrule svg path.best { stroke: var(--bar); stroke-width: 2; }
"""


def page(found: Translated) -> str:
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(found.text[:80])}</title>"
        "<meta name='viewport' content='width=device-width'><meta name='color-scheme' content='light dark'>"
        "<style>body { margin: 0; background: #fff; } main { padding: 1rem 1.2rem 3rem; margin: 0 auto; }"
        "@media (prefers-color-scheme: dark) { body { background: #0d1117; } }</style>"
        f"</head><body><main class='chainrule'><style>{STYLE}{MORE_STYLE}</style>"
        f"<h1 style='font-size:1.3rem;margin:0'>{escape(found.text)}</h1><p>from “{escape(found.asked)}”</p>"
        f"{_attention(found)}{_attribution(found)}{_tree(found.beam)}</main></body></html>\n"
    )


def _attention(found: Translated) -> str:
    if found.attention is None:
        return "<h2>Attention</h2><p>This model has none: all it knows of the source is one context vector.</p>"
    words = "Each row is a word of the translation; how dark a square is says how much it looked at that source word."
    return f"<h2>Where it looked</h2><p>{words}</p>{heat_map(found, found.attention, 1.0)}"


def _attribution(found: Translated) -> str:
    most = float(np.abs(found.attribution).max()) or 1.0
    words = (
        "What each source word adds to the log-probability of each word of the translation, in nats: blue speaks for, "
        f"orange against; the darkest is {most:.2f}."
    )
    return f"<h2>What it made of it</h2><p>{words}</p>{heat_map(found, found.attribution, most)}"


def heat_map(found: Translated, values: np.ndarray, most: float) -> str:
    places = "".join(f"<th>{_name(token)}</th>" for token in found.source)
    rows = "".join(
        f"<tr><th>{_name(token)}</th>{''.join(_cell(float(value), most) for value in row)}</tr>"
        for token, row in zip(found.target, values, strict=True)
    )
    header = f"<tr class='places'><td style='border:0'></td>{places}</tr>"
    return f"<div class='wide'><table class='heat'>{header}{rows}</table></div>"


def _cell(value: float, most: float) -> str:
    red, green, blue = FOR if value >= 0 else AGAINST
    strength = min(abs(value) / most, 1.0)
    return f"<td title='{value:.3f}' style='background:rgb({red} {green} {blue} / {strength:.2f})'></td>"


def _name(token: str, letters: int | None = None) -> str:
    return escape(visible_token(token.strip() or token)[:letters])


def _tree(steps: list[list[Branch]]) -> str:
    """Columns are steps, the likeliest beginning on top; a line leads from each to the one that it makes longer."""
    height = ROW_HEIGHT * max(len(step) for step in steps) + 8
    drawn = []
    for number, step in enumerate(steps):
        for place, branch in enumerate(step):
            x, y = number * STEP_WIDTH + 12, place * ROW_HEIGHT + 18
            kind = " class='best'" if branch.is_best else ""
            if branch.parent is not None:
                from_y = branch.parent * ROW_HEIGHT + 14
                drawn.append(f"<path{kind} d='M{x - 18} {from_y} C{x - 8} {from_y} {x - 12} {y - 4} {x - 3} {y - 4}'/>")
            name = _name(branch.token, TOKEN_LETTERS)
            title = f"<title>{_name(branch.token)}: log-probability of all so far {branch.total:.2f}</title>"
            drawn.append(f"<text x='{x}' y='{y}'{kind}>{title}{name}{' ■' if branch.is_ended else ''}</text>")
    width = len(steps) * STEP_WIDTH + 20
    words = "The beginnings that were kept at every step, the likeliest on top. ■ ends a text; the chosen one is bold."
    size = f"width='{width}' height='{height}' viewBox='0 0 {width} {height}'"
    picture = f"<svg {size} role='img' aria-label='the beam as a tree'>{''.join(drawn)}</svg>"
    return f"<h2>The beam</h2><p>{words}</p><div class='wide'>{picture}</div>"
