"""The facts of one explained prediction, which the terminal, the page and JSON show."""

from dataclasses import dataclass, field

from chainrule.analysis.explain.distribution import Distribution
from chainrule.analysis.explain.importance import Importance
from chainrule.analysis.explain.places import Evidence
from chainrule.models.explanation import InnerTerms


@dataclass(frozen=True)
class Prediction:
    """Why `token` after `text`. Lists of figures are about tokens[1:], as nothing was read before the first token:
    the <eos> that begins a text, or the first word of a text too long."""

    model: str  # the name of its architecture
    text: str
    tokens: list[str]
    token: str
    probability: float
    surprise: list[float]  # bits of each token, before it came
    distribution: Distribution
    importance: Importance
    inside: InnerTerms | None = None  # the model's own terms
    evidence: Evidence | None = None
    separator: str = ""  # what stands between tokens that are words
    notes: list[str] = field(default_factory=list)
