"""The word n-gram that predicts bytes: modified Kneser-Ney over words, summed over all words that go on with a byte.

The bytes of a document are cut, from left to right, into tokens: a run of bytes of one class together with the one
space directly before it, if there is one, or a single byte (a space that no run follows, a newline, a control
character). The classes are words (ASCII letters, digits, and characters from U+0080 to U+1FFF), ASCII punctuation, and
single characters from U+2000 on (Chinese ones, and dashes, are tokens by themselves). " cow" and "cow" are different. A token that occurs once, or is longer than 32 bytes, is unknown: it counts as one of a few
kinds, by its first byte and whether a space is before it, and p(kind | h) is spread over spellings by an n-gram of
bytes, counted over all different tokens. So, after the beginning u of a token and, before it, the tokens h,

    p(u ... | h) = sum over words w that begin with u of p(w | h)  +  p(kind | h) p_spelling(u)
    p(byte b | u, h) = p(u b ... | h) / p(u ... | h)                                       where b goes on with u
    p(byte b | u, h) = p(u | h) / p(u ... | h)  p(b ... | h u) / p(whatever may come | h u)     where b ends it

and what may come after a run is all but another run of its class without a space.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from chainrule.errors import UserError
from chainrule.kernels.hashing import hash_bytes
from chainrule.kernels.jit import kernel
from chainrule.models._wordgram import (
    BETWEEN,
    END,
    MOST_CONTEXTS,
    SPACE,
    SYMBOLS,
    Prefixes,
    Sums,
    Tables,
    score_symbols,
    step_symbols,
)
from chainrule.models.contract import LanguageModel, State, check_ids
from chainrule.ngram import discounts
from chainrule.ngram.count import MAX_TOKENS, count_ngrams
from chainrule.ngram.smoothing import continuation_counts
from chainrule.ngram.trie import Trie, context_totals
from chainrule.storage import load_arrays, save_arrays

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


@dataclass(frozen=True)
class Config:
    order: int = 4  # words
    spelling_order: int = 8  # bytes

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 1 < value < MOST_CONTEXTS:
                raise UserError(f"the {name.replace('_', ' ')} must be between 2 and {MOST_CONTEXTS - 1}, got {value}")


SIZES = {"tiny": Config(order=3, spelling_order=3), "small": Config(order=3), "medium": Config(), "large": Config(5)}
DEFAULT_SIZE = "medium"
DEFAULT_TOKENIZER = "bytes"


@kernel
def _cut(symbols, joins, class_of, starts):
    """Where each token starts; returns how many there are. `symbols` ends with END."""
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
    return count


@kernel
def _hash(symbols, starts, hashes):
    for i in range(len(starts) - 1):
        hashes[i] = hash_bytes(symbols, starts[i], starts[i + 1], np.uint64(0))


@kernel
def _list_prefixes(arena, offsets, kinds, symbol, first_child, first_id, last_id, is_word):
    """The trie of all beginnings of the words (sorted, and numbered from `kinds`); returns how many there are."""
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


def list_prefixes(arena: np.ndarray, offsets: np.ndarray, kinds: int) -> Prefixes:
    most = len(arena) + 1
    symbol, is_word = np.zeros(most, np.uint16), np.zeros(most, np.bool_)
    first_child, first_id, last_id = (np.zeros(most + 1, np.int64) for _ in range(3))
    nodes = _list_prefixes(arena, offsets, kinds, symbol, first_child, first_id, last_id, is_word)
    return Prefixes(
        symbol[:nodes].copy(), first_child[: nodes + 1].copy(), first_id[:nodes].copy(), last_id[:nodes].copy(),
        is_word[:nodes].copy(),
    )  # fmt: skip


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
            for has_space in range(1 + (SPACE < bytes_there)):
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

    def starts(self, symbols: np.ndarray) -> np.ndarray:
        """Where each token starts, and the length of all."""
        starts = np.empty(len(symbols) + 1, np.int64)
        count = _cut(symbols, self.joins, self.class_of, starts)
        starts[count] = len(symbols)
        return starts[: count + 1]


class Model(LanguageModel):
    """Train with `fit`; besides `step` and `score`, `bit_probabilities` gives the binary decisions behind each byte."""

    def __init__(self, config: Config, vocabulary_size: int, eos: int):
        if vocabulary_size > SYMBOLS or eos != vocabulary_size - 1:
            raise UserError("a wordgram reads bytes: train it with --tokenizer bytes")
        self.config, self.vocabulary_size, self.eos = config, vocabulary_size, eos
        self.cutting = Cutting(vocabulary_size - 1)
        self.words: list[bytes]  # the vocabulary, sorted, without kinds of unknown words and without the end
        self.trie: Trie
        self.spelling: Trie
        self.tables: Tables

    def fit(
        self,
        streams: Iterable[np.ndarray],
        held_out: np.ndarray | None = None,
        advance: Callable[[int], None] = lambda tokens: None,
    ) -> "Model":
        parts = [np.asarray(stream) for stream in streams]
        stream = np.concatenate([parts[0], *(part[1:] for part in parts[1:])])
        check_ids(stream, self.vocabulary_size)
        if len(stream) >= MAX_TOKENS:
            raise UserError(f"a wordgram reads texts below {MAX_TOKENS:,} bytes, got {len(stream):,}; train an ngram")
        symbols = self._symbols(stream)
        starts = self.cutting.starts(symbols)
        hashes = np.empty(len(starts) - 1, np.uint64)
        _hash(symbols, starts, hashes)
        _, first, numbers, counts = np.unique(hashes, return_index=True, return_inverse=True, return_counts=True)
        spelled = [tuple(symbols[starts[i] : starts[i + 1]].tolist()) for i in first]
        self.words = self._choose(spelled, counts)
        self.trie = self._count_words(spelled, numbers)
        self.spelling = self._count_spellings([token for token in spelled if self._kind(token) >= 0])
        self._prepare()
        advance(len(stream))
        return self

    def _symbols(self, stream: np.ndarray) -> np.ndarray:
        symbols = np.asarray(stream).astype(np.uint16)
        symbols[symbols == self.eos] = END
        return symbols

    def _kind(self, token: tuple[int, ...]) -> int:
        """The kind of unknown word that a token would be, or -1: single bytes are never unknown."""
        has_space = token[0] == SPACE and len(token) > 1
        return int(self.cutting.kind_of[int(has_space), token[int(has_space)]])

    def _choose(self, spelled: list[tuple[int, ...]], counts: np.ndarray) -> list[bytes]:
        """Every single byte, and every other token that occurs more than once, in the order of their bytes."""
        singles = [bytes([byte]) for byte in self.cutting.singles]
        is_word = (
            self._kind(token) >= 0 and count > 1 and len(token) <= LONGEST
            for token, count in zip(spelled, counts, strict=True)
        )
        return sorted(singles + [bytes(token) for token, is_one in zip(spelled, is_word, strict=True) if is_one])

    def _count_words(self, spelled: list[tuple[int, ...]], numbers: np.ndarray) -> Trie:
        kinds = self.cutting.kinds
        ids = {tuple(word): kinds + i for i, word in enumerate(self.words)}
        ids[(END,)] = end = kinds + len(self.words)
        id_of = np.array([ids.get(token, self._kind(token)) for token in spelled], np.uint32)
        return count_ngrams(id_of[numbers], self.config.order, end + 1, end)

    def _count_spellings(self, tokens: list[tuple[int, ...]]) -> Trie:
        runs = [token[token[0] == SPACE :] for token in tokens] or [()]
        spelled = np.array([END, *(symbol for run in runs for symbol in (*run, END))], np.uint32)
        return count_ngrams(spelled, self.config.spelling_order, SYMBOLS, END)

    def _prepare(self) -> None:
        """What the kernels read, from the vocabulary and the counts."""
        cutting, kinds = self.cutting, self.cutting.kinds
        words, spelling = sum_up(self.trie), sum_up(self.spelling)
        lengths = [len(word) for word in self.words] + [1]
        arena = np.append(np.frombuffer(b"".join(self.words), np.uint8), END).astype(np.uint16)
        prefixes = list_prefixes(arena, np.concatenate([[0], np.cumsum(lengths)]), kinds)
        single = np.full(SYMBOLS, -1, np.int64)
        for i, word in enumerate(self.words):
            if len(word) == 1 and cutting.class_of[word[0]] == SINGLE:
                single[word[0]] = kinds + i
        single[END] = kinds + len(self.words)
        has_space = np.isin(np.arange(kinds), cutting.kind_of[1])
        first_bytes = self._first_bytes(spelling)
        class_of_word = np.concatenate([cutting.class_of_kind, [self._class(word) for word in self.words], [SINGLE]])
        unigram = np.diff(words.upto[: 1 + self.trie.vocabulary_size])
        by_symbol = unigram[:kinds][~has_space] @ first_bytes[~has_space]
        by_symbol[SPACE] += unigram[:kinds][has_space].sum()
        np.add.at(by_symbol, arena[np.cumsum(lengths) - lengths], unigram[kinds:])
        byte_mass = np.diff(spelling.upto[: 1 + SYMBOLS])
        self.tables = Tables(
            words, spelling, prefixes, kinds, self._space(prefixes), single, cutting.joins, cutting.kind_of,
            cutting.class_of_kind, class_of_word.astype(np.int64), has_space, _cumulative(first_bytes),
            _cumulative(np.where(cutting.joins, 0.0, by_symbol)), _cumulative(np.where(cutting.joins, byte_mass, 0.0)),
        )  # fmt: skip

    def _class(self, word: bytes) -> int:
        if word == b" ":
            return LONE_SPACE
        return int(self.cutting.class_of[word[1] if word[0] == SPACE else word[0]])

    def _space(self, prefixes: Prefixes) -> int:
        roots = prefixes.symbol[prefixes.first_child[0] : prefixes.first_child[1]].tolist()
        return 1 + roots.index(SPACE) if SPACE in roots else -2

    def _first_bytes(self, spelling: Sums) -> np.ndarray:
        """p(first byte | kind) of each kind of unknown word (kinds, SYMBOLS)."""
        start = 1 + END
        share = spelling.leftover[start] * np.diff(spelling.upto[: 1 + SYMBOLS])
        children = slice(int(spelling.first_child[start]), int(spelling.first_child[start + 1]))
        share[spelling.word[children]] += np.diff(spelling.upto[children], prepend=0.0)
        kinds = np.arange(self.cutting.kinds)
        found = np.where((self.cutting.kind_of == kinds[:, None, None]).any(1), share, 0.0)
        return found / found.sum(-1, keepdims=True)

    def start(self, batch_size: int, condition: object = None) -> State:
        nodes = np.tile(np.array([0, BETWEEN, -1, 0, 0], np.int64), (batch_size, 1))
        return {"nodes": nodes, "unknown": np.zeros(batch_size)}

    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        check_ids(tokens, self.vocabulary_size)
        symbols = self._symbols(tokens).astype(np.int64)
        after = {name: array.copy() for name, array in state.items()}
        found = np.empty((*symbols.shape, SYMBOLS))
        step_symbols(self.tables, symbols, after["nodes"], after["unknown"], found)
        there = np.append(np.arange(self.vocabulary_size - 1), END)
        return np.log(found[..., there]).astype(np.float32), after

    def bit_probabilities(self, stream: np.ndarray) -> np.ndarray:
        """For every symbol after the first, the probability that each bit on the way to it is one: (symbols, 9).

        The bits are those of the byte, the most significant first. The end of a document is where the byte 0xFF is; a
        ninth decision tells them apart (one: the end), and is 0.5 elsewhere.
        """
        return self._paths(stream)[0]

    def score(self, stream: np.ndarray) -> np.ndarray:
        return self._paths(stream)[1]

    def _paths(self, stream: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        check_ids(stream, self.vocabulary_size)
        bits = np.empty((max(len(stream) - 1, 0), 9), np.float32)
        scores = np.empty(len(bits), np.float32)
        if len(stream):
            score_symbols(self.tables, self._symbols(stream), bits, scores)
        return bits, scores

    @property
    def num_parameters(self) -> int:
        """One probability for each n-gram, one weight for each context, of words and of spellings."""
        return sum(sum(trie.sizes) + sum(trie.sizes[:-1]) for trie in (self.trie, self.spelling))

    def describe(self) -> dict[str, object]:
        facts: dict[str, object] = {"words": len(self.words)}
        return facts | {f"{k}-grams of words": size for k, size in enumerate(self.trie.sizes, 1)}

    def save(self, path: Path) -> None:
        arrays = {"words": np.frombuffer(b"".join(self.words), np.uint8)}
        arrays["lengths"] = np.array([len(word) for word in self.words], np.uint8)
        arrays |= {f"word_{name}": array for name, array in self.trie.arrays().items()}
        arrays |= {f"spelling_{name}": array for name, array in self.spelling.arrays().items()}
        facts = {"vocabulary_size": self.vocabulary_size, "eos": self.eos, "config": asdict(self.config)}
        save_arrays(path, arrays, {"architecture": "wordgram", "model": json.dumps(facts)})

    @classmethod
    def load(cls, path: Path) -> "Model":
        arrays, metadata = load_arrays(path)
        try:
            facts = json.loads(metadata["model"])
            model = cls(Config(**facts["config"]), facts["vocabulary_size"], facts["eos"])
            model.words = _read_words(arrays["words"], arrays["lengths"])
            end = model.cutting.kinds + len(model.words)
            model.trie = Trie.from_arrays(_named(arrays, "word_"), end + 1, end)
            model.spelling = Trie.from_arrays(_named(arrays, "spelling_"), SYMBOLS, END)
            model._check()
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"'{path}' does not hold a wordgram ({error!r}); train it again") from None
        model._prepare()
        return model

    def _check(self) -> None:
        """Kernels do not look where they read: the words must be those of a vocabulary, as deep as the settings say."""
        if (self.trie.order, self.spelling.order) != (self.config.order, self.config.spelling_order):
            raise ValueError("its orders are not those of its settings")
        if self.words != sorted(set(self.words)) or b"" in self.words:
            raise ValueError("its words are not sorted")
        if not {bytes([byte]) for byte in self.cutting.singles} <= set(self.words):
            raise ValueError("it lacks single bytes")
        if any(self._kind(tuple(word)) < 0 and len(word) > 1 for word in self.words):
            raise ValueError("it has words that no text is cut into")


def _named(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _read_words(data: np.ndarray, lengths: np.ndarray) -> list[bytes]:
    """The words whose bytes stand one after the other."""
    if data.dtype != np.uint8 or lengths.dtype != np.uint8 or lengths.sum() != len(data):
        raise ValueError("its words and their lengths do not belong together")
    ends = np.cumsum(lengths, dtype=np.int64)
    text = data.tobytes()
    return [text[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]
