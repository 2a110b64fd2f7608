"""An explanation for a terminal: tables and bars; heat maps are left to the page."""

from collections.abc import Iterator
from typing import Any

from rich.table import Table
from rich.text import Text

from chainrule.analysis.explain.explanation import Explanation
from chainrule.progress import visible
from chainrule.progress import visible_token as show

SHOWN_TOKENS = 12  # of those that mattered most
BAR = 24


def sections(explanation: Explanation) -> Iterator[Any]:
    yield _heading(explanation)
    yield from _die(explanation)
    yield from _tokens(explanation)
    yield from _inside(explanation)
    yield from _evidence(explanation)


def _bar(share: float) -> str:
    """Eighths of a cell, so that small differences can be seen."""
    eighths = round(max(0.0, min(share, 1.0)) * BAR * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _table(title: str, *columns: str, left: int = 1) -> Table:
    """With `left` columns of text in front, and figures after them."""
    table = Table(title=Text(title, "bold"), title_justify="left", box=None, padding=(0, 2, 0, 0))
    for number, name in enumerate(columns):
        is_text = number < left or not name
        table.add_column(Text(name), justify="left" if is_text else "right", header_style="dim", no_wrap=not is_text)
    return table


def _heading(explanation: Explanation) -> Text:
    text = " ".join(explanation.text.split())[-60:]
    said = f"'{show(explanation.token)}' after '{visible(text)}': {explanation.probability:.6g}"
    return Text(f"{said} ({explanation.model})\n", style="bold")


def _die(explanation: Explanation) -> Iterator[Any]:
    die = explanation.die
    table = _table("the die for the next token", "token", "probability", "as drawn", "")
    top = max((face.probability for face in die.faces), default=1.0) or 1.0
    for face in die.faces:
        style = "dim" if face.filtered == 0 else ""
        drawn = "cut" if face.filtered == 0 else f"{face.filtered:.4f}"
        bar = _bar(face.probability / top)
        table.add_row(Text(show(face.token)), f"{face.probability:.4f}", drawn, bar, style=style)
    yield table
    cut = f"; the filters cut {die.cut:,} tokens, {die.cut_probability:.4f} in all" if die.cut else ""
    others = f"{die.others:,} other tokens share {die.others_probability:.4f}" if die.others else "there are no others"
    yield Text(f"{others}; entropy {die.entropy_bits:.2f} bits{cut}\n", style="dim")


def _tokens(explanation: Explanation) -> Iterator[Any]:
    """Surprise and importance side by side, of the latest tokens."""
    tokens, importance = explanation.tokens[1:], explanation.importance
    if not tokens:
        return
    gradient = importance.gradient
    names = ["token", "surprise", "left out", *(["gradient"] if gradient is not None else []), ""]
    table = _table(f"what mattered for '{show(explanation.token)}' (nats; above 0 for it)", *names)
    known = [abs(each) for each in importance.left_out if each is not None]
    top = max((each for each in known if each < float("inf")), default=0.0) or 1.0
    for place in range(max(len(tokens) - SHOWN_TOKENS, 0), len(tokens)):
        left_out = importance.left_out[place]
        figures = [f"{explanation.surprise[place]:.2f} bits", "" if left_out is None else f"{left_out:+.3f}"]
        figures += [f"{gradient[place]:+.3f}"] if gradient is not None else []
        bar = Text(_bar(abs(left_out or 0.0) / top), style="blue" if (left_out or 0.0) >= 0 else "yellow")
        table.add_row(Text(show(tokens[place])), *figures, bar)
    yield table
    yield Text("")


def _inside(explanation: Explanation) -> Iterator[Any]:
    shows = {"ladder": _ladder, "mixture": _mixture, "transformer": _transformer, "gates": _gates,
             "positions": _positions}  # fmt: skip
    if explanation.inside is not None:
        yield from shows[explanation.inside.kind](explanation, explanation.inside)


def _ladder(explanation: Explanation, ladder: Any) -> Iterator[Any]:
    names = ("order", "context", "seen", "counted as", "discount", "own part", "weight", "contribution")
    table = _table(f"the back-off ladder ({ladder.smoothing})", *names, left=2)
    for rung in ladder.rungs:
        context = " ".join(map(show, rung.context)) or ("(nothing)" if rung.order else "(any token)")
        table.add_row(
            str(rung.order),
            Text(context),
            "" if rung.count is None else f"{rung.count:,}/{rung.total:,}",
            "" if rung.counted is None else f"{rung.counted:,}/{rung.counted_total:,}",
            "" if rung.discount is None else f"{rung.discount:.3f}",
            f"{rung.own:.6f}",
            f"{rung.weight:.4f}",
            f"{rung.contribution:.6f}",
        )
    table.add_row("", "sum", "", "", "", "", "", f"{ladder.probability:.6f}", style="bold")
    yield table
    yield Text("")


def _evidence(explanation: Explanation) -> Iterator[Any]:
    evidence = explanation.evidence
    if evidence is None:
        return
    found = (
        f"'{show(evidence.context)}' stands {evidence.count:,} times in the training text, {evidence.followed:,} times "
    )
    yield Text(f"{found}with '{show(explanation.token)}' after it", style="bold")
    for each in evidence.sightings:
        line = Text(f"{each.path}:{each.line}: ", style="dim")
        line.append(visible(" ".join(each.before.split())) + " ", style="")
        line.append(visible(" ".join(each.found.split())), style="bold blue")
        line.append(" " + visible(" ".join(each.after.split())), style="")
        yield line


def _mixture(explanation: Explanation, inside: Any) -> Iterator[Any]:
    table = _table(
        f"who was listened to (weights go by {inside.by})", "part", "weight", "probability", "contribution", ""
    )
    top = max(share.contribution for share in inside.shares) or 1.0
    for share in inside.shares:
        figures = (f"{share.weight:.4f}", f"{share.probability:.6f}", f"{share.contribution:.6f}")
        table.add_row(Text(share.part), *figures, _bar(share.contribution / top))
    table.add_row("sum", "", "", f"{inside.probability:.6f}", "", style="bold")
    yield table
    yield Text("")


def _transformer(explanation: Explanation, inside: Any) -> Iterator[Any]:
    capped = f" (capped: {inside.capped_logit:.3f})" if abs(inside.logit - inside.capped_logit) > 1e-3 else ""
    table = _table(f"who made the logit, {inside.logit:.3f}{capped}", "part", "adds", "")
    ordered = sorted(inside.contributions, key=lambda each: -abs(each.logit))
    top = abs(ordered[0].logit) or 1.0
    for each in ordered[:SHOWN_TOKENS]:
        where = each.part if each.layer is None else f"layer {each.layer}, {each.part}"
        bar = Text(_bar(abs(each.logit) / top), style="blue" if each.logit >= 0 else "yellow")
        table.add_row(where, f"{each.logit:+.3f}", bar)
    rest = sum(each.logit for each in ordered[SHOWN_TOKENS:])
    if len(ordered) > SHOWN_TOKENS:
        table.add_row(f"{len(ordered) - SHOWN_TOKENS} others", f"{rest:+.3f}", "")
    yield table
    lens = _table(
        "\nwhat every layer would guess",
        "after",
        "next token",
        "probability",
        f"of '{show(explanation.token)}'",
        left=2,
    )
    for depth, guesses in enumerate(inside.lens):
        name = "embedding" if depth == 0 else f"layer {depth}"
        guess = guesses[-1]
        lens.add_row(name, Text(show(guess.token)), f"{guess.probability:.4f}", f"{guess.probability_of_token:.4f}")
    yield lens
    looks = _table("\nwhere every head looks, from the last position", "head", "at", left=2)
    for layer, heads in enumerate(inside.attention, 1):
        for head, weights in enumerate(heads, 1):
            best = weights[-1].argsort()[::-1][:4]
            seen = "  ".join(f"{show(explanation.tokens[place])} {weights[-1, place]:.2f}" for place in best)
            looks.add_row(f"layer {layer}, head {head}", Text(seen))
    yield looks
    yield Text("")


def _gates(explanation: Explanation, inside: Any) -> Iterator[Any]:
    said = f"half of all influence on the next token is within the latest {inside.half_within:,} tokens, nine tenths "
    yield Text(f"{said}within {inside.most_within:,}\n")
    first = max(len(explanation.tokens) - SHOWN_TOKENS, 0)
    for number, layer in enumerate(inside.layers, 1):
        columns = layer.gates | layer.state
        table = _table(
            f"layer {number}: means over its units (of states and candidates, of their size)", "token", *columns
        )
        for place in range(first, len(explanation.tokens)):
            means = [f"{abs(values[place]).mean():.3f}" for values in columns.values()]
            table.add_row(Text(show(explanation.tokens[place])), *means)
        yield table
        yield Text("")


def _positions(explanation: Explanation, inside: Any) -> Iterator[Any]:
    heads = [f"head {head}" for head in range(1, len(inside.weights) + 1)]
    adds = [] if inside.contributions is None else ["adds to the logit"]
    table = _table("what each place of the context weighs", "token", *heads, *adds)
    for place in range(max(len(explanation.tokens) - SHOWN_TOKENS, 0), len(explanation.tokens)):
        figures = [f"{weights[place]:.3f}" for weights in inside.weights]
        figures += [] if inside.contributions is None else [f"{inside.contributions[place]:+.3f}"]
        table.add_row(Text(show(explanation.tokens[place])), *figures)
    yield table
    if inside.contributions is not None:
        yield Text(f"with {inside.constant:+.3f} for no text at all they add up to {inside.logit:.3f}\n", style="dim")
