"""Discounts of Kneser-Ney, modified Kneser-Ney, absolute discounting and Katz, estimated from counts of counts.

The formulas are those of Chen and Goodman (1999). Where a corpus is too small, or has too few types (characters), for
them to make sense, the next simpler estimate is used and a note says so.
"""

from dataclasses import dataclass

import numpy as np

from chainrule.errors import UserError

FIXED = (0.5, 1.0, 1.5)  # what lmplz calls --discount_fallback


@dataclass(frozen=True)
class Discounts:
    """The discounts that are subtracted from counts of one, two, and three or more."""

    one: float
    two: float
    more: float
    note: str = ""

    def table(self) -> np.ndarray:
        return np.array([0.0, self.one, self.two, self.more])


def fixed(values: tuple[float, ...]) -> Discounts | None:
    """The discounts that someone chose: one for all counts, or three; None where they chose none."""
    if not values:
        return None
    one, two, more = values if len(values) == 3 else values * 3
    return Discounts(one, two, more)


def check_fixed(values: tuple[float, ...]) -> None:
    """Refuse discounts that would make counts negative, or words impossible that were not seen."""
    if len(values) not in (0, 1, 3):
        raise UserError(
            f"discounts are one number, or three (for counts of one, two, and three or more), got {len(values)}"
        )
    for value, most in zip(values, (1, 2, 3), strict=False):
        if not 0 < value <= most:
            raise UserError(f"the discount of a count of {most} must be above 0 and at most {most}, got {value:g}")


def counts_of_counts(counts: np.ndarray, highest: int = 4) -> list[int]:
    """How many of the counts are 0, how many 1, and so on up to `highest`."""
    small = counts[counts <= highest]
    return [int(n) for n in np.bincount(small, minlength=highest + 1)]


def modified(counts: np.ndarray, order: int) -> Discounts:
    """D_i = i - (i + 1) Y n_{i+1} / n_i with Y = n_1 / (n_1 + 2 n_2): the discounts of modified Kneser-Ney."""
    _, n1, n2, n3, n4 = counts_of_counts(counts)
    if min(n1, n2, n3, n4) > 0:
        y = n1 / (n1 + 2 * n2)
        one, two, more = 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3
        if 0 < one <= 1 and 0 <= two <= 2 and 0 <= more <= 3:
            return Discounts(one, two, more)
    return single(
        counts, order, f"order {order}: the three discounts cannot be estimated (n1..n4 = {n1}, {n2}, {n3}, {n4})"
    )


def single(counts: np.ndarray, order: int, why: str = "") -> Discounts:
    """One discount D = n_1 / (n_1 + 2 n_2) for all counts: absolute discounting and plain Kneser-Ney."""
    _, n1, n2, *_ = counts_of_counts(counts)
    if n1 > 0 and n2 > 0:
        d = n1 / (n1 + 2 * n2)
        return Discounts(d, d, d, f"{why}; used one discount of {d:.3f}" if why else "")
    why = why or f"order {order}: the discount cannot be estimated (n1, n2 = {n1}, {n2})"
    return Discounts(*FIXED, f"{why}; used fixed discounts {FIXED[0]}, {FIXED[1]:g}, {FIXED[2]}")


def good_turing(counts: np.ndarray, order: int, largest: int = 5) -> tuple[np.ndarray, str]:
    """Katz's ratios for r = 0 ... largest: d_r = (r*/r - A) / (1 - A) with A = (largest + 1) n_{largest+1} / n_1."""
    n = counts_of_counts(counts, largest + 1)
    ratios = np.ones(largest + 1)
    common = (largest + 1) * n[largest + 1] / n[1] if n[1] else 1.0
    for r in range(1, largest + 1):
        if n[r] and common < 1:
            ratios[r] = ((r + 1) * n[r + 1] / (r * n[r]) - common) / (1 - common)
    if common < 1 and all(0 < ratio <= 1 for ratio in ratios[1:]):
        return ratios, ""
    d = single(counts, order)
    small = np.arange(1, largest + 1)
    ratios[1:] = (small - np.minimum(d.table()[np.minimum(small, 3)], small)) / small
    return ratios, f"order {order}: Good-Turing discounts cannot be estimated; used absolute discounts of {d.one:.3f}"
