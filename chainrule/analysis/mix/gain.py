"""Measures a mix and its parts on one text, and whether the mix is significantly better than the best part."""

from dataclasses import asdict
from math import exp, isfinite

import numpy as np

from chainrule.analysis.mix.text import ScoredText
from chainrule.evaluation.figures import NATS_PER_BIT, Evaluation, MixEvaluation, MixPart
from chainrule.evaluation.score import Scores
from chainrule.evaluation.significance import paired_bootstrap
from chainrule.models.contract import architecture_of
from chainrule.models.mix import Model


def measure_gain(model: Model, text: ScoredText) -> MixEvaluation:
    """The figures of the mix and of each of its parts."""
    scores = [text.scores_of_part(part) for part in range(len(model.parts))]
    mixed = text.scores_of_mix(model)
    weights = model.weights[model.buckets(text.signal)].mean(0)
    parts: list[MixPart] = [
        {"name": name, "architecture": architecture_of(part), "weight": float(weight), **figures(each)}
        for name, part, weight, each in zip(model.names, model.parts, weights, scores, strict=True)
    ]
    best = int(np.argmin([each.nats.sum() for each in scores]))
    return {**figures(mixed), "parts": parts, "against": _compare(mixed, scores[best], model.names[best])}


def figures(scores: Scores) -> Evaluation:
    """As training reports them: per token with <eos>; None where infinite, or where tokens hide the text's bytes."""
    tokens, size = int(scores.tokens.sum()) + len(scores), int(scores.text_bytes.sum())
    nats = float(scores.nats.sum())
    loss = nats / tokens if isfinite(nats) else None
    return {
        "loss": loss,
        "perplexity": exp(loss) if loss is not None and loss < 700 else None,
        "bits_per_byte": nats / NATS_PER_BIT / size if loss is not None and not scores.changed.any() else None,
        "impossible_tokens": int(scores.impossible.sum()),
        "tokens": tokens,
        "documents": len(scores),
        "bytes": size,
    }


def _compare(mixed: Scores, part: Scores, name: str) -> dict[str, object] | None:
    """The paired bootstrap; None where there is one document only, or where the part thinks some text impossible."""
    if len(mixed) < 2 or not isfinite(part.nats.sum()):
        return None
    return {"run": name, **asdict(paired_bootstrap(mixed, part))}
