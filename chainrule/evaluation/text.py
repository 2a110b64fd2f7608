"""How well a model predicts a text: its figures, those of every document, the hardest passages, and how much better or
worse another model is."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TypedDict

import numpy as np

from chainrule.checks import require_whole
from chainrule.data.documents import Documents
from chainrule.errors import UserError
from chainrule.evaluation.score import NATS_PER_BIT, Scores, figures, score
from chainrule.evaluation.seen import Seen, TrainedOn
from chainrule.evaluation.significance import paired_bootstrap
from chainrule.evaluation.worst_passages import worst_passages
from chainrule.kernels.waiting import considerate_waits
from chainrule.models.contract import LanguageModel
from chainrule.progress import Advance, progress
from chainrule.text.base import Tokenizer

MOST_PASSAGES = 100


class Text(Protocol):
    """Documents that can be read again and again: a corpus, or what a run kept aside."""

    @property
    def total_bytes(self) -> int: ...

    @property
    def unit(self) -> str: ...

    @property
    def notes(self) -> list[str]: ...

    @property
    def changed_documents(self) -> int: ...  # that are no longer what was in the files

    def batches(self, progress: Advance | None = None) -> Iterator[Documents]: ...

    def cut_by(self, unit: str) -> Iterator[Documents]: ...


class Measurable(Protocol):
    """A run: a model, the tokenizer it belongs to, and where both are."""

    @property
    def path(self) -> Path: ...

    @property
    def model(self) -> LanguageModel: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    def trained_on(self) -> TrainedOn | None: ...


class DocumentFigures(TypedDict):
    """How well one document was predicted, and where it begins."""

    path: str
    line: int
    tokens: int
    unknown_tokens: int
    nats: float
    bits_per_byte: float | None  # None: the document is not what its tokens spell


class Against(TypedDict):
    """How much better (below zero) or worse a model is than another, in bits per byte, with a 95 % interval."""

    run: str
    bits_per_byte: float
    low: float
    high: float
    p_value: float
    rounds: int
    other_bits_per_byte: float | None
    other_perplexity: float | None
    other_seen: Seen | None  # how much of the text the other run was trained on; None: not known


def evaluate_text(
    run: Measurable, text: Text, *, worst: int = 0, documents: bool = False, against: Measurable | None = None
) -> dict[str, Any]:
    """The figures of a text, `seen` of how much of it the run was trained on, and `notes`; `worst_passages`,
    `per_document` and `against` where they are asked for."""
    require_whole("worst", worst, 0, MOST_PASSAGES)
    if against is not None:
        check_comparable(run, against)
    scores = score_text(run, text)
    found: dict[str, Any] = dict(figures(scores, run.model))
    if text.changed_documents:
        found |= {"changed_documents": text.changed_documents, "bits_per_byte": None, "bits_per_character": None}
    if worst:
        hardest = worst_passages(run.model, run.tokenizer, text.batches(), worst)
        found["worst_passages"] = [asdict(passage) for passage in hardest]
    if documents:
        found["per_document"] = per_document(scores)
    if against is not None:
        others = score_text(against, text)
        check_same_text(run, scores, against, others)
        found["against"] = compare_scores(scores, against, others, text)
    found["seen"] = count_seen(run, text)
    found["notes"] = text.notes
    return found


def score_text(run: Measurable, text: Text) -> Scores:
    """The scores of every document of a text."""
    model = run.model  # may bring in torch
    with considerate_waits(), progress("scoring", text.total_bytes) as advance:
        return score(model, run.tokenizer, text.batches(advance))


def count_seen(run: Measurable, text: Text) -> Seen | None:
    """How much of a text a run was trained on; None where that is not known, as of an imported model."""
    trained_on = run.trained_on()
    return None if trained_on is None else trained_on.count(text)


def per_document(scores: Scores) -> list[DocumentFigures]:
    """The figures of each document, in the order they were read."""
    bits = np.where(scores.changed, np.nan, scores.nats / NATS_PER_BIT / np.maximum(scores.text_bytes, 1))
    columns = zip(scores.files, scores.lines, scores.tokens, scores.nats, bits, scores.unknown, strict=True)
    return [
        {
            "path": scores.paths[int(file)],
            "line": int(line),
            "tokens": int(tokens),
            "unknown_tokens": int(unknown),
            "nats": float(nats),
            "bits_per_byte": None if np.isnan(bit) else float(bit),
        }
        for file, line, tokens, nats, bit, unknown in columns
    ]


def check_comparable(run: Measurable, other: Measurable) -> None:
    """Refuse to compare scores that are no probabilities, or vocabularies that hide different parts of the text."""
    for each in (run, other):
        if not each.model.is_normalised:
            raise UserError(f"'{each.path}' gives scores that do not sum to one, so it cannot be compared")
    is_closed = run.tokenizer.is_closed or other.tokenizer.is_closed
    if is_closed and run.tokenizer.fingerprint != other.tokenizer.fingerprint:
        raise UserError(
            "a closed vocabulary cannot be compared with another; use runs that share it, or open vocabularies"
        )


def check_same_text(run: Measurable, scores: Scores, other: Measurable, others: Scores) -> None:
    """Refuse to compare scores of tokens that do not spell the same text."""
    for each, found in ((run, scores), (other, others)):
        if found.changed.any() and run.tokenizer.fingerprint != other.tokenizer.fingerprint:
            raise UserError(
                f"the tokens of '{each.path}' do not spell {int(found.changed.sum()):,} of the {len(found):,} "
                "documents exactly, so it cannot be compared on this text with a run that has another tokenizer"
            )


def compare_scores(scores: Scores, other: Measurable, others: Scores, text: Text) -> Against:
    """A paired bootstrap of the scores of one model against those of another on the same text."""
    difference = paired_bootstrap(scores, others)
    summary = figures(others, other.model)
    return {
        "run": str(other.path),
        "bits_per_byte": difference.bits_per_byte,
        "low": difference.low,
        "high": difference.high,
        "p_value": difference.p_value,
        "rounds": difference.rounds,
        "other_bits_per_byte": summary["bits_per_byte"],
        "other_perplexity": summary["perplexity"],
        "other_seen": count_seen(other, text),
    }
