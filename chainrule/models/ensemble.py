"""Models of bytes mixed bit by bit: log-odds(bit) = mean over sets s of Σ_i w_si(c_s) log-odds_i(bit).

The weights of each set are chosen by a small context c_s (the bits so far, the byte before, how sure the first part is)
and are learned from text that no part was trained on; while a text is scored they go on learning from it, as the
compressors of the PAQ family do. What is mixed are log-odds and not probabilities, so a part that is sure can outvote
several that are not. `chainrule train --minutes` makes ensembles.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import exp
from pathlib import Path

import numpy as np

from chainrule import registry
from chainrule.config import from_json
from chainrule.errors import UserError
from chainrule.kernels.jit import kernel
from chainrule.models._bits import BYTES, SMALLEST, bits_of, decisions, leaves, predict_bits, score_bits, to_bytes
from chainrule.models._numpy import step, to_numpy
from chainrule.models.contract import LanguageModel, State, architecture_of, check_ids, log_softmax
from chainrule.models.explanation import Mixture, Share, TokenText
from chainrule.storage import load_arrays, save_arrays

ROWS = (256, 256, 64)  # of the weights of each set: by the bits so far, by the byte before, by certainty and place
SETS = len(ROWS)
FIRST_RATE, LAST_RATE = 0.02, 0.002  # of learning the weights
SLOWER_AFTER = 4000.0  # bytes


@dataclass(frozen=True)
class Config:
    dynamic: bool = True  # whether the weights and the parts that can go on learning from the text that is scored


@kernel
def _mix(log_odds, bits, before, weights, read_before, learns, out):
    """Mix the log-odds of the parts (parts, symbols, 8) at the bits that came (symbols, 8); out (symbols, 8) is P(1).

    weights (sets, rows, parts) are changed where it learns; `read_before`: bytes that they were learned from already.
    """
    parts = len(log_odds)
    votes, rows = np.zeros(SETS), np.zeros(SETS, np.int64)
    for t in range(len(bits)):
        node = 1
        rate = LAST_RATE + FIRST_RATE / (1.0 + (read_before + t) / SLOWER_AFTER)
        rows[1] = before[t]
        for place in range(8):
            rows[0] = node
            rows[2] = min(int(abs(log_odds[0, t, place])), 7) * 8 + place
            total = 0.0
            for k in range(SETS):
                votes[k] = 0.0
                for i in range(parts):
                    votes[k] += weights[k, rows[k], i] * log_odds[i, t, place]
                total += votes[k]
            chance = 1 / (1 + exp(-total / SETS))
            out[t, place] = max(min(chance, 1 - SMALLEST), SMALLEST)
            if learns:
                for k in range(SETS):
                    error = rate * (bits[t, place] - 1 / (1 + exp(-votes[k])))
                    for i in range(parts):
                        weights[k, rows[k], i] += error * log_odds[i, t, place]
            node = node * 2 + bits[t, place]


class Model(LanguageModel):
    """A state is a tuple: the byte before (batch, 1), and the parts' states."""

    def __init__(
        self,
        config: Config,
        parts: Sequence[LanguageModel],
        names: Sequence[str],
        weights: np.ndarray | None = None,  # (sets, rows, parts); None: equal
        learned_from: int = 0,  # bytes
    ):
        self.config, self.parts, self.names = config, tuple(parts), tuple(names)
        self.vocabulary_size, self.eos = parts[0].vocabulary_size, parts[0].eos
        self.weights = np.full((SETS, max(ROWS), len(parts)), 1 / len(parts)) if weights is None else weights
        self.learned_from = learned_from
        lengths = [part.context_length for part in parts]
        self.context_length = min((length for length in lengths if length is not None), default=None)
        self.receptive_field = self.context_length  # what no part has to read is cut from a prompt

    def ask(self, stream: np.ndarray, advance: Callable[[int], None] = lambda tokens: None) -> np.ndarray:
        """P(1) by every part at each decision of every symbol after the first of a stream: (parts, symbols, 9)."""
        check_ids(stream, self.vocabulary_size)
        found = []
        for part in self.parts:
            found.append(predict_bits(part, stream))
            advance(len(stream))
        return np.stack(found)

    def combine(self, found: np.ndarray, stream: np.ndarray, weights: np.ndarray, learns: bool) -> np.ndarray:
        """P(1) by the ensemble (symbols, 9) from what `ask` found; the weights are changed where it learns."""
        symbols = to_bytes(stream, self.eos)
        chances = np.clip(found[:, :, :8].astype(np.float64), SMALLEST, 1 - SMALLEST)
        out = np.empty((len(symbols) - 1, 9), np.float32)
        log_odds = np.log(chances) - np.log1p(-chances)
        mixed = np.empty((len(symbols) - 1, 8))
        _mix(log_odds, bits_of(symbols[1:]), symbols[:-1], weights, self.learned_from, learns, mixed)
        out[:, :8], out[:, 8] = mixed, found[:, :, 8].mean(0)
        return out

    def fit(self, found: np.ndarray, stream: np.ndarray, passes: int) -> "Model":
        """The same ensemble with weights learned from a text that its parts have predicted, read several times."""
        weights, model = self.weights.copy(), self
        for number in range(passes):
            model = Model(self.config, self.parts, self.names, weights, number * len(stream))
            model.combine(found, stream, weights, learns=True)
        return Model(self.config, self.parts, self.names, weights, passes * len(stream))

    def start(self, batch_size: int, condition: object = None) -> State:
        before = np.full((batch_size, 1), self.eos)
        return (before, *(part.start(batch_size, condition) for part in self.parts))

    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        found, states = self._ask_whole(tokens, state[1:])
        return self._mix_whole(found, tokens).astype(np.float32), (tokens[:, -1:], *states)

    def _ask_whole(self, tokens: np.ndarray, states: Sequence[State]) -> tuple[list[np.ndarray], list[State]]:
        """log p of every part (batch, time, vocabulary), and their new states."""
        check_ids(tokens, self.vocabulary_size)
        stepped = [step(part, tokens, each) for part, each in zip(self.parts, states, strict=True)]
        return [log_softmax(to_numpy(logits)) for logits, _ in stepped], [each for _, each in stepped]

    def _mix_whole(self, found: list[np.ndarray], tokens: np.ndarray) -> np.ndarray:
        """log p of every symbol (batch, time, vocabulary) after each of the tokens (batch, time)."""
        nodes, lasts = zip(*(decisions(each, self.eos) for each in found), strict=True)
        ones = np.stack(nodes, -1)  # (batch, time, node, part)
        log_odds = np.log(ones) - np.log1p(-ones)
        places = np.maximum(np.log2(np.maximum(np.arange(256), 1)).astype(np.int64), 0)
        certainty = np.minimum(np.abs(log_odds[..., 0]).astype(np.int64), 7) * 8 + places
        votes = (log_odds * self.weights[0]).sum(-1)
        votes += (log_odds * self.weights[1][to_bytes(tokens, self.eos)][..., None, :]).sum(-1)
        votes += (log_odds * self.weights[2][certainty]).sum(-1)
        mixed = np.clip(1 / (1 + np.exp(-votes / SETS)), SMALLEST, 1 - SMALLEST)
        return leaves(mixed, np.mean(lasts, 0), self.vocabulary_size, self.eos)

    def score(self, stream: np.ndarray) -> np.ndarray:
        return self.score_found(self.ask(stream), stream)

    def score_found(self, found: np.ndarray, stream: np.ndarray) -> np.ndarray:
        """log p of every symbol after the first of a stream, from what `ask` found for it."""
        bits = self.combine(found, stream, self.weights.copy(), self.config.dynamic)
        return score_bits(bits, stream, self.eos)

    @property
    def num_parameters(self) -> int:
        return self.weights.size + sum(part.num_parameters for part in self.parts)

    def describe(self) -> dict[str, object]:
        return {"parts": ", ".join(self.names), "weights were learned from bytes": self.learned_from}

    def notes(self) -> list[str]:
        return ["it learns from the text that is scored; sampling does not adapt"] if self.config.dynamic else []

    def look_inside(self, ids: np.ndarray, token: int, token_text: TokenText) -> Mixture:
        """What each part says of `token` after `ids`, and its share of the weights along the bits of the token.

        Log-odds are mixed, so the probability is no sum over the parts: it is divided among them by weight.
        """
        states: list[State] = [part.start(1) for part in self.parts]
        if len(ids) > 1:
            _, states = self._ask_whole(ids[None, :-1], states)
        found, _ = self._ask_whole(ids[None, -1:], states)
        mixed = float(np.exp(self._mix_whole(found, ids[None, -1:])[0, 0, token]))
        path = (int(to_bytes(np.array([token]), self.eos)[0]) | 256) >> np.arange(8, 0, -1)
        weights = self.weights[0][path].mean(0).clip(0)
        weights = weights / max(weights.sum(), SMALLEST)
        shares = [
            Share(name, float(weight), float(np.exp(log_p[0, 0, token])), float(weight) * mixed)
            for name, weight, log_p in zip(self.names, weights, found, strict=True)
        ]
        return Mixture(shares, mixed, "what has worked before at each bit; log-odds are added, not probabilities")

    def save(self, path: Path) -> None:
        """Weights in the file, and the parts beside it, each in a file of its own."""
        folder = path.with_suffix(".parts")
        folder.mkdir(exist_ok=True)
        for i, part in enumerate(self.parts):
            part.save(folder / f"{i}.safetensors")
        facts = {
            "names": self.names,
            "architectures": [architecture_of(part) for part in self.parts],
            "config": asdict(self.config),
            "learned_from": self.learned_from,
        }
        save_arrays(path, {"weights": self.weights}, {"architecture": "ensemble", "model": json.dumps(facts)})

    @classmethod
    def load(cls, path: Path) -> "Model":
        arrays, metadata = load_arrays(path)
        try:
            facts = json.loads(metadata["model"])
            modules = [registry.find("chainrule.models", kind, "model") for kind in facts["architectures"]]
            folder = path.with_suffix(".parts")
            parts = [module.Model.load(folder / f"{i}.safetensors") for i, module in enumerate(modules)]
            names, weights = [str(name) for name in facts["names"]], np.array(arrays["weights"])
            _check(parts, names, weights)
            config = from_json(Config, facts["config"], "the file")
            return cls(config, parts, names, weights, int(facts["learned_from"]))
        except (KeyError, TypeError, ValueError, UserError) as error:
            raise UserError(f"'{path}' does not hold an ensemble ({error}); train it again") from None


def _check(parts: Sequence[LanguageModel], names: Sequence[str], weights: np.ndarray) -> None:
    if not parts or len(names) != len(parts) or {(part.vocabulary_size, part.eos) for part in parts} != {(BYTES, 256)}:
        raise ValueError("its parts do not belong together")
    if weights.dtype != np.float64 or weights.shape != (SETS, max(ROWS), len(parts)) or not np.isfinite(weights).all():
        raise ValueError("its weights are not one per set, row and part")
