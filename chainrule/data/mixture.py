"""A mixture of corpora: weights say what share of the tokens comes from each (as in table 2.2 of the GPT-3 paper).

Epochs elapsed for a source = weight * tokens seen / its size: above one it was repeated, below one not all was read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chainrule.errors import UserError


@dataclass(frozen=True)
class Source:
    name: str
    size: int  # tokens (or bytes) it has
    weight: float  # share of the mix


@dataclass(frozen=True)
class Mixture:
    sources: tuple[Source, ...]

    def __post_init__(self) -> None:
        if any(not source.weight > 0 for source in self.sources):
            raise UserError("every weight of a mixture must be above zero; leave out a corpus that should not count")

    @property
    def shares(self) -> tuple[float, ...]:
        """Weights scaled to sum to one."""
        total = sum(source.weight for source in self.sources)
        return tuple(source.weight / total for source in self.sources)

    def epochs(self, tokens_seen: float) -> dict[str, float]:
        """How many epochs of each source have been read after that many tokens of the mixture."""
        return {
            source.name: share * tokens_seen / source.size
            for source, share in zip(self.sources, self.shares, strict=True)
        }

    @property
    def tokens_without_repeats(self) -> float:
        """How many tokens of this mixture can be read before any text repeats: until the first source runs out."""
        return min(source.size / share for source, share in zip(self.sources, self.shares, strict=True))

    def kept(self) -> tuple[float, ...]:
        """The fraction to read of each source, once, for the largest corpus that has these shares."""
        total = self.tokens_without_repeats
        return tuple(
            min(1.0, share * total / source.size) for source, share in zip(self.sources, self.shares, strict=True)
        )


def parse_weighted(argument: str) -> tuple[str, float | None]:
    """'web.txt=0.6' -> ('web.txt', 0.6); a path that exists as it stands has no weight."""
    path, equals, number = argument.rpartition("=")
    if not equals or not path or Path(argument).exists():
        return argument, None
    try:
        weight = float(number)
    except ValueError:
        return argument, None
    if not 0 < weight < float("inf"):
        raise UserError(f"the weight of '{path}' must be a number above zero, got {number}")
    return path, weight


def parse_inputs(arguments: Sequence[str]) -> list[tuple[str, float | None]]:
    """Either every input has a weight or none has."""
    parsed = [parse_weighted(argument) for argument in arguments]
    weighted = [weight is not None for _, weight in parsed]
    if any(weighted) and not all(weighted):
        bare = next(path for path, weight in parsed if weight is None)
        raise UserError(
            f"'{bare}' has no weight but other inputs have one; write '{bare}=WEIGHT', or give no weights at all"
        )
    return parsed
