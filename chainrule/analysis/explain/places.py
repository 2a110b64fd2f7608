"""Where a sequence of tokens occurs in the training text: the files and lines, with the words around."""

from dataclasses import dataclass

import numpy as np

from chainrule.data.shards import TokenShards
from chainrule.text.base import Tokenizer

AT_ONCE = 1 << 22  # tokens compared at one time
AROUND = 8  # tokens shown before and after


@dataclass(frozen=True)
class Sighting:
    """One occurrence of a context in the training text, which has `before`, `found` and `after` in one."""

    path: str
    line: int
    before: str
    found: str
    after: str


@dataclass(frozen=True)
class Evidence:
    """How often a context was seen in the training text, how often with the token after it, and where."""

    context: str
    count: int
    followed: int
    sightings: list[Sighting]  # of the context with the token after it, or if there are none of the context


def find_evidence(shards: TokenShards, tokenizer: Tokenizer, context: list[int], token: int, most: int) -> Evidence:
    """All occurrences of a context counted, and at most so many of them shown."""
    count, times = 0, 0
    followed: list[tuple[int, int]] = []  # (shard, position)
    others: list[tuple[int, int]] = []
    for shard in range(len(shards)):
        stream = shards.tokens(shard)
        places = occurrences(stream, context)
        goes_on = stream[places + len(context)] == token
        count += len(places)
        times += int(goes_on.sum())
        followed += [(shard, place) for place in places[goes_on][:most].tolist()]
        others += [(shard, place) for place in places[:most].tolist()]
    length = len(context) + bool(followed)
    shown = [_sighting(shards, tokenizer, shard, place, length) for shard, place in (followed or others)[:most]]
    text = tokenizer.decode(context) if context[0] != tokenizer.eos else tokenizer.end + tokenizer.decode(context)
    return Evidence(text, count, times, shown)


def occurrences(stream: np.ndarray, words: list[int]) -> np.ndarray:
    """The positions at which these words begin and something follows; none for no words, as they are everywhere."""
    found = [np.zeros(0, np.int64)]
    for begin in range(0, len(stream) - len(words) if words else 0, AT_ONCE):
        piece = stream[begin : begin + AT_ONCE + len(words)]
        hits = np.flatnonzero(piece[: len(piece) - len(words)] == words[0])
        for offset, word in enumerate(words[1:], 1):
            hits = hits[piece[hits + offset] == word]
        found.append(begin + hits)
    return np.concatenate(found)


def _sighting(shards: TokenShards, tokenizer: Tokenizer, shard: int, position: int, length: int) -> Sighting:
    """An occurrence with the words around it in the same document; an <eos> in front is the start of the text."""
    stream, eos, end = shards.tokens(shard), tokenizer.eos, position + length
    inside = position + int(stream[position] == eos)  # a position of the document itself
    place = shards.place(shard, min(inside, len(stream) - 1), tokenizer)
    before, after = stream[max(inside - AROUND, 0) : inside], stream[end : end + AROUND]
    starts, ends = np.flatnonzero(before == eos), np.flatnonzero(after == eos)
    before = before[starts[-1] + 1 :] if len(starts) else before
    after = after[: ends[0]] if len(ends) else after
    if stream[end - 1] == eos:  # it is the end of the text that followed
        after = after[:0]
    return Sighting(place.path, place.line, *tokenizer.decode_parts([before, stream[inside:end], after]))
