"""The settings of an n-gram model; what they are checked with is loaded only when one is made."""

from dataclasses import dataclass

from chainrule import registry
from chainrule.config import setting
from chainrule.errors import UserError, did_you_mean

IMPORTED = "imported"  # the smoothing of a model that was read from an ARPA file
MOST_WORDS = 200  # an n-gram of this many words; the counting kernels keep lengths in a byte


def smoothings() -> list[str]:
    """The names of the smoothing methods, without loading them."""
    return registry.table_names("chainrule.ngram.smoothing", "METHODS")


@dataclass(frozen=True)
class Config:
    order: int = setting(5, "The n of an n-gram; default: 5, or that of --size.", flag=True)
    smoothing: str = setting(
        "modified-kneser-ney", "The smoothing of an n-gram: {names}; the first is the default.", flag=True,
        metavar="NAME", names=smoothings,
    )  # fmt: skip
    k: float = setting(1.0, "What add-k smoothing adds to every count.")
    prune: tuple[int, ...] = setting(
        (), "Drop n-grams that occur this often or less: a threshold for each length, the first 0, never falling.",
        flag=True, metavar="'0 0 1'",
    )  # fmt: skip

    def __post_init__(self) -> None:
        from chainrule.ngram.prune import check_thresholds
        from chainrule.ngram.smoothing import METHODS

        if not 1 <= self.order <= MOST_WORDS:
            raise UserError(f"the order must be between 1 and {MOST_WORDS}, got {self.order}")
        if self.smoothing not in METHODS and self.smoothing != IMPORTED:
            known = ", ".join(METHODS)
            raise UserError(
                f"unknown smoothing '{self.smoothing}'{did_you_mean(self.smoothing, METHODS)} (there are: {known})"
            )
        if not 0 < self.k < float("inf"):
            raise UserError(f"k must be a number above zero, got {self.k}")
        check_thresholds(self.prune, self.order)
