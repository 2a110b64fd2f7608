"""The n-gram model: p(w | the n - 1 words before), by counting and smoothing. Its logits are log-probabilities."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from chainrule.errors import UserError
from chainrule.models._ladder import Counted, climb_down
from chainrule.models.contract import LanguageModel, State, check_ids, slide
from chainrule.models.explanation import Ladder, TokenText
from chainrule.ngram import merge
from chainrule.ngram.config import IMPORTED as IMPORTED
from chainrule.ngram.config import MOST_WORDS as MOST_WORDS
from chainrule.ngram.config import Config as Config
from chainrule.ngram.count import count_ngrams
from chainrule.ngram.prune import prune
from chainrule.ngram.query import context_lengths, distributions, score_stream
from chainrule.ngram.smoothing import METHODS, Estimates, Smoothing
from chainrule.ngram.trie import Trie
from chainrule.storage import load_arrays, save_arrays

SIZES = {
    "tiny": Config(order=3),
    "small": Config(order=4),
    "medium": Config(order=5),
    "large": Config(order=7),
}
DEFAULT_SIZE = "medium"
DEFAULT_TOKENIZER = "words"


class Model(LanguageModel):
    """Train with `fit`; a fitted model answers `step` (whole distributions) and `score` (a stream at once)."""

    def __init__(self, config: Config, vocabulary_size: int, eos: int):
        self.config, self.vocabulary_size, self.eos = config, vocabulary_size, eos
        self.receptive_field = max(config.order - 1, 1)
        self.trie: Trie
        self.estimates: Estimates

    def fit(
        self,
        streams: Iterable[np.ndarray],
        held_out: np.ndarray | None = None,
        advance: Callable[[int], None] = lambda tokens: None,
    ) -> "Model":
        """Count every stream eos d1 eos ... eos, add the counts up, and smooth them."""
        trie: Trie | None = None
        for stream in streams:
            check_ids(stream, self.vocabulary_size)
            ids = np.ascontiguousarray(stream, np.uint32)
            counted = count_ngrams(ids, self.config.order, self.vocabulary_size, self.eos, advance)
            trie = counted if trie is None else merge.add(trie, counted)
            del counted
        assert trie is not None, "there is at least one stream"
        return self.smooth(trie, held_out)

    def smooth(self, trie: Trie, held_out: np.ndarray | None = None) -> "Model":
        config = self.config
        if config.smoothing == IMPORTED:
            raise UserError(
                f"'{IMPORTED}' is for models read from a file; to train, choose one of {', '.join(METHODS)}"
            )
        smoothing = Smoothing(config.k, config.alpha, config.discounts, config.prune)
        held_out = None if held_out is None else np.ascontiguousarray(held_out, np.uint32)
        estimates = METHODS[config.smoothing](trie, smoothing, held_out)
        if any(config.prune):
            trie, estimates = prune(trie, estimates, config.prune)
        self.trie, self.estimates = trie, estimates
        return self

    def _require_whole_counts(self) -> None:
        if any(self.config.prune) or self.config.smoothing == IMPORTED:
            raise UserError("the counts of a pruned or imported model are not all there; train one without pruning")

    def _require_counts(self) -> None:
        self._require_whole_counts()
        if METHODS[self.config.smoothing].fits_held_out:
            raise UserError(
                f"{self.config.smoothing} weights were fitted on held-out text that is not here; use another smoothing"
            )

    def add(self, other: "Model") -> "Model":
        """The model of both texts together, exactly as if it had been trained on them."""
        self._require_counts()
        other._require_counts()
        if self.config != other.config:
            raise UserError(f"only models of equal settings can be merged, got {self.config} and {other.config}")
        return Model(self.config, self.vocabulary_size, self.eos).smooth(merge.add(self.trie, other.trie))

    def without(self, stream: np.ndarray) -> "Model":
        """The model without the documents of this stream, exactly as if it had never seen them."""
        self._require_counts()
        ids = np.ascontiguousarray(stream, np.uint32)
        counted = count_ngrams(ids, self.config.order, self.vocabulary_size, self.eos)
        return Model(self.config, self.vocabulary_size, self.eos).smooth(merge.subtract(self.trie, counted))

    def start(self, batch_size: int, condition: object = None) -> State:
        return np.full((batch_size, self.config.order - 1), -1, np.int64)  # the words before; -1: none

    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        check_ids(tokens, self.vocabulary_size)
        contexts, state = slide(state, np.asarray(tokens, np.int64))
        logits = distributions(self.trie, self.estimates, contexts.reshape(tokens.size, self.config.order - 1))
        return logits.reshape(*tokens.shape, -1), state

    def score(self, stream: np.ndarray) -> np.ndarray:
        """log p of every token after the first of a stream eos d1 eos d2 ... eos, without whole distributions."""
        check_ids(stream, self.vocabulary_size)
        return score_stream(self.trie, self.estimates, np.ascontiguousarray(stream, np.uint32))[0]

    def context_lengths(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        """How many words up to each position (batch, time) are a context that it knows, and the new state."""
        check_ids(tokens, self.vocabulary_size)
        contexts, state = slide(state, np.asarray(tokens, np.int64))
        lengths = context_lengths(self.trie, contexts.reshape(tokens.size, self.config.order - 1))
        return lengths.reshape(tokens.shape), state

    def followers(self, context: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """The tokens that followed these words, at most n - 1 of them, and how often each did."""
        self._require_whole_counts()
        node = self._counted().context_node(context)
        low, high = (0, 0) if node is None else self.trie.first_child[node : node + 2].tolist()
        followed = np.arange(low, high)[self.trie.count[low:high] > 0]
        return self.trie.word[followed].astype(np.int64), self.trie.count[followed].astype(np.int64)

    def distribution(self, context: list[int]) -> np.ndarray:
        """log p(. | context) of the whole vocabulary, after at most n - 1 words, or none."""
        padded = np.full((1, self.config.order - 1), -1, np.int64)
        padded[0, self.config.order - 1 - len(context) :] = context
        found: np.ndarray = distributions(self.trie, self.estimates, padded)[0]
        return found

    def matched_context(self, ids: np.ndarray) -> list[int]:
        """The longest end of the text that is a context of the model."""
        return self._counted().matched_context(ids)

    def look_inside(self, ids: np.ndarray, token: int, token_text: TokenText) -> Ladder:
        """The back-off ladder of p(token | ids)."""
        return climb_down(self._counted(), ids, token, token_text)

    def _counted(self) -> Counted:
        config = self.config
        is_imported = config.smoothing == IMPORTED  # ARPA files back off, whatever they were estimated by
        method = None if is_imported else METHODS[config.smoothing]
        return Counted(
            self.trie,
            self.estimates,
            config.smoothing,
            backs_off=method is None or method.backs_off,
            counts_continuations=method is not None and method.counts_continuations,
            has_counts=not is_imported,
            is_pruned=any(config.prune),
        )

    @property
    def num_parameters(self) -> int:
        """One probability for each n-gram, one back-off weight for each context."""
        return sum(self.trie.sizes) + sum(self.trie.sizes[:-1])

    @property
    def is_normalised(self) -> bool:  # type: ignore[override]
        return self.estimates.is_normalised

    def notes(self) -> list[str]:
        return self.estimates.notes

    def describe(self) -> dict[str, object]:
        """What `chainrule show` tells of it."""
        facts: dict[str, object] = {f"{k}-grams": size for k, size in enumerate(self.trie.sizes, 1)}
        if self.estimates.discounts:
            facts["discounts"] = self.estimates.discounts
        return facts

    def save(self, path: Path) -> None:
        arrays = self.trie.arrays() | {
            "log_probability": self.estimates.log_probability,
            "backoff": self.estimates.backoff,
        }
        estimates = self.estimates
        facts = {"vocabulary_size": self.vocabulary_size, "eos": self.eos, "config": asdict(self.config)}
        facts |= {"is_normalised": estimates.is_normalised, "notes": estimates.notes, "discounts": estimates.discounts}
        facts["unseen_backoff"] = estimates.unseen_backoff
        save_arrays(path, arrays, {"architecture": "ngram", "model": json.dumps(facts)})

    @classmethod
    def load(cls, path: Path) -> "Model":
        arrays, metadata = load_arrays(path)
        try:
            facts = json.loads(metadata["model"])
            lists = {name: tuple(facts["config"].get(name, ())) for name in ("prune", "discounts")}
            config = Config(**facts["config"] | lists)
            model = cls(config, facts["vocabulary_size"], facts["eos"])
            model.trie = Trie.from_arrays(arrays, model.vocabulary_size, model.eos)
            estimated = (arrays["log_probability"], arrays["backoff"])
            sizes = (len(model.trie.word), len(model.trie.first_child) - 1)
            if model.trie.order != config.order:
                raise ValueError("its order is not that of its settings")
            if any(a.dtype != np.float32 or a.shape != (size,) for a, size in zip(estimated, sizes, strict=True)):
                raise ValueError("its probabilities are not one per n-gram")
            model.estimates = Estimates(
                *estimated, facts["is_normalised"], facts["notes"], facts["discounts"], facts.get("unseen_backoff", 0.0)
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"'{path}' does not hold an n-gram model ({error!r}); train it again") from None
        return model
