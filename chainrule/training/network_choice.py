"""`--minutes M --one` and nothing else: which architecture, of which tokens, found by short trials on the text itself.

Every candidate trains for a moment on part of the training text; where there is time, the best two train again, for
longer (successive halving). What ranks them is bits per byte of documents of the training text that no trial has
learned from, so that tokenizers can be compared and the validation text chooses nothing.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from chainrule.data.texts import Texts
from chainrule.errors import Diverged
from chainrule.progress import quiet, say
from chainrule.tasks.base import Material, NoSettings
from chainrule.tasks.language import Task
from chainrule.text.choice import Tokenization
from chainrule.training.ensemble import from_all_over, is_open
from chainrule.training.ensemble_parts import BYTES, TrainPart, part_of, split
from chainrule.training.request import Request

TRIALS_PART = 0.1  # of the time goes to each round of trials, or more where that is too short for them
SHORTEST_TRIAL = 3.0  # seconds; in less, a network has hardly begun
LONGEST_SHARE = 0.3  # of the time, that trials may take; where that is too short, there are none
FINALISTS = 2
MUCH_TEXT = 300_000  # bytes, from which on a Transformer is taken without trials, and not an LSTM
MOST_LEARNING, MOST_CHOOSING = 2_000_000, 30_000  # bytes, of a trial


@dataclass(frozen=True)
class Candidate:
    model: str
    tokens: str

    def __str__(self) -> str:
        return f"{self.model} of {'byte pairs' if self.tokens == 'bpe' else self.tokens}"


SMALL_TEXT, LARGE_TEXT = Candidate("lstm", "characters"), Candidate("transformer", "characters")
CANDIDATES = (
    SMALL_TEXT,
    LARGE_TEXT,
    Candidate("lstm", "bpe"),
    Candidate("transformer", "bpe"),
    Candidate("lstm", "words"),
)


def leaves_network_open(request: Request) -> bool:
    """Whether a single network within a time is all that was asked for, of a text that can be read twice."""
    return request.one and request.start is None and is_open(replace(request, one=False)) and "-" not in request.inputs


def choose_network(request: Request, train_part: TrainPart) -> Request:
    """The request with the architecture and the tokenizer that did best. `train_part` trains one model by itself."""
    with part_of("a trial"), TemporaryDirectory() as name:
        chosen = _choose(_read(request, Path(name)), 60 * float(request.settings["minutes"]), train_part)
    return replace(request, model=chosen.model, tokenization=Tokenization(tokenizer=chosen.tokens))


def _choose(text: "TrialText", total: float, train_part: TrainPart) -> Candidate:
    each = max(TRIALS_PART * total / len(CANDIDATES), SHORTEST_TRIAL)
    if text.choosing is None or each * len(CANDIDATES) > LONGEST_SHARE * total:
        return SMALL_TEXT if text.size < MUCH_TEXT else LARGE_TEXT
    best = text.rank(CANDIDATES, each, train_part)
    longer = TRIALS_PART * total / FINALISTS
    return best[0] if longer < 2 * each else text.rank(best[:FINALISTS], longer, train_part)[0]


@dataclass(frozen=True)
class TrialText:
    """Documents from all over the training text."""

    learning: Texts
    choosing: Texts | None  # None: too little text
    size: int  # of the whole, in bytes
    folder: Path

    def rank(self, candidates: Sequence[Candidate], seconds: float, train_part: TrainPart) -> list[Candidate]:
        """By bits per byte after so many seconds each."""
        found = {candidate: self.try_out(candidate, seconds, train_part) for candidate in candidates}
        ranked = sorted(found, key=found.__getitem__)
        figures = ", ".join(f"{candidate} {found[candidate]:.3f}" for candidate in ranked)
        say(f"tried for {seconds:.1f} s each, bits per byte: {figures}")
        return ranked

    def try_out(self, candidate: Candidate, seconds: float, train_part: TrainPart) -> float:
        """Bits per byte of the text for choosing after so many seconds."""
        assert self.choosing is not None
        trial = Request(
            (self.learning.name,),
            validation=(self.choosing.name,),
            model=candidate.model,
            tokenization=Tokenization(tokenizer=candidate.tokens),
            settings={"minutes": seconds / 60},
            path=self.folder / "trial",
            overwrite=True,
            started_at=time.time(),
        )
        try:
            with quiet():
                trained = train_part(trial).trained
        except Diverged:
            return inf
        validation = trained["validation"] if trained else None
        return inf if validation is None or validation["bits_per_byte"] is None else validation["bits_per_byte"]


def _read(request: Request, folder: Path) -> TrialText:
    material = Material(request.inputs, request.validation, request.reading, request.splitting, BYTES)
    Task.prepare(material, NoSettings(), Task.open_data(material, NoSettings()), folder)
    with quiet():
        text = split(Task(folder))

    def documents(stream: np.ndarray, most: int) -> Texts | None:
        if not len(stream):
            return None
        chosen = from_all_over(stream, most)
        ends = np.flatnonzero(chosen == stream[0])
        return Texts(text.decode(chosen[first + 1 : last]) for first, last in pairwise(ends))

    learning, choosing = documents(text.learning, MOST_LEARNING), documents(text.choosing, MOST_CHOOSING)
    assert learning is not None
    return TrialText(learning, choosing, len(text.learning) + len(text.choosing), folder)
