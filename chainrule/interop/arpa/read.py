"""Reads ARPA files into n-gram models.

An ARPA file has two tokens, <s> as the first word and </s> as the last; here one token, eos, is both.
"""

from pathlib import Path

import numpy as np
import tokenizers
from tokenizers import models, pre_tokenizers

from chainrule.interop.arpa import text as arpa_text
from chainrule.interop.arpa import trie as arpa_trie
from chainrule.interop.arpa.text import BEGIN, END, Arpa
from chainrule.models.ngram import IMPORTED, Config, Model
from chainrule.progress import progress
from chainrule.text.base import UNKNOWN, Tokenizer, end_with_eos


def read_arpa(path: Path) -> tuple[Model, Tokenizer]:
    """The model of an ARPA file, plain or compressed, and a tokenizer with its closed vocabulary."""
    text = arpa_text.load(Path(path))
    with progress("reading", len(text.data)) as advance:
        arpa = arpa_text.parse(text, advance)
    _leave_out_impossible(arpa)
    try:
        trie, estimates = arpa_trie.build_trie(arpa.levels, arpa.eos)
    except arpa_trie.Duplicate as duplicate:
        words, _, _ = arpa_text.read_line(text.line(duplicate.offset)[1], duplicate.k)
        raise text.error(duplicate.offset, f"the {duplicate.k}-gram '{' '.join(words)}' occurs twice") from None
    model = Model(Config(order=trie.order, smoothing=IMPORTED), trie.vocabulary_size, trie.eos)
    estimates.notes[:0] = arpa.notes
    model.trie, model.estimates = trie, estimates
    return model, _tokenizer(arpa.words)


def _leave_out_impossible(arpa: Arpa) -> None:
    """Drop n-grams with a start after the start or an end before the end, and give both marks one id."""
    begin, end = arpa.eos + 1, arpa.eos
    dropped = 0
    for i, level in enumerate(arpa.levels[1:], 1):
        is_possible = ~((level.words[:, 1:] == begin).any(1) | (level.words[:, :-1] == end).any(1))
        dropped += len(is_possible) - int(np.count_nonzero(is_possible))
        if not is_possible.all():
            arpa.levels[i] = level = level.select(is_possible)
        level.words[level.words == begin] = arpa.eos
    if dropped:
        arpa.notes.append(
            f"n-grams left out because they have {END} before their end or {BEGIN} after their start: {dropped:,}"
        )


def _tokenizer(words: list[str]) -> Tokenizer:
    vocabulary = {word: id for id, word in enumerate(words)}
    backend = tokenizers.Tokenizer(models.WordLevel(vocab=vocabulary, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return end_with_eos(backend)
