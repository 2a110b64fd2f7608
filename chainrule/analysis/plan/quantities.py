"""Large numbers as people write them: reads '300B'; writes '174.6B', '2.79 TB', '81.1 years'."""

import math
import re

from chainrule.errors import UserError

SUFFIXES = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
LARGEST = 10**18
NUMBER = re.compile(r"(\d+(?:\.\d*)?(?:e\+?\d{1,3})?) *([kmbt]?)", re.IGNORECASE)
YEAR = 365.25 * 86_400
SPANS = (("second", 1.0), ("minute", 60.0), ("hour", 3600.0), ("day", 86_400.0), ("year", YEAR))


def parse_count(text: str, what: str) -> int:
    """'300B' -> 300,000,000,000; also '1.5M', '3e11', '300,000'."""
    found = NUMBER.fullmatch(text.strip().replace(",", "").replace("_", ""))
    if not found:
        raise UserError(f"{what} must be a number such as 500K, 1.5M, 300B or 3e11, got '{text}'")
    count = float(found[1]) * SUFFIXES[found[2].upper()]
    if not 1 <= count <= LARGEST:
        raise UserError(f"{what} must be from 1 to {LARGEST:.0e}, got '{text}'")
    return round(count)


def _scaled(value: float, units: tuple[str, ...], digits: int) -> tuple[str, str]:
    """The number in the largest unit, each 1,000 of the one before, in which it is at least 1; and that unit."""
    unit = 0
    while unit < len(units) - 1 and float(f"{value:.{digits}g}") >= 1000:
        value, unit = value / 1000, unit + 1
    return (f"{value:,.0f}" if value >= 1000 else f"{value:.{digits}g}"), units[unit]


def count_text(value: float, digits: int = 4) -> str:
    """174604259328 -> '174.6B'."""
    return "".join(_scaled(value, ("", "K", "M", "B", "T"), digits))


def flops_text(value: float) -> str:
    """3.1428e23 -> '3.14e23'."""
    return f"{value:.2e}".replace("e+", "e").replace("e0", "e")


def bytes_text(value: float) -> str:
    """2793668149248 -> '2.79 TB'."""
    return " ".join(_scaled(value, ("bytes", "kB", "MB", "GB", "TB", "PB"), 3))


def speed_text(value: float) -> str:
    """3.12e14 -> '312 teraflop/s'."""
    return " ".join(_scaled(value, ("flop/s", "kiloflop/s", "megaflop/s", "gigaflop/s", "teraflop/s", "petaflop/s"), 3))


def duration_text(seconds: float) -> str:
    """90 -> '1.5 minutes', 6e13 -> '1.9 million years'."""
    name, length = next(span for span in reversed(SPANS) if seconds >= span[1] or span is SPANS[0])
    count = seconds / length
    for word, size in (("billion", 10**9), ("million", 10**6)):
        if name == "year" and count >= size:
            return f"{count / size:,.3g} {word} years" if count < 1000 * size else f"{count / size:,.0f} {word} years"
    number = f"{count:,.0f}" if count >= 100 else f"{count:.3g}"
    return f"{number} {name}{'' if number == '1' else 's'}"


def significant(value: float, digits: int) -> float:
    """A number rounded to so many digits: 3637.06 to three is 3640."""
    return round(value, digits - 1 - math.floor(math.log10(value))) if value else 0.0
