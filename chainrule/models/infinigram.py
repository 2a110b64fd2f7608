"""The infinity-gram: relative frequency after the longest context found anywhere in the corpus (Liu et al., 2024).

Nothing is smoothed: a word never seen after that context is impossible. It is the corpus itself, asked by suffix array.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from chainrule.errors import UserError
from chainrule.kernels.jit import in_parallel, kernel, ranges
from chainrule.models.contract import LanguageModel, State, check_ids, slide
from chainrule.ngram.count import MAX_TOKENS
from chainrule.ngram.suffix_array import build_suffix_array, count_next, find_longest, word_after
from chainrule.storage import load_arrays, save_arrays


@dataclass(frozen=True)
class Config:
    context_length: int = 64  # the most words looked back

    def __post_init__(self) -> None:
        if not 1 <= self.context_length <= 4096:
            raise UserError(f"the context length must be between 1 and 4096, got {self.context_length}")


SIZES = {"tiny": Config(context_length=16), "medium": Config()}
DEFAULT_SIZE = "medium"
DEFAULT_TOKENIZER = "words"


@kernel
def _distributions(contexts, ids, suffixes, eos, counts):
    for i in range(len(contexts)):
        length, first, last = find_longest(ids, suffixes, contexts[i], eos)
        counts[i, :] = 0
        count_next(ids, suffixes, length, first, last, counts[i])


@kernel
def _score(stream, start, stop, context_length, ids, suffixes, eos, scores):
    """log of how often each token followed its longest context, over how often that context occurred."""
    words = np.empty(context_length + 1, np.int64)
    for i in range(start + 1, stop + 1):
        size = min(i, context_length)
        for k in range(size):
            words[k] = stream[i - size + k]
        words[size] = stream[i]
        length, first, last = find_longest(ids, suffixes, words[:size], eos)
        low, high = first, last  # next words are sorted within the range: find this one's run
        while low < high:
            middle = (low + high) >> 1
            if word_after(ids, suffixes, middle, length) < words[size]:
                low = middle + 1
            else:
                high = middle
        end, high = low, last
        while end < high:
            middle = (end + high) >> 1
            if word_after(ids, suffixes, middle, length) <= words[size]:
                end = middle + 1
            else:
                high = middle
        scores[i - 1] = np.log((end - low) / (last - first)) if end > low else -np.inf


class Model(LanguageModel):
    def __init__(self, config: Config, vocabulary_size: int, eos: int):
        self.config, self.vocabulary_size, self.eos = config, vocabulary_size, eos
        self.receptive_field = config.context_length
        self.ids: np.ndarray
        self.suffixes: np.ndarray

    def fit(
        self,
        streams: Iterable[np.ndarray],
        held_out: np.ndarray | None = None,
        advance: Callable[[int], None] = lambda tokens: None,
    ) -> "Model":
        parts = [np.ascontiguousarray(stream, np.uint32) for stream in streams]
        self.ids = np.concatenate([parts[0], *(part[1:] for part in parts[1:])])
        check_ids(self.ids, self.vocabulary_size)
        if len(self.ids) >= MAX_TOKENS:
            raise UserError(
                f"an infinigram reads texts below {MAX_TOKENS:,} tokens, got {len(self.ids):,}; train an ngram"
            )
        self.suffixes = build_suffix_array(self.ids, self.vocabulary_size, self.eos)
        advance(len(self.ids))
        return self

    def start(self, batch_size: int, condition: object = None) -> State:
        return np.full((batch_size, self.config.context_length), -1, np.int64)

    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        check_ids(tokens, self.vocabulary_size)
        contexts, state = slide(state, np.asarray(tokens, np.int64))
        counts = np.empty((tokens.size, self.vocabulary_size), np.int64)
        _distributions(contexts.reshape(tokens.size, -1), self.ids, self.suffixes, self.eos, counts)
        with np.errstate(divide="ignore"):
            logits = np.log(counts / counts.sum(-1, keepdims=True)).astype(np.float32)
        return logits.reshape(*tokens.shape, -1), state

    def score(self, stream: np.ndarray) -> np.ndarray:
        check_ids(stream, self.vocabulary_size)
        stream = np.ascontiguousarray(stream, np.uint32)
        scores = np.empty(max(len(stream) - 1, 0), np.float32)
        fixed = (self.config.context_length, self.ids, self.suffixes, self.eos, scores)
        in_parallel(_score, [(stream, *part, *fixed) for part in ranges(0, len(scores))])
        return scores

    def evidence(self, words: np.ndarray) -> tuple[int, np.ndarray]:
        """(length of the longest end of `words` that occurs, positions in the stream where it does)."""
        length, first, last = find_longest(self.ids, self.suffixes, np.asarray(words, np.int64), self.eos)
        return int(length), np.sort(self.suffixes[first:last]).astype(np.int64)

    def matched_context(self, ids: np.ndarray) -> list[int]:
        """The longest end of the text that occurs in the corpus."""
        read = ids[-self.config.context_length :]
        length, _ = self.evidence(read)
        return [int(id) for id in read[len(read) - length :]]

    def _check(self) -> None:
        """Kernels do not look where they read: every id and every position must be one."""
        if self.ids.dtype != np.uint32 or self.suffixes.dtype != np.uint32 or len(self.suffixes) != len(self.ids) - 1:
            raise ValueError("its arrays do not belong together")
        if (
            not 0 <= self.eos < self.vocabulary_size
            or self.ids.max() >= self.vocabulary_size
            or self.ids[-1] != self.eos
        ):
            raise ValueError("it has tokens beyond its vocabulary")
        if len(self.suffixes) and self.suffixes.max() >= len(self.suffixes):
            raise ValueError("it has positions beyond its text")

    @property
    def num_parameters(self) -> int:
        return len(self.ids)

    def describe(self) -> dict[str, object]:
        return {"tokens in the corpus": len(self.ids) - 1}

    def save(self, path: Path) -> None:
        facts = {"vocabulary_size": self.vocabulary_size, "eos": self.eos, "config": asdict(self.config)}
        save_arrays(
            path,
            {"ids": self.ids, "suffixes": self.suffixes},
            {"architecture": "infinigram", "model": json.dumps(facts)},
        )

    @classmethod
    def load(cls, path: Path) -> "Model":
        arrays, metadata = load_arrays(path)
        try:
            facts = json.loads(metadata["model"])
            model = cls(Config(**facts["config"]), facts["vocabulary_size"], facts["eos"])
            model.ids, model.suffixes = arrays["ids"], arrays["suffixes"]
            model._check()
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"'{path}' does not hold an infinity-gram ({error!r}); train it again") from None
        return model
