"""The settings of learning from preferences: a method, and the numbers that belong to it."""

from dataclasses import asdict, dataclass
from typing import Any

from chainrule.checks import require_choice, require_fractions, require_number, require_sizes
from chainrule.errors import UserError

DEFAULTS = {  # those of the papers
    "dpo": {"beta": 0.1},
    "orpo": {"odds_weight": 0.1},
    "simpo": {"beta": 2.0, "gamma": 0.5},
}
RATES = {"dpo": 0.1, "orpo": 1.0, "simpo": 0.1}  # of learning, as a share of the usual one of training that goes on
NUMBERS = ("beta", "gamma", "odds_weight")


@dataclass(frozen=True)
class Settings:
    method: str = "dpo"  # what is minimised: dpo, orpo or simpo
    beta: float | None = None  # how much the margin between two answers counts; default: 0.1 with dpo, 2 with simpo
    gamma: float | None = None  # the margin that simpo asks for; default: 0.5
    odds_weight: float | None = None  # the weight of orpo's odds ratio, λ in its paper; default: 0.1
    label_smoothing: float = 0.0  # with dpo and simpo, the share of pairs that are taken for the wrong way round
    sft_weight: float = 0.0  # with dpo and simpo, how much -log p per token of the chosen answer counts beside them
    most_tokens: int = 1024  # of a prompt with an answer; pairs with more are left out

    def __post_init__(self) -> None:
        require_choice("method", self.method, DEFAULTS)
        require_sizes(self, "most_tokens")
        require_fractions(self, "label_smoothing")
        for name in NUMBERS:
            value = getattr(self, name)
            if value is None:
                continue
            require_number(name, value, 0)
            if name not in DEFAULTS[self.method]:
                owners = " and ".join(method for method, numbers in DEFAULTS.items() if name in numbers)
                raise UserError(f"{name} is a setting of {owners}, and the method is {self.method}; leave it out")
        if self.beta == 0:
            raise UserError("beta must be above zero, got 0")
        require_number("sft_weight", self.sft_weight, 0)
        for name in ("label_smoothing", "sft_weight"):
            if getattr(self, name) and self.method == "orpo":
                raise UserError(f"{name} is a setting of dpo and simpo, and the method is orpo; leave it out")

    def number(self, name: str) -> float:
        """One of NUMBERS, as given or as in the method's paper."""
        value = getattr(self, name)
        return float(DEFAULTS[self.method][name] if value is None else value)

    @property
    def has_reference(self) -> bool:
        """Whether answers are compared with how likely they were when training began."""
        return self.method == "dpo"

    def complete(self) -> dict[str, Any]:
        """All that apply, as config.json has them."""
        numbers = {name: self.number(name) for name in DEFAULTS[self.method]}
        return {name: value for name, value in asdict(self).items() if name not in NUMBERS} | numbers
