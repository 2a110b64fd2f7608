"""How bytes are cut into tokens for a word n-gram, and what its kernels read: beginnings of words, sums of counts."""

from bisect import bisect_left

import numpy as np

from chainrule.kernels.hashing import hash_bytes
from chainrule.kernels.jit import kernel
from chainrule.models._wordgram import END, SPACE, SYMBOLS, Prefixes, Sums, Tables
from chainrule.ngram import discounts
from chainrule.ngram.smoothing import continuation_counts
from chainrule.ngram.trie import Trie, context_totals

Token = tuple[int, ...]  # symbols

SINGLE, WORD, PUNCTUATION, WIDE, LONE_SPACE = range(5)  # classes of tokens; a run never starts after a lone space
CLASSES = 5
GROUPS = [  # unknown words are of a kind by the group of their first byte
    (WORD, b"abcdefghijklmnopqrstuvwxyz"),
    (WORD, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    (WORD, b"0123456789"),
    (WORD, bytes(range(0x80, 0xC0))),
    (WORD, bytes(range(0xC0, 0xE2))),
    (WIDE, bytes(range(0xE2, 0x100))),
    (PUNCTUATION, bytes(byte for byte in range(0x21, 0x7F) if not chr(byte).isalnum())),
]
CONTINUATION = bytes(range(0x80, 0xC0))  # the bytes of a character after its first, in UTF-8
LONGEST = 32  # bytes of a word of the vocabulary


@kernel
def _cut(symbols, joins, class_of, starts):
    """Where each token starts, and the end of all; returns how many tokens there are."""
    count = 0
    i = 0
    while i < len(symbols):
        starts[count] = i
        count += 1
        if symbols[i] == SPACE and i + 1 < len(symbols) and class_of[symbols[i + 1]] != SINGLE:
            i += 1
        joined = joins[class_of[symbols[i]]]
        i += 1
        while i < len(symbols) and joined[symbols[i]]:
            i += 1
    starts[count] = len(symbols)
    return count


@kernel
def _hash(symbols, starts, hashes):
    for i in range(len(starts) - 1):
        hashes[i] = hash_bytes(symbols, starts[i], starts[i + 1], np.uint64(0))


@kernel
def _list_prefixes(arena, offsets, kinds, symbol, first_child, first_id, last_id, is_word):
    """Fills in the trie, level by level; returns how many nodes it has."""
    depth = np.zeros(len(symbol), np.int64)
    first_id[0], last_id[0], is_word[0] = kinds, kinds + len(offsets) - 1, False
    nodes = 1
    node = 0
    while node < nodes:
        first_child[node] = nodes
        word = first_id[node] + is_word[node]
        while word < last_id[node]:
            next_symbol = arena[offsets[word - kinds] + depth[node]]
            symbol[nodes], depth[nodes], first_id[nodes] = next_symbol, depth[node] + 1, word
            length = offsets[word - kinds + 1] - offsets[word - kinds]
            is_word[nodes] = length == depth[nodes]
            while word < last_id[node] and arena[offsets[word - kinds] + depth[node]] == next_symbol:
                word += 1
            last_id[nodes] = word
            nodes += 1
        node += 1
    first_child[nodes] = nodes
    return nodes


def list_prefixes(words: list[bytes], kinds: int) -> Prefixes:
    """The trie of all beginnings of the sorted words, which are numbered from `kinds`, and of the end after them."""
    arena = np.append(np.frombuffer(b"".join(words), np.uint8), END).astype(np.uint16)
    offsets = np.cumsum([0, *map(len, words), 1])
    most = len(arena) + 1
    symbol, is_word = np.zeros(most, np.uint16), np.zeros(most, np.bool_)
    first_child, first_id, last_id = (np.zeros(most + 1, np.int64) for _ in range(3))
    nodes = _list_prefixes(arena, offsets, kinds, symbol, first_child, first_id, last_id, is_word)
    arrays = (symbol[:nodes], first_child[: nodes + 1], first_id[:nodes], last_id[:nodes], is_word[:nodes])
    return Prefixes(*(array.copy() for array in arrays))


@kernel
def _accumulate(first_child, count, discount, total, first, last, upto, leftover):
    """Interpolated Kneser-Ney without the lower orders: discounted shares, summed over siblings, and what is left."""
    for context in range(first, last):
        seen = total[context - first]
        if seen == 0:
            leftover[context] = 1.0
            upto[first_child[context] : first_child[context + 1]] = 0.0
            continue
        taken, share = 0.0, 0.0
        for child in range(first_child[context], first_child[context + 1]):
            own = discount[min(count[child], 3)]
            taken += own
            share += (count[child] - own) / seen
            upto[child] = share
        leftover[context] = taken / seen


def sum_up(trie: Trie) -> Sums:
    """Interpolated modified Kneser-Ney of the counts, as sums over ranges of siblings."""
    count = continuation_counts(trie)
    upto = np.zeros(len(trie.word))
    leftover = np.ones(int(trie.level_starts[trie.order]))
    for k in range(1, trie.order + 1):
        level = count[trie.level(k)]
        discount = discounts.modified(level[level > 0], k).table()
        total, _ = context_totals(trie, count, k - 1)
        contexts = trie.level(k - 1)
        _accumulate(trie.first_child, count, discount, total, contexts.start, contexts.stop, upto, leftover)
    words = slice(1, 1 + trie.vocabulary_size)
    upto[words] += leftover[0] * np.arange(1, 1 + trie.vocabulary_size) / trie.vocabulary_size
    return Sums(trie.word, trie.first_child, trie.suffix, upto, leftover, int(trie.level_starts[trie.order]))


def _cumulative(masses: np.ndarray) -> np.ndarray:
    """Sums over what is before, along the last axis, which becomes one longer."""
    return np.concatenate([np.zeros((*masses.shape[:-1], 1)), np.cumsum(masses, -1)], -1)


class Cutting:
    """How a vocabulary of bytes 0 ... size - 1 is cut into tokens, and which kinds of unknown words it has."""

    def __init__(self, bytes_there: int):
        self.class_of = np.zeros(SYMBOLS, np.int64)
        self.joins = np.zeros((CLASSES, SYMBOLS), np.bool_)
        self.kind_of = np.full((2, SYMBOLS), -1, np.int64)
        self.class_of_kind = np.zeros(0, np.int64)
        for kind_class, group in GROUPS:
            there = [byte for byte in group if byte < bytes_there]
            self.class_of[there] = kind_class
            for has_space in range(1 + (bytes_there > SPACE)):
                if there:
                    self.kind_of[has_space, there] = len(self.class_of_kind)
                    self.class_of_kind = np.append(self.class_of_kind, kind_class)
        for each in (WORD, PUNCTUATION):
            self.joins[each] = self.class_of == each
        self.joins[WIDE, [byte for byte in CONTINUATION if byte < bytes_there]] = True
        self.joins[LONE_SPACE] = self.class_of != SINGLE
        self.singles = [byte for byte in range(bytes_there) if self.class_of[byte] == SINGLE]

    @property
    def kinds(self) -> int:
        return len(self.class_of_kind)

    def kind(self, token: Token) -> int:
        """The kind of unknown word that a token would be, or -1: single bytes are never unknown."""
        has_space = int(token[0] == SPACE and len(token) > 1)
        return int(self.kind_of[has_space, token[has_space]])

    def token_class(self, word: bytes) -> int:
        return LONE_SPACE if word == b" " else int(self.class_of[word[int(word[0] == SPACE)]])

    def cut(self, symbols: np.ndarray) -> np.ndarray:
        """Where each token of a text starts, and after the last of them the end of the text: (tokens + 1,)."""
        starts = np.empty(len(symbols) + 1, np.int64)
        return starts[: _cut(symbols, self.joins, self.class_of, starts) + 1]

    def number_tokens(self, symbols: np.ndarray) -> tuple[list[Token], np.ndarray, np.ndarray]:
        """The different tokens of a text, the number of each token of the text, and how often each number occurs."""
        starts = self.cut(symbols)
        hashes = np.empty(len(starts) - 1, np.uint64)
        _hash(symbols, starts, hashes)
        _, first, numbers, counts = np.unique(hashes, return_index=True, return_inverse=True, return_counts=True)
        return [tuple(symbols[starts[i] : starts[i + 1]].tolist()) for i in first], numbers, counts


def make_tables(cutting: Cutting, words: list[bytes], trie: Trie, spelling_trie: Trie) -> Tables:
    """What the kernels read, from the vocabulary and the counts."""
    kinds, end = cutting.kinds, cutting.kinds + len(words)
    word_sums, spelling = sum_up(trie), sum_up(spelling_trie)
    prefixes = list_prefixes(words, kinds)
    single = np.full(SYMBOLS, -1, np.int64)
    for byte in cutting.singles:
        single[byte] = kinds + bisect_left(words, bytes([byte]))
    single[END] = end
    roots = prefixes.symbol[: prefixes.first_child[1]].tolist()
    space = roots.index(SPACE, 1) if SPACE in roots[1:] else -2
    has_space = np.isin(np.arange(kinds), cutting.kind_of[1])
    class_of_word = np.array([*cutting.class_of_kind, *map(cutting.token_class, words), SINGLE], np.int64)
    first_bytes = _first_bytes(cutting, spelling)
    unigrams, byte_unigrams = (
        np.diff(sums.upto[: 1 + size]) for sums, size in ((word_sums, 1 + end), (spelling, SYMBOLS))
    )
    by_symbol = unigrams[:kinds][~has_space] @ first_bytes[~has_space]
    by_symbol[SPACE] += unigrams[:kinds][has_space].sum()
    np.add.at(by_symbol, [*(word[0] for word in words), END], unigrams[kinds:])
    return Tables(
        word_sums, spelling, prefixes, kinds, space, single, cutting.joins, cutting.kind_of, cutting.class_of_kind,
        class_of_word, has_space, _cumulative(first_bytes), _cumulative(np.where(cutting.joins, 0.0, by_symbol)),
        _cumulative(np.where(cutting.joins, byte_unigrams, 0.0)),
    )  # fmt: skip


def _first_bytes(cutting: Cutting, spelling: Sums) -> np.ndarray:
    """p(first byte | kind) of each kind of unknown word (kinds, SYMBOLS)."""
    start = 1 + END
    share = spelling.leftover[start] * np.diff(spelling.upto[: 1 + SYMBOLS])
    children = slice(int(spelling.first_child[start]), int(spelling.first_child[start + 1]))
    share[spelling.word[children]] += np.diff(spelling.upto[children], prepend=0.0)
    kinds = np.arange(cutting.kinds)
    found = np.where((cutting.kind_of == kinds[:, None, None]).any(1), share, 0.0)
    shares: np.ndarray = found / found.sum(-1, keepdims=True)
    return shares
