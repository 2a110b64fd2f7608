"""Context mixing: many views of what came before vote on each bit of the next byte, by how right they have been.

log-odds(bit) = Σ_i w_i(c) log-odds_i, where the i-th is what a context (the last one to twelve bytes, words, words and
bytes apart, the longest match) has been worth in its present state, and the weights w_i, chosen by small contexts c,
were learned bit by bit while reading (Mahoney's PAQ, 2002 to 2005). There is no back-off: every context has its vote.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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
from chainrule.models._context_mixing import CONTEXTS, END, Tables
from chainrule.models._context_mixing import REACH as REACH
from chainrule.models.contract import LanguageModel, State, check_ids
from chainrule.storage import load_arrays, save_arrays

MOST_BYTES = 1 << 31
MOST_SLOTS = 1 << 21  # per context, of 16 bytes each
READ_AGAIN = 3_000_000  # bytes read in all before there are no more passes
MOST_PASSES = 8
MOST_PREDICTED = 4_000_000  # bytes of a longer text, by default; the rest is only counted
WORTH_A_PASS = 0.2  # of the text that there must be time to predict
COUNTING_IS_FASTER = 5.0  # than predicting and learning, at the least
AT_ONCE = 1 << 15  # bytes between two reports of progress, and two looks at the clock
FIRST_COUNTS = 0.2  # added to counts where nothing is learned yet
FIRST_SEEN = 6.0
FIRST_WEIGHT = 0.15
LARGE = ("slots", "latest")  # tables that are made anew from the text when a model is loaded
LEARNED = ("chances", "seen", "frequencies", "weights", "final_weights")


@dataclass(frozen=True)
class Config:
    passes: int = 0  # how often the text is read, in another order each time; 0: by its size
    most_bytes: int = 0  # read no more than so many bytes of the text; 0: all of it
    predicted_bytes: int = MOST_PREDICTED  # of a longer text, the rest is only counted, several times as fast
    seed: int = 0  # of the order in which documents are read
    dynamic: bool = False  # whether texts that are scored are learned from on the way

    def __post_init__(self) -> None:
        require_number("passes", self.passes, 0)
        require_number("most_bytes", self.most_bytes, 0)
        require_number("predicted_bytes", self.predicted_bytes, 1)


SIZES = {"tiny": Config(passes=2), "medium": Config()}
DEFAULT_SIZE = "medium"
DEFAULT_TOKENIZER = "bytes"


class ReadingTime:
    """The seconds to read a text in, and how many of its bytes they suffice to predict, by the speed so far."""

    def __init__(self, seconds: float | None):
        self._ends_at = None if seconds is None else time.perf_counter() + seconds
        self._bytes, self._seconds = 0, 0.0

    @contextmanager
    def predicting(self, size: int) -> Iterator[None]:
        """So many bytes are predicted inside."""
        began = time.perf_counter()
        yield
        self._bytes += size
        self._seconds += time.perf_counter() - began

    def affordable(self, size: int) -> float:
        """How many of so many bytes there is time to predict, if the others are counted."""
        if self._ends_at is None or not self._bytes:
            return size
        predicting = self._seconds / self._bytes
        counting = predicting / COUNTING_IS_FASTER
        spare = self._ends_at - time.perf_counter() - size * counting
        return min(max(spare / (predicting - counting), 0), size)


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
        self.predicted = 0  # bytes, in all passes; more were only counted
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
        seconds: float | None = None,
    ) -> "Model":
        """Read the documents in random order, several times if they are few; counts begin anew in each pass.

        To predict the text, and to learn from that what each context is worth, takes several times as long as to count
        it. Of a long text, and where the seconds do not suffice, a first part is predicted and the rest only counted.
        """
        documents = _documents([self._to_bytes(stream) for stream in streams], self.config.most_bytes)
        size = sum(map(len, documents))
        self.tables = _new_tables(size, self._forced())
        generator, left = np.random.default_rng(self.config.seed), ReadingTime(seconds)
        by_size = int(min(max(READ_AGAIN // max(size, 1), 1), MOST_PASSES))
        passes = self.config.passes or by_size
        for number in range(passes):
            if number and left.affordable(size) < WORTH_A_PASS * size:
                break
            if number:
                self.tables.slots[:], self.tables.latest[:] = 0, 0
                np.minimum(self.tables.seen, 60, out=self.tables.seen)
            order = generator.permutation(len(documents))
            end = np.full(1, END, np.uint8)
            self.text = np.concatenate([np.zeros(REACH, np.uint8), end, *(documents[i] for i in order)])
            self._read_pass(left, advance if number == passes - 1 else lambda tokens: advance(0))
        return self

    def _read_pass(self, left: ReadingTime, advance: Callable[[int], None]) -> None:
        """Predict the text for as long as the settings and the time allow, and count the rest."""
        first, stop, match = REACH + 1, len(self.text), np.zeros(2, np.int64)
        for begin in range(first, stop, AT_ONCE):
            if begin - first >= self.config.predicted_bytes or not left.affordable(stop - begin):
                self._count(begin, stop)
                advance(stop - begin)
                break
            end = min(begin + AT_ONCE, stop)
            with left.predicting(end - begin):
                self._learn(self.tables, self.text, begin, end, match)
            self.predicted += end - begin
            advance(end - begin)

    def _count(self, start: int, stop: int) -> None:
        """Count text[start:stop] and enter it into the index of matches, without predicting it."""
        text, tables, half = self.text, self.tables, CONTEXTS // 2
        parts = [(text, start, stop, 0, half, tables.slots), (text, start, stop, half, CONTEXTS, tables.slots)]
        in_parallel(mixing.count, parts)
        mixing.index(text, start, stop, tables.latest)

    def read_more(self, stream: np.ndarray) -> np.ndarray:
        """Learn one more stream eos d1 eos ... eos, after all that was read before; returns how it was predicted on the
        way, as `bit_probabilities` does."""
        start = len(self.text)
        self.text = np.concatenate([self.text, self._to_bytes(stream[1:])])
        return self._with_last(self._learn(self.tables, self.text, start, len(self.text), np.zeros(2, np.int64)))

    def _learn(self, tables: Tables, text: np.ndarray, start: int, stop: int, match: np.ndarray) -> np.ndarray:
        """Predict and learn text[start:stop]; returns P(1) of each bit (bytes, 8). `match` is followed and goes on."""
        bits = np.empty((stop - start, 8), np.float32)
        mixing.read(text, text, start, stop, tables, np.array([0.0015, 0.008, 1.0]), match, bits)
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

    def bit_probabilities(self, stream: np.ndarray, spoils_counts: bool = False) -> np.ndarray:
        """P(1) of each bit of every symbol after the first of a stream, (symbols, 9).

        The ninth decision, after byte 255, is whether that is the end of a document. A dynamic model learns on the way
        in a copy of its tables. `spoils_counts` saves the time and memory of copying the large ones: such a model can
        be saved, as counts are not, but predicts nothing any more.
        """
        read = self._to_bytes(stream)
        if self.config.dynamic:
            repeated = int(read[0] == self.text[-1] == END)  # the stream begins where the text ends
            text = np.concatenate([self.text, read[repeated:]])
            kept = LARGE if spoils_counts else ()
            copies = {name: array.copy() for name, array in self.tables._asdict().items() if name not in kept}
            tables = self.tables._replace(**copies)
            bits = self._learn(tables, text, len(self.text), len(text), np.zeros(2, np.int64))
            return self._with_last(bits[1 - repeated :])
        history = np.concatenate([np.zeros(REACH, np.uint8), read])
        bits = np.empty((max(len(read) - 1, 0), 8), np.float32)
        mixing.read(self.text, history, REACH + 1, len(history), self.tables, np.zeros(3), np.zeros(2, np.int64), bits)
        return self._with_last(bits)

    def _with_last(self, bits: np.ndarray) -> np.ndarray:
        """With the ninth decision, (symbols, 9)."""
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
    empty = np.empty((CONTEXTS, slots + 1, 2 + 2 * mixing.SYMBOLS), np.uint8)
    empty.fill(0)  # touches every page: page faults later on would be taken for slow reading
    return Tables(
        slots=empty,
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
    model._count(REACH + 1, len(text))
