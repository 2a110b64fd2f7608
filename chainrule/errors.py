"""The one error people are meant to see: what is wrong, what was found, what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Bad input or settings. The command line prints it as one line and exits with code 2."""


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """'; did you mean 'poems'?' where something known is close to `wrong`, else the empty string."""
    close = get_close_matches(wrong, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""
