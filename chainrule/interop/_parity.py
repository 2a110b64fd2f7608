"""Compares the logits that another program computes from exported files with the model's own.

The difference allowed grows with the largest logit where that is above 1: numbers of 32 bits have seven digits.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np
import torch

from chainrule.errors import UserError
from chainrule.interop._readers import Reader
from chainrule.models._neural import NeuralModel
from chainrule.text.base import Tokenizer

TEXTS = (
    "",
    "The cat",
    "It's 12,345 o'clock; we'll see\n\n  what  THE day brings.",
    "naïve café – 日本語 😀\ttab",
    "words like <eos> and </s> and <unk> written out",
)
LONGEST = 64  # tokens of a prompt that are compared
LIMIT = 1e-4


@dataclass(frozen=True)
class Check:
    """What was found with one reader; where `difference` is None it was not asked, and `note` says why."""

    reader: str
    difference: float | None = None
    limit: float | None = LIMIT  # None: any difference is allowed, as by rounding that was asked for
    same_tokens: bool | None = None  # None: it reads no tokenizer
    prompts: int = 0
    tokens: int = 0
    note: str = ""

    @property
    def agrees(self) -> bool:
        if self.difference is None:
            return True
        return (self.limit is None or self.difference <= self.limit) and self.same_tokens is not False

    def sentence(self) -> str:
        """For people: who has checked what, and the result."""
        if self.difference is None:
            return f"not checked with {self.reader}: {self.note}"
        if self.difference == inf:
            return f"checked with {self.reader}: {self.note or 'its logits are of another shape, or not numbers'}"
        tokens = {None: "", True: ", tokenizes text alike", False: ", tokenizes text differently"}[self.same_tokens]
        limit = "" if self.limit is None else f" (limit {self.limit:.1e})" if self.limit else " (none allowed)"
        note = f"; {self.note}" if self.note else ""
        return (
            f"checked with {self.reader}: logits differ by {self.difference:.1e} at most{limit}{tokens}; "
            f"{self.prompts} prompts, {self.tokens} tokens{note}"
        )


@dataclass(frozen=True)
class Question:
    """A reader to be asked if its package is installed, and how much its logits may differ from the model's."""

    package: str
    install: str
    open: Callable[[], Reader]
    model: NeuralModel
    limit: float | None = LIMIT
    note: str = ""
    unable: str = ""  # why this reader cannot be asked, though it reads such files

    def ask(self, tokenizer: Tokenizer) -> Check:
        """Let the reader read the files, and compare."""
        if self.unable:
            return Check(self.package, note=self.unable)
        if importlib.util.find_spec(self.package) is None:
            return Check(self.package, note=f"not installed (pip install {self.install})")
        try:
            return compare(self.open(), self.model, tokenizer, self.limit, self.note)
        except Exception as error:  # any error means that it cannot read the files
            what = " ".join(str(error).split())[:160]
            return Check(self.package, inf, self.limit, note=f"it could not read the files ({what})")


def compare(
    reader: Reader, model: NeuralModel, tokenizer: Tokenizer, limit: float | None = LIMIT, note: str = ""
) -> Check:
    asked = prompts(model, tokenizer)
    worst, largest, same = 0.0, 1.0, True
    for text, ids in asked:
        there = None if text is None else reader.tokenize(text)
        same = same and (there is None or there[: _longest(model)] == ids)
        with torch.no_grad():
            ours = model.step(torch.tensor([ids]), model.start(1))[0][0].numpy()
        worst = max(worst, _difference(reader.logits(ids), ours))
        largest = max(largest, float(np.abs(ours).max()))
    return Check(
        reader.name,
        worst,
        None if limit is None else limit * largest,
        same if reader.tokenize("a") is not None else None,
        len(asked),
        sum(len(ids) for _, ids in asked),
        note,
    )


def prompts(model: NeuralModel, tokenizer: Tokenizer) -> list[tuple[str | None, list[int]]]:
    """The ids of some texts, and random ids from the whole vocabulary that are no text (None)."""
    most = _longest(model)
    start = [] if tokenizer.start is None else [tokenizer.start]
    found: list[tuple[str | None, list[int]]] = []
    for text in TEXTS:
        ids = [*start, *map(int, tokenizer.encode(text))][:most]
        if ids:
            found.append((text, ids))
    some = np.random.default_rng(1).integers(0, model.vocabulary_size, most)
    return [*found, (None, some.tolist())]


def _longest(model: NeuralModel) -> int:
    return min(LONGEST, model.context_length or LONGEST)


def _difference(theirs: np.ndarray, ours: np.ndarray) -> float:
    """The largest difference; infinite where shapes differ or a logit is not finite."""
    if theirs.shape != ours.shape or not np.isfinite(theirs).all():
        return inf
    return float(np.abs(theirs - ours).max())


def refuse_difference(checks: list[Check]) -> None:
    """Raise an error if a reader does not agree."""
    for each in checks:
        if not each.agrees:
            raise UserError(
                f"the exported files were removed, as they do not compute the same as this model: {each.sentence()}"
            )
