"""Waiting for what a page says. Playwright's own way needs eval, which the page's policy forbids."""

import time
from typing import Any


def until(page: Any, expression: str, seconds: float = 15.0) -> None:
    """Until this JavaScript is true."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"never came true: {expression}"
        time.sleep(0.02)
