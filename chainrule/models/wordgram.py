"""The word n-gram that predicts bytes: modified Kneser-Ney over words, summed over all words that go on with a byte.

A document is cut, from left to right, into tokens: a run of bytes of one class together with the one space directly
before it, if there is one, or a single byte (a space that no run follows, a newline, a control character). The classes
are words (ASCII letters, digits, and characters from U+0080 to U+1FFF), ASCII punctuation, and characters from U+2000
on, such as Chinese ones and dashes, each of which is a run by itself. " cow" and "cow" are different tokens. One that
occurs only once, or is longer than 32 bytes, is unknown: it counts as one of a few kinds, by its first byte and whether
a space is before it, and p(kind | h) is spread over spellings by an n-gram of bytes, counted over all different tokens.

So, after the tokens h and the beginning u of the next one,

    p(u ... | h) = sum over words w that begin with u of p(w | h)  +  p(kind | h) p_spelling(u)
    p(byte b | h, u) = p(u b ... | h) / p(u ... | h)                                       where b goes on with u
    p(byte b | h, u) = p(u | h) / p(u ... | h)  p(b ... | h u) / p(all that may come | h u)     where b ends it

and what may come after a run is everything but another run of its class without a space.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from chainrule.errors import UserError
from chainrule.kernels.jit import in_parallel, ranges
from chainrule.models._wordgram import BETWEEN, END, MOST_CONTEXTS, SPACE, SYMBOLS, Tables, score_symbols, step_symbols
from chainrule.models._wordgram_tables import LONGEST, Cutting, Token, make_tables
from chainrule.models.contract import LanguageModel, State, check_ids
from chainrule.ngram.count import MAX_TOKENS, count_ngrams
from chainrule.ngram.trie import Trie
from chainrule.storage import load_arrays, save_arrays


@dataclass(frozen=True)
class Config:
    order: int = 4  # the n of the n-gram of words
    spelling_order: int = 8  # the n of the n-gram of bytes that spells unknown words

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 1 < value < MOST_CONTEXTS:
                raise UserError(f"the {name.replace('_', ' ')} must be between 2 and {MOST_CONTEXTS - 1}, got {value}")


SIZES = {"tiny": Config(order=3, spelling_order=3), "small": Config(order=3), "medium": Config(), "large": Config(5)}
DEFAULT_SIZE = "medium"
DEFAULT_TOKENIZER = "bytes"


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
        tokens, numbers, counts = self.cutting.number_tokens(self.symbols(stream))
        self.words = self._choose_words(tokens, counts)
        self.trie = count_ngrams(self._ids(tokens)[numbers], self.config.order, self.num_ids, self.end)
        self.spelling = self._count_spellings(tokens)
        self.tables = make_tables(self.cutting, self.words, self.trie, self.spelling)
        advance(len(stream))
        return self

    def symbols(self, stream: np.ndarray) -> np.ndarray:
        symbols = np.asarray(stream).astype(np.uint16)
        symbols[symbols == self.eos] = END
        return symbols

    def _choose_words(self, tokens: list[Token], counts: np.ndarray) -> list[bytes]:
        """Every single byte, and every run that occurs more than once, in the order of their bytes."""
        words = [bytes([byte]) for byte in self.cutting.singles]
        for token, count in zip(tokens, counts, strict=True):
            if count > 1 and len(token) <= LONGEST and self.cutting.kind(token) >= 0:
                words.append(bytes(token))
        return sorted(words)

    @property
    def end(self) -> int:
        """The id of the end of a document: after kinds of unknown words and words."""
        return self.cutting.kinds + len(self.words)

    @property
    def num_ids(self) -> int:
        return self.end + 1

    def _ids(self, tokens: list[Token]) -> np.ndarray:
        ids = {tuple(word): self.cutting.kinds + i for i, word in enumerate(self.words)}
        ids[(END,)] = self.end
        return np.array([ids.get(token, self.cutting.kind(token)) for token in tokens], np.uint32)

    def encode(self, stream: np.ndarray) -> np.ndarray:
        """A stream of bytes as ids of tokens, unknown ones as their kinds."""
        tokens, numbers, _ = self.cutting.number_tokens(self.symbols(stream))
        ids: np.ndarray = self._ids(tokens)[numbers]
        return ids

    def _count_spellings(self, tokens: list[Token]) -> Trie:
        """The n-grams of bytes of all different runs, without the space before."""
        runs = [token[token[0] == SPACE :] for token in tokens if self.cutting.kind(token) >= 0] or [()]
        symbols = np.array([END, *(symbol for run in runs for symbol in (*run, END))], np.uint32)
        return count_ngrams(symbols, self.config.spelling_order, SYMBOLS, END)

    def start(self, batch_size: int, condition: object = None) -> State:
        nodes = np.tile(np.array([0, BETWEEN, -1, 0, 0], np.int64), (batch_size, 1))
        return {"nodes": nodes, "unknown": np.zeros(batch_size)}

    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        check_ids(tokens, self.vocabulary_size)
        symbols = self.symbols(tokens).astype(np.int64)
        after = {name: array.copy() for name, array in state.items()}
        found = np.empty((*symbols.shape, SYMBOLS))
        step_symbols(self.tables, symbols, after["nodes"], after["unknown"], found)
        return self.to_logits(found), after

    def to_logits(self, found: np.ndarray) -> np.ndarray:
        """log p of the vocabulary (..., vocabulary) from p of all symbols (..., SYMBOLS)."""
        there = np.append(np.arange(self.vocabulary_size - 1), END)
        logits: np.ndarray = np.log(found[..., there]).astype(np.float32)
        return logits

    def bit_probabilities(self, stream: np.ndarray) -> np.ndarray:
        """For every symbol after the first, the probability that each bit on the way to it is one: (symbols, 9).

        The bits are those of the byte, the most significant first. The end of a document is where the byte 0xFF is; a
        ninth decision tells them apart (one: the end), and is 0.5 elsewhere. Numbers of 32 bits tell little of what is
        nearly sure, so none is nearer to 0 or 1 than 2^-22; `score` has no such limit.
        """
        return self._paths(stream)[0]

    def score(self, stream: np.ndarray) -> np.ndarray:
        return self._paths(stream)[1]

    def _paths(self, stream: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        check_ids(stream, self.vocabulary_size)
        bits = np.empty((max(len(stream) - 1, 0), 9), np.float32)
        scores = np.empty(len(bits), np.float32)
        symbols = self.symbols(stream)
        no_tokens, no_network = np.empty(0, np.int64), np.empty((0, 0))
        calls = []
        for first, last in self._between_documents(symbols):
            nodes, unknown = self.start(1).values()
            read, here = symbols[first : last + 1], slice(first, last)
            calls.append((self.tables, read, no_tokens, no_network, nodes, unknown, 1, bits[here], scores[here]))
        in_parallel(score_symbols, calls)
        return bits, scores

    def _between_documents(self, symbols: np.ndarray) -> list[tuple[int, int]]:
        """The positions 0 ... len(symbols) - 1 in a range a core; all but the first begin where a document ends."""
        ends = np.flatnonzero(symbols == END)
        edges = [0]
        for _, last in ranges(0, max(len(symbols) - 1, 0))[:-1]:
            later = ends[np.searchsorted(ends, last) :]
            edges.append(int(later[0]) if len(later) else len(symbols) - 1)
        return list(pairwise([*edges, max(len(symbols) - 1, 0)]))

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
            model.trie = Trie.from_arrays(_named(arrays, "word_"), model.num_ids, model.end)
            model.spelling = Trie.from_arrays(_named(arrays, "spelling_"), SYMBOLS, END)
            model._check()
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"'{path}' does not hold a wordgram ({error!r}); train it again") from None
        model.tables = make_tables(model.cutting, model.words, model.trie, model.spelling)
        return model

    def _check(self) -> None:
        """Kernels do not look where they read: the words must be those of a vocabulary, as deep as the settings say."""
        if (self.trie.order, self.spelling.order) != (self.config.order, self.config.spelling_order):
            raise ValueError("its orders are not those of its settings")
        if self.words != sorted(set(self.words)) or b"" in self.words:
            raise ValueError("its words are not sorted")
        if not {bytes([byte]) for byte in self.cutting.singles} <= set(self.words):
            raise ValueError("it lacks single bytes")
        if any(self.cutting.kind(tuple(word)) < 0 and len(word) > 1 for word in self.words):
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
