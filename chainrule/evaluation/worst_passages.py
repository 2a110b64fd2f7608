"""The passages of a text that a model predicts worst, each with its place in the user's files."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

import numpy as np

from chainrule.data.documents import Documents
from chainrule.evaluation.figures import NATS_PER_BIT
from chainrule.evaluation.score import score_documents
from chainrule.models.contract import LanguageModel
from chainrule.text.base import Tokenizer

IMPOSSIBLE = 1e6  # bits that stand for infinitely many


@dataclass(frozen=True, order=True)
class WorstPassage:
    """One passage, and how badly it was predicted."""

    bits_per_token: float  # infinite where the model gives a token of it probability zero
    path: str
    line: int
    text: str


def worst_passages(
    model: LanguageModel, tokenizer: Tokenizer, batches: Iterable[Documents], count: int = 5, length: int = 20
) -> list[WorstPassage]:
    """The `count` passages of up to `length` tokens of one document with the most bits per token, worst first."""
    worst: list[WorstPassage] = []
    newlines = np.array([each.count(b"\n") for each in tokenizer.token_bytes])
    for documents in batches:
        if not len(documents):
            continue
        scores, stream, found = score_documents(model, tokenizer, documents)
        bits = np.minimum(-found / NATS_PER_BIT, IMPOSSIBLE)  # finite, so that it can be summed
        ends = np.cumsum(scores.tokens + 1)
        for start, mean, size in _windows(bits, ends, length, count):
            document = int(np.searchsorted(ends, start, side="right"))
            begin = int(ends[document - 1]) if document else 0
            text = tokenizer.decode(stream[1 + start : 1 + start + size])
            line = int(documents.lines[document] + newlines[stream[1 + begin : 1 + start]].sum())
            worst.append(WorstPassage(mean if mean < IMPOSSIBLE / length else inf, documents.path, line, text))
        worst = heapq.nlargest(count, worst)
    return worst


def _windows(bits: np.ndarray, ends: np.ndarray, length: int, count: int) -> list[tuple[int, float, int]]:
    """(start, mean bits, size) of the worst windows that do not overlap; a short document is one window."""
    total = np.concatenate([[0.0], np.cumsum(bits)])
    starts = np.concatenate([[0], ends[:-1]])
    document = np.repeat(np.arange(len(ends)), ends - starts)
    position = np.arange(len(bits))
    stop = np.minimum(position + length, ends[document] - 1)  # <eos> is not part of a passage
    is_whole = (stop - position == length) | (position == starts[document]) & (stop > position)
    candidates, stop = position[is_whole], stop[is_whole]
    means = (total[stop] - total[candidates]) / (stop - candidates)
    chosen: list[tuple[int, float, int]] = []
    for i in np.argsort(-means, kind="stable")[: count * 4 * length].tolist():
        start, size = int(candidates[i]), int(stop[i] - candidates[i])
        if all(start + size <= other or start >= other + others for other, _, others in chosen):
            chosen.append((start, float(means[i]), size))
        if len(chosen) == count:
            break
    return chosen
