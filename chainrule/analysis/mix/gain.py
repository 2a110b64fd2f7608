"""What a mix gains: the figures of every part and of the mix on one text, and whether the difference is real."""

from dataclasses import asdict
from math import exp, isfinite

import numpy as np

from chainrule.analysis.mix.text import Text
from chainrule.evaluation.figures import NATS_PER_BIT, Evaluation, MixEvaluation, MixPart
from chainrule.evaluation.score import Scores
from chainrule.evaluation.significance import paired_bootstrap
from chainrule.models.contract import architecture_of
from chainrule.models.mix import Model


def measure_gain(model: Model, text: Text) -> MixEvaluation:
    """The figures of the mix; of each part in `parts`, with its mean weight; and `against` the best part."""
    scores = [text.scores_of_part(part) for part in range(len(model.parts))]
    mixed = text.scores_of_mix(model)
    weights = model.weights[model.buckets(text.signal)].mean(0)
    lossless = text.tokenizer.is_lossless
    parts: list[MixPart] = [
        {"name": name, "architecture": architecture_of(part), "weight": float(weight), **figures(each, lossless)}
        for name, part, weight, each in zip(model.names, model.parts, weights, scores, strict=True)
    ]
    best = int(np.argmin([each.nats.sum() for each in scores]))
    return {**figures(mixed, lossless), "parts": parts, "against": _compare(mixed, scores[best], model.names[best])}


def figures(scores: Scores, is_lossless: bool) -> Evaluation:
    """As training reports them: per token with <eos>; None where infinite, or where tokens hide the text's bytes."""
    tokens, size = int(scores.tokens.sum()) + len(scores), int(scores.text_bytes.sum())
    nats = float(scores.nats.sum())
    loss = nats / tokens if isfinite(nats) else None
    return {
        "loss": loss,
        "perplexity": exp(loss) if loss is not None and loss < 700 else None,
        "bits_per_byte": nats / NATS_PER_BIT / size if loss is not None and is_lossless else None,
        "impossible_tokens": int(scores.impossible.sum()),
        "tokens": tokens,
        "documents": len(scores),
        "bytes": size,
    }


def _compare(mixed: Scores, part: Scores, name: str) -> dict[str, object] | None:
    """None where there is nothing to resample, or no part takes the whole text for possible."""
    if len(mixed) < 2 or not isfinite(part.nats.sum()):
        return None
    return {"run": name, **asdict(paired_bootstrap(mixed, part))}
