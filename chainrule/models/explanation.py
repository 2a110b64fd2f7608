"""What a model can say about one of its predictions in its own terms.

Every model is explained in general terms without doing anything: its distribution, its surprise, what leaving a token
out changes. A model that has a method `look_inside` adds terms of its own, as one of the dataclasses below. Whoever
shows an explanation goes by `kind`, never by the model, so an architecture of one file can use any of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np

TokenText: TypeAlias = Callable[[int], str]  # how a token id is shown to a person


@dataclass(frozen=True)
class Rung:
    """One order of a back-off ladder. Order 0 is any token at all, 1/V each."""

    order: int
    context: list[str]
    own: float  # the probability that this order gives by itself
    leftover: float  # the share that it leaves to shorter contexts
    weight: float  # the share that longer contexts have left to it
    contribution: float  # weight x own
    count: int | None = None  # how often the token came after this context; None: the model does not know
    total: int | None = None  # how often any token did
    counted: int | None = None  # what smoothing takes for `count`: Kneser-Ney counts the different words before
    counted_total: int | None = None
    discount: float | None = None  # taken away from `counted`


@dataclass(frozen=True)
class Ladder:
    """The probability of an n-gram model as a sum over the orders of its contexts."""

    kind: ClassVar = "ladder"
    smoothing: str
    rungs: list[Rung]  # the longest context first
    probability: float  # the sum of their contributions


@dataclass(frozen=True)
class Share:
    """One part of a mix."""

    part: str
    weight: float
    probability: float  # that the part gives by itself
    contribution: float  # weight x probability


@dataclass(frozen=True)
class Mixture:
    """The probability of a mix as a weighted sum over its parts."""

    kind: ClassVar = "mixture"
    shares: list[Share]
    probability: float  # the sum of their contributions
    by: str  # what the weights depend on


@dataclass(frozen=True)
class GatedLayer:
    """The values of each gate and of each part of the state at every token: (time, width)."""

    gates: dict[str, np.ndarray]
    state: dict[str, np.ndarray]


@dataclass(frozen=True)
class Gates:
    """The gates and states of a recurrent model through time, and how far back a token has influence."""

    kind: ClassVar = "gates"
    layers: list[GatedLayer]
    influence: list[float]  # of each token read, the latest last: the norm of ∂ log p(token) / ∂ (its vector)
    half_within: int  # how many of the latest tokens have half of all influence
    most_within: int  # and nine tenths


@dataclass(frozen=True)
class Contribution:
    """What one part of a residual stream adds to the logit of the token."""

    layer: int | None  # from 1; None: before and after the layers
    part: str  # embedding, n-grams, position, head 1 ..., feed-forward, bias
    logit: float


@dataclass(frozen=True)
class Guess:
    """What the stream at one depth predicts after one of the latest positions."""

    token: str
    probability: float
    probability_of_token: float  # of the token that is explained, or of the one that did come


@dataclass(frozen=True)
class ResidualStream:
    """Attention of every head, the logit lens of every layer, and the logit as a sum over the parts of the stream."""

    kind: ClassVar = "transformer"
    attention: np.ndarray  # (layers, heads, time, time): softmax weights of every query over what it can see
    lens: list[list[Guess]]  # by depth, 0 the embeddings; then by position, the latest of them
    contributions: list[Contribution]  # they add up to the logit, before a cap on it
    logit: float
    capped_logit: float


@dataclass(frozen=True)
class Positions:
    """What each position of the context weighs. One entry for each token read, 0 for those out of reach."""

    kind: ClassVar = "positions"
    weights: list[list[float]]  # for each head; none where a model has no weights
    contributions: list[float] | None  # to the token's logit; with `constant` they add up to it
    constant: float | None
    logit: float


@dataclass(frozen=True)
class Series:
    """Any figures with one value for each token read, for what none of the other kinds describes."""

    kind: ClassVar = "series"
    title: str
    figures: dict[str, list[float]] = field(default_factory=dict)  # name: one value per token


InnerTerms: TypeAlias = Ladder | Mixture | Gates | ResidualStream | Positions | Series


@runtime_checkable
class LooksInside(Protocol):
    """A model that explains its predictions in terms of its own."""

    def look_inside(self, ids: np.ndarray, token: int, token_text: TokenText) -> InnerTerms:
        """Why `token` comes after `ids`, the last of which is the latest token."""
        ...


@runtime_checkable
class MatchesContexts(Protocol):
    """A model that counts, and so knows which end of a text it met in its training text."""

    def matched_context(self, ids: np.ndarray) -> list[int]:
        """The longest end of `ids` that was met as a context; empty if not even the last token was."""
        ...
