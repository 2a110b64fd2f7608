"""Compares a run's loss with an n-gram of the same tokens and with compressors: is it good for this text?

A compressor is a language model, too, and its bits per byte are easy to beat. Each reads as much of the training text
first as it can use: zlib the last 32 kB, bz2 what fits with the validation text into one of its blocks of 900 kB, lzma
some megabytes. Only what the validation text adds is counted.
"""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from math import exp

import numpy as np

from chainrule.analysis.doctor.subject import Subject
from chainrule.data.shards import TokenShards
from chainrule.evaluation.score import NATS_PER_BIT
from chainrule.models import ngram
from chainrule.tasks._counting import MOST_TOKENS, count
from chainrule.text.base import Tokenizer
from chainrule.training.finding import Finding, Severity

VALIDATION_BYTES = 1 << 20  # that are compressed, at the most
TRAINING_BYTES = 4 << 20  # that lzma reads first
ZLIB_WINDOW, BZ2_BLOCK = 1 << 15, 900_000
LEARN_MORE = "use an n-gram (chainrule train TEXT --model ngram --order 7) or, unless it overfits, train longer"
COUNT_MORE = "use a higher --order, or --smoothing modified-kneser-ney"
LEVEL = 0.01  # two figures with a smaller relative difference are level


def by_zlib(validation: bytes, training: bytes) -> int:
    """How many bytes the validation text is compressed to after the training text; so do the other two."""
    compressor = zlib.compressobj(9, zdict=training[-ZLIB_WINDOW:]) if training else zlib.compressobj(9)
    return len(compressor.compress(validation) + compressor.flush())


def by_bz2(validation: bytes, training: bytes) -> int:
    room = max(BZ2_BLOCK - len(validation) - 100, 0)
    return _added(bz2.compress, validation, training[-room:] if room else b"")


def by_lzma(validation: bytes, training: bytes) -> int:
    return _added(lambda text: lzma.compress(text, lzma.FORMAT_RAW, filters=FILTERS), validation, training)


FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 2 * TRAINING_BYTES}]
COMPRESSORS = {"zlib": by_zlib, "bz2": by_bz2, "lzma": by_lzma}


def _added(compress: Callable[[bytes], bytes], validation: bytes, training: bytes) -> int:
    return len(compress(training + validation)) - (len(compress(training)) if training else 0)


def compressed(validation: bytes, training: bytes) -> dict[str, float]:
    """Bits per byte of the validation text by each compressor."""
    return {name: 8 * size(validation, training) / len(validation) for name, size in COMPRESSORS.items()}


def read_bytes(shards: TokenShards, tokenizer: Tokenizer, most: int, from_end: bool = False) -> bytes:
    """The bytes of a text with the original ends of documents: `most` bytes from its beginning or its end."""
    parts: list[bytes] = []
    size = 0
    for part in _documents(shards, tokenizer, most, -1 if from_end else 1):
        parts.append(part)
        size += len(part)
        if size >= most:
            break
    return b"".join(reversed(parts))[-most:] if from_end else b"".join(parts)[:most]


def _documents(shards: TokenShards, tokenizer: Tokenizer, most: int, direction: int) -> Iterator[bytes]:
    """The bytes of each document, from the first or from the last on; of each `most` bytes at the most."""
    for shard in range(len(shards))[::direction]:
        table, tokens = shards.table(shard), shards.tokens(shard)
        ends = np.append(table["starts"][1:], len(tokens))
        for i in range(len(ends))[::direction]:
            ids = tokens[table["starts"][i] : ends[i]]
            enough = 2 * most + 4  # <eos> has no bytes, nor has an added space before a spelled word
            ids = ids[:enough] if direction > 0 else ids[-enough:]
            text = tokenizer.decode(ids.tolist()).encode()
            yield text + b"\n" * int(table["separators"][i])


def look_at_baselines(subject: Subject) -> list[Finding]:
    """One finding: which baselines the run is better than, and which are better."""
    train, validation, quality = subject.shards("train"), subject.shards("validation"), subject.quality
    if quality is not None and train is None:
        advice = "compare it on text that is named: chainrule compare TEXT --models 'RUN ngram'"
        return [Finding("quality", "note", "not compared with counting: its text is not stored with the run", advice)]
    if train is None or validation is None or quality is None:
        advice = "measure it on other text: chainrule evaluate RUN OTHER.txt"
        return [Finding("quality", "note", "unknown: it was not measured on validation text", advice)]
    if quality["loss"] is None:
        why = "some of the validation text has probability zero, or the scores do not sum to one"
        advice = "compare it with a smoothed model (--model ngram --smoothing modified-kneser-ney)"
        return [Finding("quality", "note", f"unknown: {why}", advice)]
    nats = float(quality["loss"])
    others = {} if train.part.tokens > MOST_TOKENS else _by_counting(subject, train, validation)
    if validation.changed_documents(subject.tokenizer):
        others = {name: exp(each) for name, each in others.items()}
        return _verdict(exp(nats), others, "{:.1f}", "perplexity", subject)
    scale = validation.part.tokens / validation.part.text_bytes / NATS_PER_BIT
    others = {name: each * scale for name, each in others.items()}
    text = read_bytes(validation, subject.tokenizer, VALIDATION_BYTES)
    others |= compressed(text, read_bytes(train, subject.tokenizer, TRAINING_BYTES, from_end=True))
    return _verdict(nats * scale, others, "{:.3f}", "bits per byte", subject)


def _by_counting(subject: Subject, train: TokenShards, validation: TokenShards) -> dict[str, float]:
    """Nats per token of an n-gram, by its name; empty where the model is that n-gram itself."""
    model = count(train, subject.tokenizer)
    if isinstance(subject.model, ngram.Model) and subject.model.config == model.config:
        return {}
    return {f"a {model.config.order}-gram": float(-model.score(validation.tokens(0)).astype(np.float64).mean())}


def _verdict(mine: float, others: dict[str, float], form: str, measure: str, subject: Subject) -> list[Finding]:
    """A finding that names the baselines that are better, level and worse, with how much."""
    ways: dict[str, list[str]] = {"worse than": [], "on a par with": [], "better than": []}
    for name, theirs in sorted(others.items(), key=lambda item: item[1]):
        gap = mine / theirs - 1
        way = "on a par with" if abs(gap) < LEVEL else "worse than" if gap > 0 else "better than"
        by = "" if way == "on a par with" else f" by {abs(gap):.1%}"
        ways[way].append(f"{name} ({form.format(theirs)}){by}")
    found = "; ".join(
        [f"{form.format(mine)} {measure}", *(f"{way} {', '.join(names)}" for way, names in ways.items() if names)]
    )
    worse = [name for name, theirs in others.items() if mine / theirs - 1 >= LEVEL]
    if not worse:
        return [Finding("quality", "good", found)]
    severity: Severity = "problem" if any(name in COMPRESSORS for name in worse) else "note"
    return [Finding("quality", severity, found, COUNT_MORE if subject.recipe is None else LEARN_MORE)]
