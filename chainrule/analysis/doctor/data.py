"""Examines the text of a run: repeated documents, validation text that is in training too, one dominant token."""

import numpy as np

from chainrule.analysis.doctor.overlap import find_overlap
from chainrule.analysis.doctor.subject import Subject
from chainrule.data.shards import TokenShards
from chainrule.progress import visible
from chainrule.training.finding import Finding, Severity

# Shares of the text from which on a finding is a note, and a problem.
REPEATED = (0.1, 0.5)  # of training text in repeated documents
SEEN = (0.01, 0.05)  # of validation text in documents that training has too
SHARED = (0.02, 0.1)  # of validation text in passages that training has too
PASSAGE_BYTES = 100  # the shortest passage that is not there by chance: some seventeen words
DOMINANT = (0.3, 0.6)  # of the most frequent token
MOST_TOKENS = 20_000_000  # of the training text that are searched for passages
QUOTED = 60  # characters


def look_at_data(subject: Subject) -> list[Finding]:
    """Findings about the text that the run was trained and measured on."""
    train, validation = subject.shards("train"), subject.shards("validation")
    if train is None:
        advice = "examine a run that was trained here on text, rather than on conversations, merged or imported"
        return [Finding("text", "note", "cannot be examined: it is not stored with the run", advice)]
    found = [*find_repeats(train), *find_dominant(train, subject)]
    if validation is not None:
        found += [*find_seen(train, validation), *find_shared(train, validation, subject)]
    if not found:
        seen = "" if validation is None else ", and no validation text in training"
        found = [Finding("text", "good", f"{train.part.text_bytes:,} bytes to train on; hardly any duplicates{seen}")]
    return found


def find_repeats(train: TokenShards) -> list[Finding]:
    """Documents that occur more than once, and the share of the text that the copies take."""
    hashes, sizes = _documents(train)
    _, first = np.unique(hashes, return_index=True)
    repeated, share = len(hashes) - len(first), 1 - sizes[first].sum() / sizes.sum()
    severity = _severity(share, REPEATED)
    if severity is None:
        return []
    found = f"{repeated:,} of {len(hashes):,} training documents are duplicates, {share:.0%} of the text"
    return [Finding("duplicate documents", severity, found, "remove the duplicates, unless their frequency matters")]


def find_seen(train: TokenShards, validation: TokenShards) -> list[Finding]:
    """Validation documents that are training documents too; a model that learned them by heart seems good."""
    hashes, sizes = _documents(validation)
    is_seen = np.isin(hashes, _documents(train)[0])
    share = float(sizes[is_seen].sum() / sizes.sum())
    severity = _severity(share, SEEN)
    if severity is None:
        return []
    found = f"{is_seen.sum():,} of {len(hashes):,} validation documents ({share:.1%} of the text) are in training, too"
    advice = "remove them from the training text, or let Chainrule split it (without --validation and --split tail)"
    return [Finding("validation text in training", severity, found, advice)]


def find_shared(train: TokenShards, validation: TokenShards, subject: Subject) -> list[Finding]:
    """Passages of validation text that occur word for word in training text."""
    length = max(round(PASSAGE_BYTES * validation.part.tokens / max(validation.part.text_bytes, 1)), 2)
    stream = validation.tokens(0)
    overlap = find_overlap(stream, _beginning(train, MOST_TOKENS), length)
    severity = _severity(overlap.share, SHARED)
    if severity is None:
        return []
    text = subject.tokenizer.decode(stream[overlap.start : overlap.start + overlap.length])
    quoted = visible(" ".join(text.split()))[:QUOTED].strip("\ufffd")
    place = validation.place(0, overlap.start, subject.tokenizer)
    found = (
        f"{overlap.share:.1%} of the validation text is in passages of {length} tokens or more that occur word for "
        f"word in the training text; the longest, {overlap.length:,} tokens, begins '{quoted}' in "
        f"{place.path}:{place.line}"
    )
    advice = "keep texts that quote each other, or versions of one text, on the same side of the split"
    return [Finding("passages in training", severity, found, advice)]


def find_dominant(train: TokenShards, subject: Subject) -> list[Finding]:
    """A token that makes up much of the text, so that a model does well by predicting nothing else."""
    counts = np.zeros(subject.tokenizer.vocabulary_size, np.int64)
    for shard in range(len(train)):
        counts += np.bincount(train.tokens(shard), minlength=len(counts))
    most, share = int(counts.argmax()), float(counts.max() / counts.sum())
    severity = _severity(share, DOMINANT)
    if severity is None:
        return []
    name = visible(subject.tokenizer.token_text(most)).replace("\n", "\\n")
    found = f"'{name}' is {share:.0%} of all training tokens"
    advice = "look for padding, empty records or markup in the text, or use a larger vocabulary (--vocabulary-size)"
    return [Finding("one token dominates", severity, found, advice)]


def _documents(shards: TokenShards) -> tuple[np.ndarray, np.ndarray]:
    """The hash of every document, and how many tokens it has."""
    tables = [shards.table(shard) for shard in range(len(shards))]
    ends = [np.append(table["starts"][1:], len(shards.tokens(shard))) for shard, table in enumerate(tables)]
    sizes = [end - table["starts"] for end, table in zip(ends, tables, strict=True)]
    return np.concatenate([table["hashes"] for table in tables]), np.concatenate(sizes)


def _beginning(shards: TokenShards, most: int) -> np.ndarray:
    """The first tokens of all shards together, `most` at the most."""
    streams: list[np.ndarray] = []
    for shard in range(len(shards)):
        streams.append(shards.tokens(shard)[: most - sum(map(len, streams))])
    return np.concatenate(streams)


def _severity(share: float, limits: tuple[float, float]) -> Severity | None:
    if share < limits[0]:
        return None
    return "problem" if share >= limits[1] else "note"
