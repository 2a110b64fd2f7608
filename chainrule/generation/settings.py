"""The settings of sampling."""

from dataclasses import dataclass, replace
from secrets import randbits

from chainrule.checks import require_number, require_whole
from chainrule.errors import UserError

LARGEST_SEED = 2**64 - 1


@dataclass(frozen=True)
class Sampling:
    """How to draw samples. They are numbered from `first_sample`, and number i depends on the seed and on i alone."""

    temperature: float = 1.0  # 0 is greedy
    top_k: int = 0  # 0 keeps every token
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    max_tokens: int = 200
    stop: tuple[str, ...] = ()
    seed: int | None = None
    samples: int = 1
    first_sample: int = 0
    alternatives: int = 0  # how many of the most likely tokens to report with each token drawn
    truncate: bool = False  # read the last tokens of a prompt that is too long

    def __post_init__(self) -> None:
        require_number("temperature", self.temperature, 0)
        require_whole("top_k", self.top_k, 0)
        require_number("top_p", self.top_p, 0, 1)
        require_number("min_p", self.min_p, 0, 1)
        require_number("repetition_penalty", self.repetition_penalty, 0.01, 100)
        require_whole("max_tokens", self.max_tokens, 1)
        require_whole("samples", self.samples, 1)
        require_whole("first_sample", self.first_sample, 0, 2**32)
        require_whole("alternatives", self.alternatives, 0)
        if self.seed is not None:
            require_whole("seed", self.seed, 0, LARGEST_SEED)
        if not isinstance(self.stop, tuple) or not all(isinstance(text, str) and text for text in self.stop):
            raise UserError(f"stop must be a tuple of strings that are not empty, got {self.stop!r}")

    @property
    def filters(self) -> tuple[float, int, float, float, float]:
        """The settings that reshape a distribution."""
        return self.temperature, self.top_k, self.top_p, self.min_p, self.repetition_penalty

    def seeded(self) -> "Sampling":
        """The same settings with a seed, a random one where there was none, so that the samples can be reproduced."""
        return self if self.seed is not None else replace(self, seed=randbits(32))
