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
    alpha: float = setting(0.4, "What stupid back-off multiplies by for each word that a context is shortened by.")
    discounts: tuple[float, ...] = setting(
        (), "Fixed discounts of absolute and Kneser-Ney smoothing in place of estimated ones: one number for all "
        "counts, or three, for counts of one, two, and three or more.",
    )  # fmt: skip
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
        self._check_alpha()
        self._check_discounts()
        check_thresholds(self.prune, self.order)

    def _check_alpha(self) -> None:
        from chainrule.ngram.smoothing import ALPHA

        if not 0 < self.alpha <= 1:
            raise UserError(f"alpha must be above 0 and at most 1, got {self.alpha}")
        if self.alpha != ALPHA and self.smoothing != "stupid-backoff":
            raise UserError(
                f"alpha is a setting of stupid-backoff, and the smoothing is {self.smoothing}; leave it out"
            )

    def _check_discounts(self) -> None:
        from chainrule.ngram.discounts import check_fixed
        from chainrule.ngram.smoothing import METHODS

        check_fixed(self.discounts)
        discounting = [name for name, method in METHODS.items() if method.discounts]
        if self.discounts and self.smoothing not in discounting:
            names = ", ".join(discounting)
            raise UserError(f"discounts are settings of {names}, and the smoothing is {self.smoothing}; leave them out")
