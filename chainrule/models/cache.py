"""The cache: words that a text has used come again (Kuhn and De Mori, 1990).

p(w | w₁ … w_t) = (1 - decay) Σ_j decay^(t - j) [w_j = w] + decay^t background(w): the moving average of the tokens so
far, from document to document, as if an endless past of the background's frequencies had come before. A part for mixes.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from chainrule.config import from_json
from chainrule.errors import UserError
from chainrule.kernels.jit import kernel
from chainrule.models.contract import LanguageModel, State, check_ids
from chainrule.storage import load_arrays, save_arrays


@dataclass(frozen=True)
class Config:
    decay: float = 0.99  # how much of its share a word keeps when another is read

    def __post_init__(self) -> None:
        if not 0 < self.decay < 1:
            raise UserError(f"the decay must be above 0 and below 1, got {self.decay}")


@kernel
def _score(stream, decay, background, scores):
    """Shares are brought up to date when they are asked for, so a token costs the same whatever the vocabulary."""
    share = background.copy()
    changed_at = np.zeros(len(share), np.int64)
    for time in range(1, len(stream)):
        word, following = stream[time - 1], stream[time]
        share[word] = share[word] * decay ** (time - changed_at[word]) + 1 - decay
        changed_at[word] = time
        scores[time - 1] = np.log(share[following] * decay ** (time - changed_at[following]))


@kernel
def _read(tokens, decay, share, logits):
    """share (batch, vocabulary) is changed; logits (batch, time, vocabulary)"""
    for row in range(len(tokens)):
        for time in range(tokens.shape[1]):
            share[row] *= decay
            share[row, tokens[row, time]] += 1 - decay
            logits[row, time] = np.log(share[row])


class Model(LanguageModel):
    """A state is the share of each word, (batch, vocabulary). A background of None is uniform."""

    def __init__(self, config: Config, vocabulary_size: int, eos: int, background: np.ndarray | None = None):
        self.config, self.vocabulary_size, self.eos = config, vocabulary_size, eos
        self.background = np.full(vocabulary_size, 1 / vocabulary_size) if background is None else background

    def start(self, batch_size: int, condition: object = None) -> State:
        return np.tile(self.background, (batch_size, 1))

    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        check_ids(tokens, self.vocabulary_size)
        share = state.copy()
        logits = np.empty((*tokens.shape, self.vocabulary_size), np.float32)
        _read(np.asarray(tokens, np.int64), self.config.decay, share, logits)
        return logits, share

    def score(self, stream: np.ndarray) -> np.ndarray:
        check_ids(stream, self.vocabulary_size)
        scores = np.empty(max(len(stream) - 1, 0), np.float32)
        _score(np.asarray(stream, np.int64), self.config.decay, self.background, scores)
        return scores

    @property
    def num_parameters(self) -> int:
        return 1 + self.vocabulary_size

    def save(self, path: Path) -> None:
        facts = {"vocabulary_size": self.vocabulary_size, "eos": self.eos, "config": asdict(self.config)}
        save_arrays(path, {"background": self.background}, {"architecture": "cache", "model": json.dumps(facts)})

    @classmethod
    def load(cls, path: Path) -> "Model":
        arrays, metadata = load_arrays(path)
        try:
            facts, background = json.loads(metadata["model"]), arrays["background"]
            vocabulary_size, eos = facts["vocabulary_size"], facts["eos"]
            if type(vocabulary_size) is not int or type(eos) is not int or not 0 <= eos < vocabulary_size:
                raise ValueError(f"eos {eos} is not of a vocabulary of {vocabulary_size}")
            if background.dtype != np.float64 or background.shape != (vocabulary_size,):
                raise ValueError("its background is not one share per word")
            if not (background >= 0).all() or not np.isclose(background.sum(), 1):
                raise ValueError("its background does not sum to one")
            return cls(from_json(Config, facts["config"], "the file"), vocabulary_size, eos, background)
        except (KeyError, TypeError, ValueError, UserError) as error:
            raise UserError(f"'{path}' does not hold a cache ({error}); mix the runs again") from None
