"""Checks of settings, so that the same mistake gets the same message everywhere."""

from collections.abc import Collection
from math import inf, isnan
from numbers import Integral, Real
from typing import Any

from chainrule.errors import UserError, did_you_mean


def require_number(name: str, value: object, low: float, high: float = inf) -> None:
    """Refuse a value that is not a finite number from `low` to `high`."""
    _require(name, value, Real, "a number", low, high)


def require_whole(name: str, value: object, low: int, high: float = inf) -> None:
    """Refuse a value that is not a whole number from `low` to `high`."""
    _require(name, value, Integral, "a whole number", low, high)


def _require(name: str, value: Any, kind: type, described: str, low: float, high: float) -> None:
    is_kind = isinstance(value, kind) and not isinstance(value, bool)
    if is_kind and not isnan(value) and low <= value <= high and abs(value) != inf:
        return
    allowed = f"of at least {low}" if high == inf else f"from {low} to {high}"
    raise UserError(f"{name} must be {described} {allowed}, got {value!r}")


def require_sizes(settings: object, *names: str) -> None:
    """Refuse these fields of the settings where they are below 1; None is allowed."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not value >= 1:
            raise UserError(f"{name} must be at least 1, got {value}")


def require_fractions(settings: object, *names: str) -> None:
    """Refuse these fields of the settings where they are not at least 0 and below 1, such as dropout."""
    for name in names:
        value = getattr(settings, name)
        if not 0 <= value < 1:
            raise UserError(f"{name} must be at least 0 and below 1, got {value}")


def require_choice(name: str, value: str, known: Collection[str]) -> None:
    """Refuse a value that is not one of `known`."""
    if value not in known:
        raise UserError(f"{name} must be one of {', '.join(known)}, got '{value}'{did_you_mean(value, known)}")
