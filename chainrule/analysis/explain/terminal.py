"""An explanation for a terminal: tables and bars; heat maps are left to the page."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from rich.table import Table
from rich.text import Text

from chainrule.analysis.explain.prediction import Prediction
from chainrule.models.explanation import Gates, InnerTerms, Ladder, Mixture, Positions, ResidualStream, Series
from chainrule.progress import times, visible
from chainrule.progress import visible_token as show

SHOWN_TOKENS = 12  # of those that mattered most
BAR = 24
ADDS = "adds to the logit"


Section: TypeAlias = Table | Text


def sections(explanation: Prediction) -> Iterator[Section]:
    """What Rich prints, one piece after the other."""
    yield _heading(explanation)
    yield from _distribution(explanation)
    yield from _tokens(explanation)
    if explanation.inside is not None:
        yield from _inside(explanation.inside, explanation.tokens, explanation.token)
    yield from _evidence(explanation)


def _bar(share: float) -> str:
    """A bar in eighths of a cell, so that small differences can be seen."""
    eighths = round(max(0.0, min(share, 1.0)) * BAR * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _table(title: str, *columns: str, left: int = 1) -> Table:
    """An empty table with `left` columns of text in front, and figures after them."""
    table = Table(title=Text(title, "bold"), title_justify="left", box=None, padding=(0, 2, 0, 0))
    for number, name in enumerate(columns):
        is_text = number < left or not name
        table.add_column(Text(name), justify="left" if is_text else "right", header_style="dim", no_wrap=not is_text)
    return table


def _heading(explanation: Prediction) -> Text:
    text = " ".join(explanation.text.split())[-60:]
    said = f"'{show(explanation.token)}' after '{visible(text)}': {explanation.probability:.6g}"
    return Text(f"{said} ({explanation.model})\n", style="bold")


def _distribution(explanation: Prediction) -> Iterator[Section]:
    found = explanation.distribution
    table = _table("the distribution of the next token", "token", "probability", "as sampled", "")
    largest = max((each.probability for each in found.top), default=1.0) or 1.0
    for each in found.top:
        style = "dim" if each.filtered == 0 else ""
        drawn = "cut" if each.filtered == 0 else f"{each.filtered:.4f}"
        bar = _bar(each.probability / largest)
        table.add_row(Text(show(each.token)), f"{each.probability:.4f}", drawn, bar, style=style)
    yield table
    cut = f"; the filters remove {found.cut:,} tokens with probability {found.cut_probability:.4f}" if found.cut else ""
    others = f"{found.others:,} other tokens together {found.others_probability:.4f}"
    others = others if found.others else "no other tokens"
    yield Text(f"{others}; entropy {found.entropy_bits:.2f} bits{cut}\n", style="dim")


def _tokens(explanation: Prediction) -> Iterator[Section]:
    """The surprise and the importance of the latest tokens, side by side."""
    tokens, importance = explanation.tokens[1:], explanation.importance
    if not tokens:
        return
    gradient = importance.gradient
    names = ["token", "surprisal", "left out", *(["gradient"] if gradient is not None else []), ""]
    table = _table(f"which tokens mattered for '{show(explanation.token)}' (nats; positive: for it)", *names)
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


def _inside(terms: InnerTerms, tokens: Sequence[str], token: str) -> Iterator[Section]:
    """The model's own terms, by their kind."""
    match terms:
        case Ladder():
            yield from _ladder(terms)
        case Mixture():
            yield from _mixture(terms)
        case ResidualStream():
            yield from _residual_stream(terms, tokens, token)
        case Gates():
            yield from _gates(terms, tokens)
        case Positions():
            yield from _positions(terms, tokens)
        case Series():
            yield _by_token(terms.title, tokens, terms.figures)
            yield Text("")


def _by_token(title: str, tokens: Sequence[str], columns: Mapping[str, Sequence[float]], signed: str = "") -> Table:
    """A column of figures for each name, a row for each of the latest tokens; the `signed` column shows a plus."""
    table = _table(title, "token", *columns)
    for place in range(max(len(tokens) - SHOWN_TOKENS, 0), len(tokens)):
        figures = [f"{values[place]:{'+' if name == signed else ''}.3f}" for name, values in columns.items()]
        table.add_row(Text(show(tokens[place])), *figures)
    return table


def _ladder(ladder: Ladder) -> Iterator[Section]:
    names = ("order", "context", "seen", "counted", "discount", "own part", "weight", "adds")
    table = _table(f"the back-off ladder ({ladder.smoothing})", *names, left=2)
    for rung in ladder.rungs:
        context = " ".join(map(show, rung.context)) or ("(none)" if rung.order else "(uniform)")
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


def _evidence(explanation: Prediction) -> Iterator[Section]:
    evidence = explanation.evidence
    if evidence is None:
        return
    found = (
        f"'{show(evidence.context)}' occurs {times(evidence.count)} in the training text, {times(evidence.followed)} "
    )
    yield Text(f"{found}followed by '{show(explanation.token)}'", style="bold")
    for each in evidence.sightings:
        line = Text(f"{each.path}:{each.line}: ", style="dim")
        line.append(_in_one_line(each.before), style="")
        line.append(_in_one_line(each.found), style="bold blue")
        line.append(_in_one_line(each.after), style="")
        yield line


def _in_one_line(text: str) -> str:
    return visible(re.sub(r"\s+", " ", text))


def _mixture(inside: Mixture) -> Iterator[Section]:
    title = f"the parts of the mix (weights by {inside.by})"
    table = _table(title, "part", "weight", "probability", "contribution", "")
    top = max(share.contribution for share in inside.shares) or 1.0
    for share in inside.shares:
        figures = (f"{share.weight:.4f}", f"{share.probability:.6f}", f"{share.contribution:.6f}")
        table.add_row(Text(share.part), *figures, _bar(share.contribution / top))
    table.add_row("sum", "", "", f"{inside.probability:.6f}", "", style="bold")
    yield table
    yield Text("")


def _residual_stream(inside: ResidualStream, tokens: Sequence[str], token: str) -> Iterator[Section]:
    yield _contributions(inside)
    yield _lens(inside, token)
    looks = _table("\nwhat each head attends to from the last position", "head", "token and weight", left=2)
    for layer, heads in enumerate(inside.attention, 1):
        for head, weights in enumerate(heads, 1):
            best = weights[-1].argsort()[::-1][:4]
            seen = "  ".join(f"{show(tokens[place])} {weights[-1, place]:.2f}" for place in best)
            looks.add_row(f"layer {layer}, head {head}", Text(seen))
    yield looks
    yield Text("")


def _contributions(inside: ResidualStream) -> Table:
    capped = f" (capped: {inside.capped_logit:.3f})" if abs(inside.logit - inside.capped_logit) > 1e-3 else ""
    table = _table(f"contributions to the logit, {inside.logit:.3f}{capped}", "part", "adds", "")
    ordered = sorted(inside.contributions, key=lambda each: -abs(each.logit))
    top = abs(ordered[0].logit) or 1.0
    for each in ordered[:SHOWN_TOKENS]:
        where = each.part if each.layer is None else f"layer {each.layer}, {each.part}"
        bar = Text(_bar(abs(each.logit) / top), style="blue" if each.logit >= 0 else "yellow")
        table.add_row(where, f"{each.logit:+.3f}", bar)
    rest = sum(each.logit for each in ordered[SHOWN_TOKENS:])
    if len(ordered) > SHOWN_TOKENS:
        table.add_row(f"{len(ordered) - SHOWN_TOKENS} others", f"{rest:+.3f}", "")
    return table


def _lens(inside: ResidualStream, token: str) -> Table:
    names = ("after", "next token", "probability", f"of '{show(token)}'")
    lens = _table("\nlogit lens: what each layer would predict", *names, left=2)
    for depth, guesses in enumerate(inside.lens):
        name = "embedding" if depth == 0 else f"layer {depth}"
        guess = guesses[-1]
        lens.add_row(name, Text(show(guess.token)), f"{guess.probability:.4f}", f"{guess.probability_of_token:.4f}")
    return lens


def _gates(inside: Gates, tokens: Sequence[str]) -> Iterator[Section]:
    said = f"half of all influence on the next token is within the latest {inside.half_within:,} tokens, nine tenths "
    yield Text(f"{said}within {inside.most_within:,}\n")
    for number, layer in enumerate(inside.layers, 1):
        means = {name: abs(values).mean(1).tolist() for name, values in (layer.gates | layer.state).items()}
        title = f"layer {number}: means over its units (absolute values for states and candidates)"
        yield _by_token(title, tokens, means)
        yield Text("")


def _positions(inside: Positions, tokens: Sequence[str]) -> Iterator[Section]:
    heads = {f"head {head}": weights for head, weights in enumerate(inside.weights, 1)}
    adds = {} if inside.contributions is None else {ADDS: inside.contributions}
    yield _by_token("the weight of each position of the context", tokens, heads | adds, signed=ADDS)
    if inside.contributions is not None:
        yield Text(
            f"together with a constant of {inside.constant:+.3f} they add up to {inside.logit:.3f}\n", style="dim"
        )
