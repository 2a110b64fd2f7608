"""An explanation as HTML: one page, or a piece of a notebook, that loads nothing from elsewhere, in light and in dark.

How the model's own terms are drawn depends on their kind alone: templates/terms/<kind>.html.j2 and a view below.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chainrule.analysis.explain.prediction import Prediction
from chainrule.analysis.explain.rendering import render
from chainrule.analysis.explain.strips import HeatMap, Strips, TintedToken, make_heat_map, make_strips
from chainrule.models.explanation import Contribution, Gates, InnerTerms, Mixture, Positions, ResidualStream, Series

MOST_BITS = 16  # of surprise: the darkest tint
MOST_CONTRIBUTIONS = 20
SMALL_MAP, LARGE_MAP = 150, 260  # pixels


class Measure(NamedTuple):
    """One way to tell which tokens mattered."""

    name: str
    tokens: list[TintedToken]


def render_page(found: Prediction) -> str:
    """A whole page."""
    return render("page.html.j2", title=f"{found.token!r} after {found.text[-60:]!r}", **_values(found))


def render_fragment(found: Prediction) -> str:
    """The same for a notebook or another page."""
    return render("explanation.html.j2", **_values(found))


def _values(found: Prediction) -> dict[str, object]:
    """What the template shows."""
    return {
        "found": found,
        "read": " ".join(found.text.split())[-80:],
        "bits": -np.log2(max(found.probability, 1e-300)),
        "largest": max((each.probability for each in found.distribution.top), default=1.0) or 1.0,
        "mean_bits": np.mean(found.surprise) if found.surprise else 0.0,
        "surprise": _surprise(found),
        "importance": _importance(found),
        "terms": found.inside,
        "view": None if found.inside is None else view(found.inside, found.tokens),
    }


def _surprise(found: Prediction) -> list[TintedToken]:
    """The more surprising, the more orange."""
    return [
        TintedToken(token, -bits / MOST_BITS, f"{bits:.2f} bits")
        for token, bits in zip(found.tokens[1:], found.surprise, strict=True)
    ]


def _importance(found: Prediction) -> list[Measure]:
    importance = found.importance
    measures = [Measure("Left out: how log p falls without the token", _tinted(found, importance.left_out))]
    if importance.gradient is not None:
        measures.append(Measure("Gradient times input", _tinted(found, importance.gradient)))
    return measures


def _tinted(found: Prediction, figures: Sequence[float | None]) -> list[TintedToken]:
    """Tokens tinted in proportion to the largest finite figure."""
    known = [abs(each) for each in figures if each is not None and np.isfinite(each)]
    largest = max(known, default=0.0) or 1.0
    return [
        TintedToken(token, 0.0, "not measured")
        if each is None
        else TintedToken(token, max(-1.0, min(each / largest, 1.0)), f"{each:+.3f} nats")
        for token, each in zip(found.tokens[1:], figures, strict=True)
    ]


def view(terms: InnerTerms, tokens: Sequence[str]) -> object:
    """What the template of these terms draws beside the terms themselves; tokens (time,) are those of the text."""
    match terms:
        case Mixture():
            return {"largest": max(share.contribution for share in terms.shares) or 1.0}
        case ResidualStream():
            return StreamView.of(terms, tokens)
        case Gates():
            return GatesView.of(terms, tokens)
        case Positions():
            return _positions(terms, tokens)
        case Series():
            rows = {name: np.array(values) for name, values in terms.figures.items()}
            return {"figures": make_strips(tokens, rows, _scale(list(rows.values())))}
    return None


class StreamView(NamedTuple):
    """Attention, lens and contributions of a residual stream."""

    contributions: list[Contribution]
    largest: float
    more: int  # contributions that are not shown
    is_capped: bool
    lens_tokens: list[str]
    from_last: Strips
    maps: list[HeatMap]

    @classmethod
    def of(cls, stream: ResidualStream, tokens: Sequence[str]) -> "StreamView":
        ordered = sorted(stream.contributions, key=lambda each: -abs(each.logit))
        heads = {
            f"layer {layer}, head {head}": weights
            for layer, of_layer in enumerate(stream.attention, 1)
            for head, weights in enumerate(of_layer, 1)
        }
        return cls(
            ordered[:MOST_CONTRIBUTIONS],
            max((abs(each.logit) for each in ordered), default=1.0) or 1.0,
            max(len(ordered) - MOST_CONTRIBUTIONS, 0),
            abs(stream.logit - stream.capped_logit) > 1e-3,
            list(tokens[len(tokens) - len(stream.lens[0]) :]),
            make_strips(tokens, {name: weights[-1] for name, weights in heads.items()}),
            [make_heat_map(weights, name, SMALL_MAP, 1.0, tokens, tokens) for name, weights in heads.items()],
        )


class GatesView(NamedTuple):
    """Influence, means over units, and every unit through time."""

    influence: Strips
    means: Strips
    maps: list[HeatMap]

    @classmethod
    def of(cls, gates: Gates, tokens: Sequence[str]) -> "GatesView":
        means, maps = {}, []
        for number, layer in enumerate(gates.layers, 1):
            for part, values in (layer.gates | layer.state).items():
                name = f"layer {number}, {part}"
                is_gate = float(values.min()) >= 0  # gates are from 0 to 1, states and candidates have a sign
                means[name] = values.mean(1) if is_gate else np.abs(values).mean(1)
                scale = 1.0 if is_gate else float(np.abs(values).max())
                maps.append(make_heat_map(values.T, name, LARGE_MAP, scale, columns=tokens))
        influence = np.array(gates.influence)
        shares = {"influence": influence / (influence.max() or 1.0)}
        return cls(make_strips(tokens, shares), make_strips(tokens, means), maps)


def _positions(terms: Positions, tokens: Sequence[str]) -> dict[str, Strips | None]:
    weights = {f"head {head}": np.array(each) for head, each in enumerate(terms.weights, 1)}
    contributions = None
    if terms.contributions is not None:
        figures = np.array(terms.contributions)
        contributions = make_strips(tokens, {"contribution": figures}, _scale([figures]))
    return {"weights": make_strips(tokens, weights) if weights else None, "contributions": contributions}


def _scale(rows: Sequence[np.ndarray]) -> float:
    """The largest size of all figures, or 1 if there are none."""
    return max((float(np.abs(row).max()) for row in rows if row.size), default=0.0) or 1.0
