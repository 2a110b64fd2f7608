"""Writes n-gram models as ARPA files.

Here one token, eos, starts and ends every document; in the file it is <s> as the first word and </s> as the last.
"""

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from chainrule.errors import UserError
from chainrule.interop.arpa.text import BEGIN, END
from chainrule.interop.arpa.trie import LN10
from chainrule.models.ngram import Model
from chainrule.ngram.smoothing import Estimates
from chainrule.ngram.trie import Trie
from chainrule.progress import progress
from chainrule.text.base import UNKNOWN, Tokenizer

LOG_ZERO = -99.0  # how ARPA files write the logarithm of zero
CHUNK = 100_000  # n-grams formatted at once
RESERVED = {BEGIN, END, UNKNOWN, "<UNK>"}
SEPARATORS = set(" \t\n\v\f\r\0")


def write_arpa(model: Model, tokenizer: Tokenizer, path: Path) -> list[str]:
    """Write the model, compressed where the path ends in .gz, and return notes for whoever uses the file."""
    path, trie = Path(path), model.trie
    if tokenizer.vocabulary_size != model.vocabulary_size:
        found = f"the model has {model.vocabulary_size:,} tokens but the tokenizer {tokenizer.vocabulary_size:,}"
        raise UserError(f"{found}; give the tokenizer that the model was trained with")
    names = _names(tokenizer)
    sizes = [int(size) for size in np.diff(trie.level_starts)[1:]]
    sizes[0] += 1  # eos is two words
    with _whole_file(path) as file, progress("writing", sum(sizes), "n-grams") as advance:
        counts = "".join(f"ngram {k}={size}\n" for k, size in enumerate(sizes, 1))
        file.write(f"\\data\\\n{counts}".encode())
        for k in range(1, trie.order + 1):
            _write_level(model, k, names, file, advance)
        file.write(b"\n\\end\\\n")
    notes = _losses(model.estimates)
    if not tokenizer.is_closed:
        notes.append(
            "its words are tokens such as 'Ġthe', so other programs must tokenize text in the same way; "
            "for plain words, train with the tokenizer words and closed_vocabulary"
        )
    return notes


def _losses(estimates: Estimates) -> list[str]:
    """Notes on what an ARPA file cannot say about a model."""
    notes = []
    if not estimates.is_normalised:
        notes.append("the model gives scores, not probabilities; programs that read the file cannot tell")
    if estimates.unseen_backoff:
        weight = np.exp(estimates.unseen_backoff)
        notes.append(f"contexts that never occurred back off with {weight:g} here and with 1 in an ARPA file")
    zeros = sum(int(np.count_nonzero(np.isneginf(a))) for a in (estimates.log_probability[1:], estimates.backoff))
    if zeros:
        notes.append(f"{zeros:,} probabilities or weights are zero; ARPA files write their logarithms as {LOG_ZERO:g}")
    return notes


def _names(tokenizer: Tokenizer) -> np.ndarray:
    """The name of every token as an array of objects; </s> for eos."""
    names: list[str] = []
    for id in range(tokenizer.vocabulary_size):
        name = END if id == tokenizer.eos else tokenizer.backend.id_to_token(id)
        if not name:
            raise UserError(f"token {id} has no name, so an ARPA file cannot hold it")
        if id not in (tokenizer.eos, tokenizer.unknown) and name in RESERVED:
            raise UserError(
                f"the token '{name}' has another meaning in ARPA files; rename it in the text and train again"
            )
        if SEPARATORS.intersection(name):
            raise UserError(f"the token {name!r} contains white space, which separates words in ARPA files")
        names.append(name)
    return np.array(names, object)


@contextmanager
def _whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name once all is written; a device or pipe is written to directly."""
    is_special = path.exists() and not path.is_file()
    target = path if is_special else path.resolve().with_name(f"{path.name}.{os.getpid()}.unfinished")
    try:
        with open(target, "wb") as file:
            if path.suffix == ".gz":
                with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as compressed:
                    yield cast(BinaryIO, compressed)
            else:
                yield file
        if not is_special:
            os.replace(target, path.resolve())
    except OSError as error:
        raise UserError(f"cannot write '{path}': {error.strerror}") from None
    finally:
        if not is_special:
            with suppress(OSError):
                target.unlink(missing_ok=True)


def _write_level(model: Model, k: int, names: np.ndarray, file: BinaryIO, advance: Callable[[int], None]) -> None:
    trie, level = model.trie, model.trie.level(k)
    has_backoff = k < trie.order
    file.write(f"\n\\{k}-grams:\n".encode())
    if k == 1:  # the only word whose back-off weight and probability are on two lines
        weight = _log10(model.estimates.backoff[trie.eos + 1 : trie.eos + 2])[0] if has_backoff else 0.0
        file.write((f"{LOG_ZERO:g}\t{BEGIN}\t{weight:.7g}\n" if has_backoff else f"{LOG_ZERO:g}\t{BEGIN}\n").encode())
        advance(1)
    first_names = names.copy()
    first_names[trie.eos] = BEGIN
    template = "%.7g\t" + " ".join(["%s"] * k) + ("\t%.7g\n" if has_backoff else "\n")
    for start in range(level.start, level.stop, CHUNK):
        nodes = np.arange(start, min(start + CHUNK, level.stop), dtype=np.uint32)
        fields = np.empty((len(nodes), k + 1 + has_backoff), object)
        fields[:, 0] = np.minimum(_log10(model.estimates.log_probability[nodes]), 0.0)
        for place, words in enumerate(_words(trie, nodes, k)):
            fields[:, place + 1] = (first_names if place == 0 and k > 1 else names)[words]
        if has_backoff:
            weights = _log10(model.estimates.backoff[nodes])
            if k == 1:
                weights[nodes == trie.eos + 1] = 0.0  # that is the weight of <s>, and nothing follows </s>
            fields[:, -1] = weights
        file.write(((template * len(nodes)) % tuple(fields.ravel().tolist())).encode())
        advance(len(nodes))


def _log10(natural: np.ndarray) -> np.ndarray:
    return np.where(np.isneginf(natural), LOG_ZERO, natural.astype(np.float64) / LN10) + 0.0  # no -0


def _words(trie: Trie, nodes: np.ndarray, k: int) -> list[np.ndarray]:
    """The first, second, ... and k-th words of nodes of level k, found by walking up to their parents together."""
    columns = [trie.word[nodes]]
    for _ in range(k - 1):
        nodes = (np.searchsorted(trie.first_child, nodes, side="right") - 1).astype(np.uint32)
        columns.append(trie.word[nodes])
    return columns[::-1]
