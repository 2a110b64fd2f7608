"""A network of words that predicts bytes: p(word | all words before it), summed over the words that go on with a byte.

Bytes are cut into tokens as by a wordgram, which also spells unknown words and says what follows where a word ends.
After the tokens h and the beginning u of the next one,

    p(byte b | h, u) = p(u b ... | h) / p(u ... | h)                                         where b goes on with u
    p(byte b | h, u) = p(u | h) / p(u ... | h)  p_ngram(b ... | h u) / p_ngram(any ... | h u)     where b ends it

so the network takes one step a word. `chainrule train --minutes` makes such models.
"""

import json
from pathlib import Path
from typing import cast

import numpy as np
import torch

from chainrule import registry
from chainrule.errors import UserError
from chainrule.models import wordgram
from chainrule.models._neural import NeuralModel
from chainrule.models._wordgram import SYMBOLS, distribute, end_tokens, read_symbols, score_symbols
from chainrule.models.contract import LanguageModel, State, architecture_of, check_ids
from chainrule.nest import map_arrays, put_rows, select_rows
from chainrule.storage import load_arrays, save_arrays

FLOOR = 1e-6  # the share of the unigram in every prediction, so that no word is impossible
AT_ONCE = 512  # tokens whose distributions are in memory


class Model(LanguageModel):
    """A state: the cursors of the wordgram, the network's state after the last whole token, and p(token) from it."""

    def __init__(self, words: wordgram.Model, network: NeuralModel):
        self.words, self.network = words, network.eval()
        self.vocabulary_size, self.eos = words.vocabulary_size, words.eos
        self._unigram = words.tables.words.upto[: 1 + words.num_ids]

    def _sums(self, logits: torch.Tensor) -> np.ndarray:
        """Logits (tokens, ids) as probabilities, summed over the ids up to each one: (tokens, 1 + ids)."""
        found = np.zeros((len(logits), 1 + self.words.num_ids))
        np.cumsum(torch.softmax(logits.double(), -1).numpy(), -1, out=found[:, 1:])
        found *= 1 - FLOOR
        found += FLOOR * self._unigram
        return found

    def bit_probabilities(self, stream: np.ndarray) -> np.ndarray:
        """For every symbol after the first, the probability that each bit on the way to it is one: (symbols, 9)."""
        return self._paths(stream)[0]

    def score(self, stream: np.ndarray) -> np.ndarray:
        return self._paths(stream)[1]

    @torch.no_grad()
    def _paths(self, stream: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        check_ids(stream, self.vocabulary_size)
        bits = np.empty((max(len(stream) - 1, 0), 9), np.float32)
        scores = np.empty(len(bits), np.float32)
        if not len(bits):
            return bits, scores
        symbols = self.words.symbols(stream)
        starts, ids = self.words.cutting.cut(symbols), self.words.encode(stream).astype(np.int64)
        token_of = np.repeat(np.arange(len(ids)), np.diff(starts))
        state = self.start(1)
        read_symbols(self.words.tables, symbols[:1], state["upto"], state["nodes"], state["unknown"], _none(1))
        rows, network = state["upto"], state["network"]
        for first in range(0, len(ids), AT_ONCE):
            last = min(first + AT_ONCE, len(ids))
            logits, network = self.network.step(torch.from_numpy(ids[None, first:last]), network)
            rows = np.concatenate([rows[-1:], self._sums(logits[0])])  # of the tokens first, ..., last
            here = slice(int(starts[first + 1]) if first else 1, int(starts[min(last + 1, len(ids))]))
            before = slice(here.start - 1, here.stop - 1)
            score_symbols(
                self.words.tables, symbols[here], token_of[before.start : here.stop] - first, rows,
                state["nodes"], state["unknown"], 0, bits[before], scores[before],
            )  # fmt: skip
        return bits, scores

    def start(self, batch_size: int, condition: object = None) -> State:
        state = self.words.start(batch_size)
        return state | {"upto": np.tile(self._unigram, (batch_size, 1)), "network": self.network.start(batch_size)}

    @torch.no_grad()
    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        check_ids(tokens, self.vocabulary_size)
        symbols = self.words.symbols(tokens).astype(np.int64)
        after = map_arrays(lambda array: array.clone() if isinstance(array, torch.Tensor) else array.copy(), state)
        found, now = np.empty((*symbols.shape, SYMBOLS)), np.empty((len(symbols), SYMBOLS))
        for t in range(symbols.shape[1]):
            self._read(np.ascontiguousarray(symbols[:, t]), after)
            distribute(self.words.tables, after["upto"], after["nodes"], after["unknown"], now)
            found[:, t] = now
        return self.words.to_logits(found), after

    def _read(self, symbols: np.ndarray, state: State) -> None:
        """Move a state on by one symbol a row; the network reads the tokens that this completes."""
        ended = _none(len(symbols))
        end_tokens(self.words.tables, symbols, state["nodes"], ended)
        self._feed(ended, state)
        read_symbols(self.words.tables, symbols, state["upto"], state["nodes"], state["unknown"], ended)
        self._feed(ended, state)

    def _feed(self, ids: np.ndarray, state: State) -> None:
        """The network reads one token in each row that has one (not -1)."""
        rows = np.flatnonzero(ids >= 0)
        if len(rows):
            chosen = select_rows(state["network"], rows)
            logits, chosen = self.network.step(torch.from_numpy(ids[rows, None]), chosen)
            put_rows(state["network"], rows, chosen)
            state["upto"][rows] = self._sums(logits[:, -1])

    @property
    def num_parameters(self) -> int:
        return self.words.num_parameters + self.network.num_parameters

    def describe(self) -> dict[str, object]:
        return {"words": len(self.words.words), "network": architecture_of(self.network)}

    def save(self, path: Path) -> None:
        """What it is in the file; words and network beside it, in files of their own."""
        folder = path.with_suffix(".parts")
        folder.mkdir(exist_ok=True)
        self.words.save(folder / "words.safetensors")
        self.network.save(folder / "network.safetensors")
        facts = {"network": architecture_of(self.network)}
        save_arrays(path, {}, {"architecture": "wordnetwork", "model": json.dumps(facts)})

    @classmethod
    def load(cls, path: Path) -> "Model":
        _, metadata = load_arrays(path)
        folder = path.with_suffix(".parts")
        try:
            module = registry.find("chainrule.models", json.loads(metadata["model"])["network"], "model")
            words = wordgram.Model.load(folder / "words.safetensors")
            network = cast(NeuralModel, module.Model.load(folder / "network.safetensors"))
            if (network.vocabulary_size, network.eos) != (words.num_ids, words.end):
                raise ValueError("its network was not trained on its words")
        except (KeyError, TypeError, ValueError, UserError) as error:
            raise UserError(f"'{path}' does not hold a network of words ({error}); train it again") from None
        return cls(words, network)


def _none(rows: int) -> np.ndarray:
    return np.full(rows, -1, np.int64)
