"""Negative log-likelihood of documents, and the figures made of it.

Bits per byte is over the bytes of the text as UTF-8, separators included, so it compares models of any tokenizer;
perplexity is per token and compares only models that share one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import exp, inf

import numpy as np

from chainrule.data.documents import Documents
from chainrule.evaluation.figures import LARGEST_EXPONENT, TextFigures
from chainrule.evaluation.figures import NATS_PER_BIT as NATS_PER_BIT
from chainrule.models.contract import LanguageModel
from chainrule.text.base import Tokenizer


@dataclass
class Scores:
    """What a model gave each document of a text, in the order they were read."""

    tokens: np.ndarray  # without <eos>
    unknown: np.ndarray  # tokens outside a closed vocabulary
    nats: np.ndarray  # negative log-likelihood, <eos> included
    eos_nats: np.ndarray
    unknown_nats: np.ndarray
    impossible: np.ndarray  # tokens, <eos> among them, that the model gave probability zero
    text_bytes: np.ndarray  # separator included
    characters: np.ndarray
    paths: list[str] = field(default_factory=list)
    files: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # index into paths
    lines: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    # Whether it is not what its tokens spell, so that its bytes do not measure them
    changed: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def bits_per_byte(self) -> float:
        """Over the whole text; infinite where the model takes any of it for impossible."""
        return float(self.nats.sum()) / NATS_PER_BIT / max(int(self.text_bytes.sum()), 1)

    def summary(self) -> TextFigures:
        """The figures of the whole text; infinite where the model takes any of it for impossible."""
        documents = len(self)
        tokens, unknown = int(self.tokens.sum()), int(self.unknown.sum())
        nats, eos = float(self.nats.sum()), float(self.eos_nats.sum())
        known = tokens - unknown
        return {
            "documents": documents,
            "tokens": tokens,
            "bytes": int(self.text_bytes.sum()),
            "characters": int(self.characters.sum()),
            "changed_documents": int(self.changed.sum()),
            "unknown_tokens": unknown,
            "impossible_tokens": int(self.impossible.sum()),
            "nats": nats,
            "bits_per_byte": self.bits_per_byte,
            "bits_per_character": nats / NATS_PER_BIT / max(int(self.characters.sum()), 1),
            "perplexity": _exp(nats / (tokens + documents)),
            "perplexity_without_eos": _exp((nats - eos) / max(tokens, 1)) if np.isfinite(nats) else inf,
            "perplexity_without_unknown": _exp((nats - float(self.unknown_nats.sum())) / max(known + documents, 1))
            if np.isfinite(nats)
            else inf,
        }


def _exp(value: float) -> float:
    return exp(value) if value < LARGEST_EXPONENT else inf


def _character_counts(documents: Documents) -> np.ndarray:
    """The characters of each document: the bytes that do not continue a character."""
    begins = np.concatenate([[0], np.cumsum((documents.buffer & 0xC0) != 0x80)])
    counts: np.ndarray = begins[documents.ends] - begins[documents.starts] + documents.separator_bytes
    return counts


def stream_of(tokenizer: Tokenizer, documents: Documents) -> np.ndarray:
    """The tokens of a batch of documents as one stream, eos d1 eos d2 ... eos."""
    return np.concatenate([[tokenizer.eos], tokenizer.encode_documents(documents)]).astype(np.uint32)


def score_documents(
    model: LanguageModel, tokenizer: Tokenizer, documents: Documents
) -> tuple[Scores, np.ndarray, np.ndarray]:
    """The scores of a batch, its stream eos d1 eos ... eos, and the log-probability of each token after the first."""
    stream = stream_of(tokenizer, documents)
    found = score_stream(model, tokenizer, stream).astype(np.float64)
    return add_up(found, stream, tokenizer, documents), stream, found


def score_stream(model: LanguageModel, tokenizer: Tokenizer, stream: np.ndarray) -> np.ndarray:
    """The log-probability of each token after the first of a stream eos d1 eos ... eos.

    Where texts begin with another token than the one that ends them, it is put before each text and is not scored.
    """
    if tokenizer.start is None or tokenizer.start == tokenizer.eos:
        return model.score(stream)
    ends = np.flatnonzero(stream[:-1] == tokenizer.eos)
    begun = np.insert(stream, ends + 1, tokenizer.start)[1:]
    found = model.score(begun)
    return np.delete(found, (ends + np.arange(len(ends)) - 1)[1:])


def add_up(found: np.ndarray, stream: np.ndarray, tokenizer: Tokenizer, documents: Documents) -> Scores:
    """The scores of documents from the log-probability of each token of their stream after the first."""
    found = found.astype(np.float64)
    ends = np.flatnonzero(stream[1:] == tokenizer.eos)
    starts = np.concatenate([[0], ends[:-1] + 1])
    is_unknown = stream[1:] == tokenizer.unknown if tokenizer.unknown is not None else np.zeros(len(found), bool)
    sums = np.add.reduceat(
        np.stack([-found, is_unknown, np.where(is_unknown, -found, 0.0), np.isneginf(found)]), starts, axis=1
    )
    return Scores(
        tokens=ends - starts,
        unknown=sums[1].astype(np.int64),
        nats=sums[0],
        eos_nats=-found[ends],
        unknown_nats=sums[2],
        impossible=sums[3].astype(np.int64),
        text_bytes=documents.sizes,
        characters=_character_counts(documents),
        changed=tokenizer.find_changed(documents, stream[1:]),
        paths=[documents.path],
        files=np.zeros(len(documents), np.int64),
        lines=documents.lines,
    )


def join(parts: list[Scores]) -> Scores:
    """The scores of several batches of documents as those of one text."""
    paths = list(dict.fromkeys(path for part in parts for path in part.paths))
    columns = (
        "tokens",
        "unknown",
        "nats",
        "eos_nats",
        "unknown_nats",
        "impossible",
        "text_bytes",
        "characters",
        "changed",
        "lines",
    )
    files = [np.array([paths.index(path) for path in part.paths])[part.files] for part in parts]
    return Scores(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in columns},
        paths=paths,
        files=np.concatenate(files),
    )


def score(model: LanguageModel, tokenizer: Tokenizer, batches: Iterable[Documents]) -> Scores:
    """The scores of every document of a corpus, which is read a batch at a time."""
    return join([score_documents(model, tokenizer, documents)[0] for documents in batches if len(documents)])


def figures(scores: Scores, model: LanguageModel) -> TextFigures:
    """The summary without figures that would mislead: no bits per byte where the tokens hide part of the text, no
    perplexity of a model whose scores do not sum to one."""
    found: TextFigures = {**scores.summary(), "is_normalised": model.is_normalised}
    if scores.changed.any() or not model.is_normalised:
        found["bits_per_byte"] = found["bits_per_character"] = None
    if not model.is_normalised:
        found["perplexity"] = found["perplexity_without_eos"] = found["perplexity_without_unknown"] = None
    return found
