"""The settings of a lesson: counts as a class makes them by hand, on the blackboard.

Every word is a token, the whole text is counted, and a probability is a count divided by another.
"""

from collections.abc import Iterable

from chainrule.errors import UserError

LESSON: dict[str, object] = {
    "order": 3,
    "smoothing": "maximum-likelihood",
    "tokenizer": "words",
    "min_count": 1,  # no word is spelled in bytes
    "validation_fraction": 0.0,  # nothing is kept aside
}


def check_lesson(task: str, model: str | None, settings: Iterable[str]) -> None:
    """Refuse what a lesson is not: another task, a model that learns by gradient, a budget."""
    if task != "language" or model not in (None, "ngram"):
        raise UserError(f"a lesson counts n-grams of words, not {model or task}; leave one of the two out")
    for name in settings:
        if name in ("minutes", "steps", "tokens", "epochs"):
            raise UserError(f"a lesson counts its text once, so it takes no {name}; leave that out")
