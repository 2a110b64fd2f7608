"""Context mixing: many views of what came before vote on each bit of the next byte, by how right they have been.

log-odds(bit) = Σ_i w_i(c) log-odds_i, where the i-th is what a context (the last one to twelve bytes, words, words and
bytes apart, the longest match) has been worth in its present state, and the weights w_i, chosen by small contexts c,
were learned bit by bit while reading (Mahoney's PAQ, 2002 to 2005). There is no back-off: every context has its vote.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import ceil, log2
from pathlib import Path

import numpy as np

from chainrule.checks import require_number
from chainrule.config import from_json
from chainrule.errors import UserError
from chainrule.kernels.jit import in_parallel
from chainrule.models import _context_mixing as mixing
from chainrule.models._bits import score_bits, to_bytes
from chainrule.models._context_mixing import CONTEXTS, END, REACH, Tables
from chainrule.models.contract import LanguageModel, State, check_ids
from chainrule.storage import load_arrays, save_arrays

MOST_BYTES = 1 << 31
MOST_SLOTS = 1 << 21  # per context, of 16 bytes each
READ_AGAIN = 2_000_000  # bytes read in all before there are no more passes
MOST_PASSES = 8
AT_ONCE = 1 << 18  # bytes between two reports of progress
FIRST_COUNTS = 0.2  # added to counts where nothing is learned yet
FIRST_SEEN = 6.0
FIRST_WEIGHT = 0.15
LEARNED = ("chances", "seen", "frequencies", "weights", "final_weights")


@dataclass(frozen=True)
class Config:
    passes: int = 0  # how often the text is read, in another order each time; 0: by its size
    most_bytes: int = 0  # read no more than so many bytes of the text; 0: all of it
    seed: int = 0  # of the order in which documents are read
    dynamic: bool = False  # whether texts that are scored are learned from on the way

    def __post_init__(self) -> None:
        require_number("passes", self.passes, 0)
        require_number("most_bytes", self.most_bytes, 0)


SIZES = {"tiny": Config(passes=2), "medium": Config()}
DEFAULT_SIZE = "medium"
DEFAULT_TOKENIZER = "bytes"


class Model(LanguageModel):
    """A state is the last REACH bytes, (batch, REACH), and place and length of the match that is followed, (batch, 2).

    `text` is what was read in the last pass, REACH zeros first.
    """

    def __init__(self, config: Config, vocabulary_size: int, eos: int):
        if vocabulary_size > 257 or (vocabulary_size == 257 and eos != 256):
            raise UserError(
                f"context mixing predicts the bits of bytes, got a vocabulary of {vocabulary_size:,} tokens; "
                "use the tokenizer 'bytes'"
            )
        self.config, self.vocabulary_size, self.eos = config, vocabulary_size, eos
        self.text = np.zeros(REACH, np.uint8)
        self.tables: Tables

    @property
    def shares_last_leaf(self) -> bool:
        """Whether byte 255 and the end of a document are told apart by one more decision."""
        return self.vocabulary_size > END and self.eos != END

    def fit(
        self,
        streams: Iterable[np.ndarray],
        held_out: np.ndarray | None = None,
        advance: Callable[[int], None] = lambda tokens: None,
    ) -> "Model":
        """Read the documents in random order, several times if they are few; counts begin anew in each pass."""
        documents = _documents([self._to_bytes(stream) for stream in streams], self.config.most_bytes)
        size = sum(map(len, documents))
        passes = self.config.passes or int(min(max(READ_AGAIN // max(size, 1), 1), MOST_PASSES))
        self.tables = _new_tables(size, self._forced())
        generator = np.random.default_rng(self.config.seed)
        for number in range(passes):
            if number:
                self.tables.slots[:], self.tables.latest[:] = 0, 0
                np.minimum(self.tables.seen, 60, out=self.tables.seen)
            order = generator.permutation(len(documents))
            end = np.full(1, END, np.uint8)
            self.text = np.concatenate([np.zeros(REACH, np.uint8), end, *(documents[i] for i in order)])
            self._learn(self.tables, self.text, REACH + 1, advance if number == passes - 1 else lambda tokens: None)
        return self

    def read_more(self, stream: np.ndarray) -> None:
        """Learn one more stream eos d1 eos ... eos, after all that was read before."""
        start = len(self.text)
        self.text = np.concatenate([self.text, self._to_bytes(stream[1:])])
        self._learn(self.tables, self.text, start, lambda tokens: None)

    def _learn(self, tables: Tables, text: np.ndarray, start: int, advance: Callable[[int], None]) -> np.ndarray:
        """Predict and learn text[start:]; returns P(1) of each bit (bytes, 8)."""
        bits = np.empty((len(text) - start, 8), np.float32)
        rates, match = np.array([0.0015, 0.008, 1.0]), np.zeros(2, np.int64)
        for begin in range(start, len(text), AT_ONCE):
            stop = min(begin + AT_ONCE, len(text))
            mixing.read(text, text, begin, stop, tables, rates, match, bits[begin - start : stop - start])
            advance(stop - begin)
        return bits

    def _to_bytes(self, ids: np.ndarray) -> np.ndarray:
        check_ids(ids, self.vocabulary_size)
        return to_bytes(ids, self.eos)

    def _forced(self) -> np.ndarray:
        """For each node of the tree of symbols, the bit that must follow where the vocabulary leaves no choice."""
        used = np.zeros(512, bool)
        used[256 : 256 + min(self.vocabulary_size, 256)] = True
        if self.eos < 256:
            used[256 + self.eos] = False
        used[256 + END] = True
        for node in range(255, 0, -1):
            used[node] = used[2 * node] or used[2 * node + 1]
        zero, one = used[0:512:2][:256], used[1:512:2][:256]
        forced = np.full(256, -1, np.int8)
        forced[zero & ~one], forced[one & ~zero] = 0, 1
        forced[~zero & ~one] = 0
        return forced

    def start(self, batch_size: int, condition: object = None) -> State:
        return np.zeros((batch_size, REACH), np.uint8), np.zeros((batch_size, 2), np.int64)

    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        read = self._to_bytes(tokens)
        histories, matches = np.concatenate([state[0], read], 1), state[1].copy()
        found = np.empty((*tokens.shape, 256))
        with np.errstate(divide="ignore"):
            mixing.distributions(self.text, histories, matches, self.tables, found)
        return self._to_logits(found), (histories[:, -REACH:], matches)

    def _to_logits(self, found: np.ndarray) -> np.ndarray:
        """Of the 256 symbols, those of the vocabulary; the last leaf is the end of a document, and rarely byte 255."""
        logits = np.full((*found.shape[:-1], self.vocabulary_size), -np.inf, np.float32)
        size = min(self.vocabulary_size, 256)
        logits[..., :size] = found[..., :size]
        logits[..., self.eos] = found[..., END]
        if self.shares_last_leaf:
            logits[..., self.eos] += np.log1p(-mixing.SMALLEST)
            logits[..., END] += np.log(mixing.SMALLEST)
        return logits

    def bit_probabilities(self, stream: np.ndarray) -> np.ndarray:
        """P(1) of each bit of every symbol after the first of a stream, (symbols, 9).

        The ninth decision, after byte 255, is whether that is the end of a document.
        """
        read = self._to_bytes(stream)
        if self.config.dynamic:
            text = np.concatenate([self.text, read])
            tables = self.tables._replace(**{name: array.copy() for name, array in self.tables._asdict().items()})
            bits = self._learn(tables, text, len(self.text), lambda tokens: None)[1:]
        else:
            history = np.concatenate([np.zeros(REACH, np.uint8), read])
            bits = np.empty((max(len(read) - 1, 0), 8), np.float32)
            mixing.read(
                self.text, history, REACH + 1, len(history), self.tables, np.zeros(3), np.zeros(2, np.int64), bits
            )
        last = np.full((len(bits), 1), 1 - mixing.SMALLEST if self.shares_last_leaf else 1.0, np.float32)
        return np.concatenate([bits, last], 1)

    def score(self, stream: np.ndarray) -> np.ndarray:
        return score_bits(self.bit_probabilities(stream), stream, self.eos)

    @property
    def num_parameters(self) -> int:
        return len(self.text) - REACH + self.tables.weights.size + self.tables.chances.size

    def describe(self) -> dict[str, object]:
        return {"bytes read": len(self.text) - REACH - 1, "contexts": CONTEXTS}

    def save(self, path: Path) -> None:
        """The text and what was learned; counting again takes less time than the counts would take space."""
        facts = {"vocabulary_size": self.vocabulary_size, "eos": self.eos, "config": asdict(self.config)}
        curves = self.tables.curves.reshape(-1, mixing.STEPS)
        changed = np.flatnonzero((curves != _straight()).any(1))
        arrays = {name: getattr(self.tables, name) for name in LEARNED}
        arrays |= {"text": self.text, "curves": curves[changed], "changed_curves": changed}
        save_arrays(path, arrays, {"architecture": "contextmixing", "model": json.dumps(facts)})

    @classmethod
    def load(cls, path: Path) -> "Model":
        arrays, metadata = load_arrays(path)
        try:
            facts = json.loads(metadata["model"])
            config = from_json(Config, facts["config"], "the file")
            model = cls(config, facts["vocabulary_size"], facts["eos"])
            model.text = np.array(arrays["text"])
            model.tables = _new_tables(len(model.text) - REACH - 1, model._forced())
            _restore(model, arrays)
        except (KeyError, TypeError, ValueError, IndexError, UserError) as error:
            raise UserError(f"'{path}' does not hold a model of mixed contexts ({error}); train it again") from None
        return model


def _documents(streams: list[np.ndarray], most: int) -> list[np.ndarray]:
    """Each document of the streams END d1 END ... END, with the END after it; of too much text, the last documents."""
    found: list[np.ndarray] = []
    for stream in streams:
        ends = np.flatnonzero(stream == END)
        found += [stream[first + 1 : last + 1] for first, last in pairwise(ends)]
    if most:
        sizes = np.cumsum([len(document) for document in reversed(found)])
        found = found[len(found) - max(int(np.searchsorted(sizes, most, side="right")), 1) :]
    return found


def _straight() -> np.ndarray:
    """A curve that changes no probability."""
    return (1 / (1 + np.exp(8 - np.arange(mixing.STEPS) / 2))).astype(np.float32)


def _new_tables(size: int, forced: np.ndarray) -> Tables:
    """Tables for so many bytes of text, before anything is read."""
    if size > MOST_BYTES:
        raise UserError(f"context mixing reads texts of up to {MOST_BYTES:,} bytes, got {size:,}; set most_bytes")
    slots = min(1 << max(12, ceil(log2(max(size, 2)))), MOST_SLOTS)
    counts = mixing.LEVELS.astype(np.float32) + FIRST_COUNTS
    chances = np.full(mixing.STATES + mixing.MATCH_LENGTHS, 0.9, np.float32)
    by_counts = counts / (counts + counts[:, None])  # (of 0, of 1)
    shape = (CONTEXTS * 3, len(counts), len(counts), 8)
    chances[: mixing.STATES] = np.broadcast_to(by_counts[None, :, :, None], shape).reshape(-1)
    chances[mixing.NO_STATE] = 0.5
    return Tables(
        slots=np.zeros((CONTEXTS, slots + 1, 2 + 2 * mixing.SYMBOLS), np.uint8),
        latest=np.zeros((3, max(slots, 1 << 16)), np.int64),
        chances=chances,
        seen=np.full(len(chances), FIRST_SEEN, np.float32),
        frequencies=np.full((257, 256), 0.5, np.float32),
        weights=np.full((mixing.WEIGHT_ROWS[-1], mixing.INPUTS), FIRST_WEIGHT, np.float32),
        final_weights=np.full((256, mixing.SETS), 1 / mixing.SETS, np.float32),
        curves=np.tile(_straight(), (2, mixing.CURVES, 1)),
        forced=forced,
    )


def _restore(model: Model, arrays: dict[str, np.ndarray]) -> None:
    """Fill a model's tables from a file's arrays, which are checked first: kernels read without checking bounds."""
    text, tables = model.text, model.tables
    if text.dtype != np.uint8 or text.ndim != 1 or len(text) <= REACH or text[:REACH].any() or text[REACH] != END:
        raise ValueError("its text is not one")
    for name in LEARNED:
        expected = getattr(tables, name)
        if arrays[name].shape != expected.shape or arrays[name].dtype != expected.dtype:
            raise ValueError(f"its {name} are not of the right size")
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"its {name} are not numbers")
        expected[:] = arrays[name]
    if (
        tables.chances.min() < 0
        or tables.chances.max() > 1
        or tables.frequencies.min() < 0
        or tables.frequencies.max() > 1
    ):
        raise ValueError("its probabilities are not between 0 and 1")
    if arrays["curves"].shape != (len(arrays["changed_curves"]), mixing.STEPS):
        raise ValueError("its curves do not belong together")
    tables.curves.reshape(-1, mixing.STEPS)[arrays["changed_curves"]] = arrays["curves"]
    half = CONTEXTS // 2
    in_parallel(mixing.count_again, [(text, 0, half, tables.slots), (text, half, CONTEXTS, tables.slots)])
    mixing.index_again(text, tables.latest)
