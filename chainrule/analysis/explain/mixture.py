"""Inside a mix: what each part says, how much it is listened to in this context, and what that adds up to."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from chainrule.generation.decoder import Decoder
from chainrule.models import mix


@dataclass(frozen=True)
class Share:
    part: str
    weight: float
    probability: float  # that the part gives by itself
    contribution: float  # weight x probability


@dataclass(frozen=True)
class Inside:
    kind: ClassVar = "mixture"
    shares: list[Share]
    probability: float  # the sum of their contributions
    by: str  # what the weights go by


def look_inside(model: mix.Model, ids: np.ndarray, token: int) -> Inside:
    state = Decoder(model, ids[:-1]).state if len(ids) > 1 else model.start(1)
    found, weights, _ = model.ask(ids[None, -1:], state)
    chances = [float(np.exp(each[0, -1, token])) for each in found]
    shares = [
        Share(name, float(w), p, float(w) * p) for name, w, p in zip(model.names, weights[0, -1], chances, strict=True)
    ]
    by = "nothing: all contexts are alike" if model.guide is None else model.describe_signal()
    return Inside(shares, sum(share.contribution for share in shares), by)
