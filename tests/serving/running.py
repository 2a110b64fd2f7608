"""Coroutines in tests: in a thread of their own, as playwright keeps a loop running in the thread of the tests."""

from asyncio import run
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run, work).result()
