"""JSON has neither NaN nor infinities: null stands in their place."""

from math import isfinite
from typing import Any


def without_infinities(value: Any) -> Any:
    """The same nest of dicts, lists and tuples; names become strings and tuples lists, as JSON has them."""
    if isinstance(value, dict):
        return {str(name): without_infinities(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_infinities(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value
