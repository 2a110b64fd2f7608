"""An explanation as HTML: one page, or a piece of a notebook, with nothing from elsewhere, in light and in dark.

Blue speaks for, orange against; both are told apart by colour-blind eyes, and as transparent tints they are on either
background.
"""

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from chainrule.analysis.explain.explanation import Explanation
from chainrule.progress import visible, visible_token

FOR, AGAINST = (20, 130, 205), (222, 105, 15)
SHOWN_TOKENS = 40  # the latest, where each has a column
STYLE = """
.chainrule { --ink: #1f2328; --faint: #59636e; --line: #d9dee3; --paper: #ffffff; --bar: rgb(0 114 178 / .75);
  color: var(--ink); background: var(--paper); font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; }
.chainrule h2 { font-size: 1.05rem; margin: 2rem 0 .3rem; }
.chainrule p { color: var(--faint); margin: .2rem 0 .6rem; max-width: 46rem; }
.chainrule table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.chainrule td, .chainrule th { padding: .12rem .9rem .12rem 0; text-align: right; white-space: nowrap; }
.chainrule th { font-weight: 400; }
.chainrule th { color: var(--faint); border-bottom: 1px solid var(--line); }
.chainrule .left { text-align: left; }
.chainrule .wide { overflow-x: auto; }
.chainrule .strips td + td, .chainrule .strips th + th { padding: .05rem .1rem; min-width: 1rem; text-align: center; }
.chainrule .token { font-family: ui-monospace, monospace; white-space: pre-wrap; }
.chainrule .tokens span { border-radius: 3px; padding: .1rem 0; }
.chainrule .tokens { font-family: ui-monospace, monospace; line-height: 2; white-space: pre-wrap; }
.chainrule .tokens { overflow-wrap: anywhere; }
.chainrule .bar { display: inline-block; height: .72em; background: var(--bar); border-radius: 2px; }
.chainrule .bar { vertical-align: middle; }
.chainrule .cut { opacity: .45; text-decoration: line-through; }
.chainrule .maps { display: flex; flex-wrap: wrap; gap: .9rem 1.2rem; }
.chainrule figure { margin: 0; } .chainrule figcaption { color: var(--faint); font-size: .85rem; }
.chainrule img { image-rendering: pixelated; border: 1px solid var(--line); display: block; }
.chainrule mark { background: rgb(0 114 178 / .22); color: inherit; border-radius: 3px; }
@media (prefers-color-scheme: dark) { .chainrule { --ink: #e6edf3; --faint: #9aa4af; --line: #30363d; --paper: #0d1117;
  --bar: rgb(86 180 233 / .8); } }
"""


def page(explanation: Explanation) -> str:
    title = escape(f"{explanation.token!r} after {explanation.text[-60:]!r}")
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{title}</title>"
        "<meta name='viewport' content='width=device-width'><meta name='color-scheme' content='light dark'>"
        "<style>body { margin: 0; background: #fff; } main { padding: 1rem 1.2rem 3rem; margin: 0 auto; }"
        "@media (prefers-color-scheme: dark) { body { background: #0d1117; } }</style>"
        f"</head><body>{fragment(explanation)}</body></html>\n"
    )


def fragment(explanation: Explanation) -> str:
    sections = [
        _heading(explanation),
        _die(explanation),
        _surprise(explanation),
        _importance(explanation),
        *_inside(explanation),
        *_evidence(explanation),
        *[f"<p>Note: {escape(note)}.</p>" for note in explanation.notes],
    ]
    return f"<main class='chainrule'><style>{STYLE}</style>{''.join(sections)}</main>"


def _token(text: str) -> str:
    return f"<span class='token'>{escape(visible_token(text))}</span>"


def _heading(explanation: Explanation) -> str:
    read = " ".join(explanation.text.split())
    return (
        f"<h1 style='font-size:1.3rem;margin:0'>{_token(explanation.token)} after “{escape(read[-80:])}”: "
        f"{explanation.probability:.4f}</h1><p>by a model of kind {escape(explanation.model)}, "
        f"{-np.log2(max(explanation.probability, 1e-300)):.2f} bits of surprise</p>"
    )


def _die(explanation: Explanation) -> str:
    die = explanation.die
    top = max((face.probability for face in die.faces), default=1.0) or 1.0
    rows = "".join(
        f"<tr class='{'cut' if face.filtered == 0 else ''}'><td class='left'>{_token(face.token)}</td>"
        f"<td>{face.probability:.4f}</td><td>{face.filtered:.4f}</td>"
        f"<td class='left'><span class='bar' style='width:{14 * face.probability / top:.2f}rem'></span></td></tr>"
        for face in die.faces
    )
    rest = f"{die.others:,} other tokens share {die.others_probability:.4f}; entropy {die.entropy_bits:.2f} bits."
    cut = f" The filters cut {die.cut:,} tokens, {die.cut_probability:.4f} of the whole." if die.cut else ""
    header = "<tr><th class='left'>token</th><th>probability</th><th>as drawn</th><th></th></tr>"
    return f"<h2>The die for the next token</h2><p>{rest}{cut}</p><table>{header}{rows}</table>"


def _surprise(explanation: Explanation) -> str:
    bits = explanation.surprise
    mean = f"{np.mean(bits):.2f} bits a token on average" if bits else "nothing was read yet"
    values = [min(bits / 16, 1.0) for bits in explanation.surprise]
    titles = [f"{bits:.2f} bits" for bits in explanation.surprise]
    tokens = _tinted(explanation, values, titles, AGAINST)
    return f"<h2>Surprise</h2><p>Bits of each token before it came; {mean}.</p>{tokens}"


def _importance(explanation: Explanation) -> str:
    found = explanation.importance
    rows = [("Left out: how log p falls without the token", found.left_out)]
    if found.gradient is not None:
        rows.append(("Gradient times input", list(found.gradient)))
    parts = []
    for name, figures in rows:
        known = [abs(each) for each in figures if each is not None and np.isfinite(each)]
        top = max(known, default=0.0) or 1.0
        values = [0.0 if each is None else max(-1.0, min(each / top, 1.0)) for each in figures]
        titles = ["not asked" if each is None else f"{each:+.3f} nats" for each in figures]
        parts.append(f"<p>{name}:</p>{_tinted(explanation, values, titles)}")
    heading = f"<h2>Which tokens mattered for {_token(explanation.token)}</h2><p>Blue for it, orange against it.</p>"
    return heading + "".join(parts)


def _tinted(
    explanation: Explanation,
    values: Sequence[float],
    titles: Sequence[str],
    colour: tuple[int, int, int] | None = None,
) -> str:
    """The text, each token after the first in the tint of its value."""
    spans = []
    for token, value, title in zip(explanation.tokens[1:], values, titles, strict=True):
        red, green, blue = colour or (FOR if value >= 0 else AGAINST)
        tint = f"rgb({red} {green} {blue} / {min(abs(value), 1.0) * 0.75:.3f})"
        text = escape(visible(token).replace("\n", "⏎\n"))
        spans.append(f"<span style='background:{tint}' title='{escape(title)}'>{text}</span>")
    return f"<div class='tokens'>{explanation.separator.join(spans)}</div>"


def _inside(explanation: Explanation) -> list[str]:
    shows = {"ladder": _ladder, "mixture": _mixture, "transformer": _transformer, "gates": _gates,
             "positions": _positions}  # fmt: skip
    return [] if explanation.inside is None else [shows[explanation.inside.kind](explanation, explanation.inside)]


def _ladder(explanation: Explanation, ladder: Any) -> str:
    rows = []
    for rung in ladder.rungs:
        context = " ".join(_token(each) for each in rung.context) or ("(nothing)" if rung.order else "(any token)")
        of = "" if rung.count is None else f"{rung.count:,} of {rung.total:,}"
        counted = "" if rung.counted is None else f"{rung.counted:,} of {rung.counted_total:,}"
        discount = "" if rung.discount is None else f"{rung.discount:.3f}"
        rows.append(
            f"<tr><td>{rung.order}</td><td class='left'>{context}</td><td>{of}</td><td>{counted}</td>"
            f"<td>{discount}</td><td>{rung.own:.6f}</td><td>{rung.weight:.4f}</td><td>{rung.contribution:.6f}</td></tr>"
        )
    names = ("order", "context", "seen", "counted as", "discount", "own part", "weight left to it", "contribution")
    header = "".join(f"<th class='{'left' if name == 'context' else ''}'>{name}</th>" for name in names)
    total = f"<tr><td></td><td class='left'>sum</td>{'<td></td>' * 5}<td>{ladder.probability:.6f}</td></tr>"
    return (
        f"<h2>The back-off ladder ({escape(ladder.smoothing)})</h2><p>Each order adds its own part times what the "
        f"longer ones have left over.</p><div class='wide'><table><tr>{header}</tr>{''.join(rows)}{total}</table></div>"
    )


def _evidence(explanation: Explanation) -> list[str]:
    evidence = explanation.evidence
    if evidence is None:
        return []
    rows = "".join(
        f"<tr><td class='left'>{escape(each.path)}:{each.line}</td><td class='left'>{escape(each.before)} "
        f"<mark>{escape(each.found)}</mark> {escape(each.after)}</td></tr>"
        for each in evidence.sightings
    )
    said = f"“{escape(evidence.context)}” stands {evidence.count:,} times in the training text, "
    said += f"{evidence.followed:,} times with {_token(explanation.token)} after it."
    return [f"<h2>Where it was seen</h2><p>{said}</p><div class='wide'><table>{rows}</table></div>"]


def _mixture(explanation: Explanation, inside: Any) -> str:
    top = max(share.contribution for share in inside.shares) or 1.0
    rows = "".join(
        f"<tr><td class='left'>{escape(share.part)}</td><td>{share.weight:.4f}</td><td>{share.probability:.6f}</td>"
        f"<td>{share.contribution:.6f}</td>"
        f"<td class='left'><span class='bar' style='width:{12 * share.contribution / top:.2f}rem'></span></td></tr>"
        for share in inside.shares
    )
    header = "<tr><th class='left'>part</th><th>weight</th><th>probability</th><th>contribution</th><th></th></tr>"
    return (
        f"<h2>Who was listened to</h2><p>Weights go by {escape(inside.by)}; contributions add up to "
        f"{inside.probability:.6f}.</p><table>{header}{rows}</table>"
    )


def _transformer(explanation: Explanation, inside: Any) -> str:
    tokens = explanation.tokens
    layers, heads = inside.attention.shape[:2]
    maps = "".join(
        _figure(inside.attention[layer, head], f"layer {layer + 1}, head {head + 1}", 150)
        for layer in range(layers)
        for head in range(heads)
    )
    latest = [
        (f"layer {layer + 1}, head {head + 1}", inside.attention[layer, head, -1])
        for layer in range(layers)
        for head in range(heads)
    ]
    return (
        _contributions(inside)
        + _lens(explanation, inside)
        + "<h2>Attention</h2><p>What each head looks at from the last position, to predict the next token:</p>"
        + _strips(tokens, latest)
        + "<p>And from every position (rows) to every position (columns):</p>"
        + f"<div class='maps'>{maps}</div>"
    )


def _contributions(inside: Any) -> str:
    top = max((abs(each.logit) for each in inside.contributions), default=1.0) or 1.0
    rows = []
    for each in sorted(inside.contributions, key=lambda each: -abs(each.logit))[:20]:
        colour = "" if each.logit >= 0 else "background:rgb(213 94 0 / .8);"
        where = "" if each.layer is None else f"layer {each.layer}"
        bar = f"<span class='bar' style='{colour}width:{12 * abs(each.logit) / top:.2f}rem'></span>"
        rows.append(
            f"<tr><td class='left'>{where}</td><td class='left'>{each.part}</td><td>{each.logit:+.3f}</td>"
            f"<td class='left'>{bar}</td></tr>"
        )
    more = len(inside.contributions) - len(rows)
    rest = f" The {more} smallest are not shown." if more > 0 else ""
    is_capped = abs(inside.logit - inside.capped_logit) > 1e-3
    capped = f" The model caps it at {inside.capped_logit:.3f}." if is_capped else ""
    return (
        f"<h2>Who made the logit</h2><p>The logit, {inside.logit:.3f}, is the sum of what each part added."
        f"{capped}{rest}</p><table>{''.join(rows)}</table>"
    )


def _lens(explanation: Explanation, inside: Any) -> str:
    rows = []
    first = len(explanation.tokens) - len(inside.lens[0])
    header = "".join(f"<th>{_token(token)}</th>" for token in explanation.tokens[first:])
    for depth, guesses in enumerate(inside.lens):
        cells = "".join(
            f"<td style='background:rgb(20 130 205 / {guess.probability * 0.6:.3f})' "
            f"title='{guess.probability:.3f}; what came: {guess.probability_of_token:.3f}'>{_token(guess.token)}</td>"
            for guess in guesses
        )
        rows.append(f"<tr><td class='left'>{'embedding' if depth == 0 else f'layer {depth}'}</td>{cells}</tr>")
    return (
        "<h2>What every layer would guess</h2><p>The likeliest next token after each position, were the model to end "
        f"there.</p><div class='wide'><table><tr><th></th>{header}</tr>{''.join(rows)}</table></div>"
    )


def _gates(explanation: Explanation, inside: Any) -> str:
    tokens = explanation.tokens
    means, maps = [], []
    for number, layer in enumerate(inside.layers, 1):
        for name, values in (layer.gates | layer.state).items():
            is_gate = float(values.min()) >= 0
            means.append((f"layer {number}, {name}", values.mean(1) if is_gate else np.abs(values).mean(1)))
            maps.append(_figure(values.T, f"layer {number}, {name}", 260, None if is_gate else np.abs(values).max()))
    influence = np.array(inside.influence)
    top = influence.max() or 1.0
    return (
        "<h2>How long a token is remembered</h2>"
        f"<p>Half of all influence on the next token is within the latest {inside.half_within:,} tokens, nine tenths "
        f"within {inside.most_within:,}.</p>{_strips(tokens, [('influence', influence / top)])}"
        "<h2>Gates and states through time</h2><p>The mean over all units at every token (of states and candidates, of "
        f"their size):</p>{_strips(tokens, means)}<p>And every unit (rows) at every token (columns):</p>"
        f"<div class='maps'>{''.join(maps)}</div>"
    )


def _positions(explanation: Explanation, inside: Any) -> str:
    rows = [(f"head {head}", np.array(weights)) for head, weights in enumerate(inside.weights, 1)]
    parts = [f"<h2>Weights of the context</h2>{_strips(explanation.tokens, rows)}"] if rows else []
    if inside.contributions is not None:
        figures = np.array(inside.contributions)
        top = np.abs(figures).max() or 1.0
        strip = _strips(explanation.tokens, [("contribution", figures / top)], figures)
        parts.append(
            f"<h2>What each place adds to the logit</h2><p>With {inside.constant:+.3f} for no text at all they "
            f"add up to {inside.logit:.3f}.</p>{strip}"
        )
    return "".join(parts)


def _strips(tokens: Sequence[str], rows: Sequence[tuple[str, np.ndarray]], exact: np.ndarray | None = None) -> str:
    """A row for each, a column for each of the latest tokens, tinted by values from -1 to 1."""
    first = max(len(tokens) - SHOWN_TOKENS, 0)
    header = "".join(f"<th>{_token(token)}</th>" for token in tokens[first:])
    lines = []
    for name, values in rows:
        cells = []
        for place in range(first, len(tokens)):
            value = float(values[place])
            red, green, blue = FOR if value >= 0 else AGAINST
            shown = float(exact[place]) if exact is not None else value
            tint = f"rgb({red} {green} {blue} / {min(abs(value), 1.0) * 0.9:.3f})"
            cells.append(f"<td style='background:{tint}' title='{shown:.4f}'></td>")
        lines.append(f"<tr><td class='left'>{escape(name)}</td>{''.join(cells)}</tr>")
    return f"<div class='wide'><table class='strips'><tr><th></th>{header}</tr>{''.join(lines)}</table></div>"


def _figure(values: np.ndarray, caption: str, size: int, top: float | None = None) -> str:
    """A heat map as a small picture; values from 0 to 1, or from -top to top."""
    picture = base64.b64encode(_png(values / (top or 1.0))).decode()
    height = max(round(size * min(values.shape[0] / max(values.shape[1], 1), 1.0)), 40)
    return (
        f"<figure><img alt='{escape(caption)}' width='{size}' height='{height}' src='data:image/png;base64,{picture}'>"
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _png(values: np.ndarray) -> bytes:
    """Blue above zero and orange below, the more opaque the larger, over whatever is behind."""
    rows, columns = values.shape
    picture = np.empty((rows, columns, 4), np.uint8)
    picture[..., :3] = np.where((values >= 0)[..., None], np.array(FOR, np.uint8), np.array(AGAINST, np.uint8))
    picture[..., 3] = np.clip(np.abs(np.nan_to_num(values)), 0, 1) * 255
    pixels = np.insert(picture.reshape(rows, -1), 0, 0, axis=1)  # each row begins with 0: no filter

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", columns, rows, 8, 6, 0, 0, 0)
    body = chunk(b"IDAT", zlib.compress(pixels.tobytes()))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + body + chunk(b"IEND", b"")
