"""Range checks shared by the settings of sampling and of beam search."""

from math import inf, isnan
from numbers import Integral, Real
from typing import Any

from chainrule.errors import UserError


def require_number(name: str, value: Any, low: float, high: float = inf) -> None:
    """Refuse what is not a finite number from `low` to `high`, saying what is allowed."""
    _require(name, value, Real, "a number", low, high)


def require_whole(name: str, value: Any, low: int, high: float = inf) -> None:
    """Refuse what is not a whole number from `low` to `high`, saying what is allowed."""
    _require(name, value, Integral, "a whole number", low, high)


def _require(name: str, value: Any, kind: type, described: str, low: float, high: float) -> None:
    is_kind = isinstance(value, kind) and not isinstance(value, bool)
    if is_kind and not isnan(value) and low <= value <= high and abs(value) != inf:
        return
    allowed = f"of at least {low}" if high == inf else f"from {low} to {high}"
    raise UserError(f"{name} must be {described} {allowed}, got {value!r}")
