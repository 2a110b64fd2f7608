"""A mix of models that read the same tokens: p(w | h) = Σ_i λ_i(b) p_i(w | h), where b is a bucket of the context h.

One bucket for all contexts; or one for each length of context that the first n-gram has met ("order"); or by how unsure
the first part that learns by gradient is, the entropy of its prediction ("entropy"). Never by the word to be predicted,
so probabilities still sum to one. `chainrule mix` makes mixes of runs and fits the weights.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from chainrule import registry
from chainrule.checks import require_choice, require_number
from chainrule.config import from_json
from chainrule.errors import UserError
from chainrule.models._numpy import step, to_numpy
from chainrule.models.contract import (
    SCORED_AT_ONCE,
    LanguageModel,
    MatchesContexts,
    State,
    architecture_of,
    check_ids,
    learns,
    log_softmax,
)
from chainrule.models.explanation import Mixture, Share, TokenText
from chainrule.storage import load_arrays, save_arrays

BY = ("all", "order", "entropy")
EXPLAINED_AT_ONCE = 64  # tokens whose logits are held at one time


@dataclass(frozen=True)
class Config:
    by: str = "all"  # what the weights depend on
    dynamic: float = 0.0  # the rate at which parts that learn by gradient learn from the text they score; 0: not at all

    def __post_init__(self) -> None:
        require_choice("by", self.by, BY)
        require_number("dynamic", self.dynamic, 0)


class Model(LanguageModel):
    """A state is a tuple of the parts' states."""

    def __init__(
        self,
        config: Config,
        parts: Sequence[LanguageModel],
        names: Sequence[str],
        weights: np.ndarray | None = None,  # (buckets, parts); None: equal
        edges: np.ndarray | None = None,  # (buckets - 1,) of the signal that buckets are cut from
    ):
        self.config, self.parts, self.names = config, tuple(parts), tuple(names)
        self.vocabulary_size, self.eos = parts[0].vocabulary_size, parts[0].eos
        self.edges = np.zeros(0) if edges is None else edges
        self.weights = np.full((len(self.edges) + 1, len(parts)), 1 / len(parts)) if weights is None else weights
        self.guide = self._find_guide()
        fields = [part.receptive_field for part in parts]
        self.receptive_field = None if None in fields else max(each or 0 for each in fields)
        lengths = [part.context_length for part in parts]
        self.context_length = min((length for length in lengths if length is not None), default=None)

    def _find_guide(self) -> int | None:
        """The part that the signal comes from."""
        is_guide = {"order": lambda part: isinstance(part, MatchesContexts), "entropy": learns}.get(self.config.by)
        if is_guide is None:
            return None
        found = next((i for i, part in enumerate(self.parts) if is_guide(part)), None)
        if found is None:
            kind = "an n-gram" if self.config.by == "order" else "a model that learns by gradient"
            raise UserError(f"weights by {self.config.by} need {kind} among the parts; add one, or mix by all")
        return found

    def buckets(self, signal: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.edges, signal, side="right")

    def start(self, batch_size: int, condition: object = None) -> State:
        return tuple(part.start(batch_size, condition) for part in self.parts)

    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        found, weights, state = self.ask(tokens, state)
        mixed = sum(weights[..., i, None] * np.exp(each) for i, each in enumerate(found))
        with np.errstate(divide="ignore"):
            return np.log(mixed).astype(np.float32), state

    def ask(self, tokens: np.ndarray, state: State) -> tuple[list[np.ndarray], np.ndarray, State]:
        """log p of every part (batch, time, vocabulary), their weights (batch, time, parts), and the new state."""
        check_ids(tokens, self.vocabulary_size)
        stepped = [step(part, tokens, each) for part, each in zip(self.parts, state, strict=True)]
        found = [log_softmax(to_numpy(logits)) for logits, _ in stepped]
        signal = np.zeros(tokens.shape)
        if self.config.by == "order" and self.guide is not None:
            signal, _ = self.parts[self.guide].context_lengths(tokens, state[self.guide])  # type: ignore[attr-defined]
        elif self.guide is not None:
            signal = -(np.exp(found[self.guide]) * found[self.guide]).sum(-1)
        return found, self.weights[self.buckets(signal)], tuple(state for _, state in stepped)

    def read(
        self, stream: np.ndarray, advance: Callable[[int], None] = lambda tokens: None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of every token after the first of a stream: log p under each part (parts, tokens), and the signal."""
        check_ids(stream, self.vocabulary_size)
        found = np.empty((len(self.parts), max(len(stream) - 1, 0)), np.float32)
        signal = np.zeros(found.shape[1], np.float32)
        for i, part in enumerate(self.parts):
            wants_entropy = self.config.by == "entropy" and i == self.guide
            if self.config.dynamic and learns(part):
                from chainrule.models._dynamic import score_and_learn

                found[i], entropies = score_and_learn(part, stream, self.config.dynamic, advance)  # type: ignore[arg-type]
                signal = entropies if wants_entropy else signal
            else:
                found[i] = part.score(stream)
                signal = part.entropies(stream) if wants_entropy else signal  # type: ignore[attr-defined]
                advance(found.shape[1])
        if self.config.by == "order" and self.guide is not None:
            signal = _context_lengths(cast(_MeetsContexts, self.parts[self.guide]), stream)
        return found, signal

    def combine(self, found: np.ndarray, signal: np.ndarray) -> np.ndarray:
        """log p under the mix of what `read` found."""
        with np.errstate(divide="ignore"):
            weighted = found + np.log(self.weights)[self.buckets(signal)].T  # (parts, tokens)
        mixed: np.ndarray = np.logaddexp.reduce(weighted, axis=0).astype(np.float32)
        return mixed

    def score(self, stream: np.ndarray) -> np.ndarray:
        """log p in nats of every token after the first of a stream; parts go on learning where they are told to."""
        return self.combine(*self.read(stream))

    @property
    def num_parameters(self) -> int:
        return self.weights.size + sum(part.num_parameters for part in self.parts)

    def describe(self) -> dict[str, object]:
        parts = [_describe_part(name, part) for name, part in zip(self.names, self.parts, strict=True)]
        weights: dict[str, object] = {
            f"weight of {name}": [row.tolist()] for name, row in zip(self.names, self.weights.T, strict=True)
        }
        facts: dict[str, object] = {"parts": ", ".join(parts), **weights}
        if self.guide is not None:
            facts["weights are by"] = f"{self.describe_signal()}: {', '.join(self.bucket_names())}"
        return facts

    def describe_signal(self) -> str:
        """What the weights go by."""
        assert self.guide is not None
        name = self.names[self.guide]
        is_order = self.config.by == "order"
        return f"the words of context that {name} has met" if is_order else f"the entropy of {name} in nats"

    def bucket_names(self) -> list[str]:
        if self.config.by == "order":
            return [str(length) for length in range(len(self.weights))]
        return [*(f"to {edge:.2f}" for edge in self.edges), "more"]

    def look_inside(self, ids: np.ndarray, token: int, token_text: TokenText) -> Mixture:
        """What each part says of `token` after `ids`, how much it weighs there, and what that adds up to."""
        state = tuple(_state_after(part, ids[:-1]) for part in self.parts)
        found, weights, _ = self.ask(ids[None, -1:], state)
        shares = []
        for name, weight, log_p in zip(self.names, weights[0, -1].tolist(), found, strict=True):
            probability = float(np.exp(log_p[0, -1, token]))
            shares.append(Share(name, weight, probability, weight * probability))
        by = "nothing: all contexts are alike" if self.guide is None else self.describe_signal()
        return Mixture(shares, sum(share.contribution for share in shares), by)

    def notes(self) -> list[str]:
        return ["parts learn from the text that is scored; sampling does not adapt"] if self.config.dynamic else []

    def save(self, path: Path) -> None:
        """Weights in the file, and the parts beside it, each in a file of its own."""
        folder = _folder_of_parts(path)
        folder.mkdir(exist_ok=True)
        for i, part in enumerate(self.parts):
            part.save(folder / f"{i}.safetensors")  # type: ignore[attr-defined]
        kinds = [architecture_of(part) for part in self.parts]
        facts = {"names": self.names, "architectures": kinds, "config": asdict(self.config)}
        save_arrays(
            path, {"weights": self.weights, "edges": self.edges}, {"architecture": "mix", "model": json.dumps(facts)}
        )

    @classmethod
    def load(cls, path: Path) -> "Model":
        arrays, metadata = load_arrays(path)
        try:
            facts = json.loads(metadata["model"])
            names, kinds = [str(name) for name in facts["names"]], facts["architectures"]
            modules = [registry.find("chainrule.models", kind, "model") for kind in kinds]
            folder = _folder_of_parts(path)
            parts = [module.Model.load(folder / f"{i}.safetensors") for i, module in enumerate(modules)]
            _check(parts, names, arrays["weights"], arrays["edges"])
            return cls(from_json(Config, facts["config"], "the file"), parts, names, arrays["weights"], arrays["edges"])
        except (KeyError, TypeError, ValueError, UserError) as error:
            raise UserError(f"'{path}' does not hold a mix ({error}); mix the runs again") from None


def _state_after(part: LanguageModel, ids: np.ndarray) -> State:
    """The state of a part that has read these tokens, a piece at a time."""
    state = part.start(1)
    for begin in range(0, len(ids), EXPLAINED_AT_ONCE):
        _, state = step(part, ids[None, begin : begin + EXPLAINED_AT_ONCE], state, to_last=True)
    return state


def _folder_of_parts(path: Path) -> Path:
    return path.with_suffix(".parts")


def _describe_part(name: str, part: LanguageModel) -> str:
    """'ngram runs/poems', or 'cache (decay 0.99)'."""
    kind = architecture_of(part)
    return f"cache (decay {part.config.decay:g})" if kind == "cache" else f"{kind} {name}"  # type: ignore[attr-defined]


class _MeetsContexts(Protocol):
    """An n-gram, which can tell how many words of each context it has counted."""

    def start(self, batch_size: int) -> State: ...

    def context_lengths(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]: ...


def _context_lengths(part: _MeetsContexts, stream: np.ndarray) -> np.ndarray:
    """How many words of context an n-gram has met at every prediction along a stream, a piece at a time."""
    state, found = part.start(1), [np.zeros(0)]
    for begin in range(0, len(stream) - 1, SCORED_AT_ONCE):
        lengths, state = part.context_lengths(stream[None, begin : begin + SCORED_AT_ONCE], state)
        found.append(lengths[0])
    return np.concatenate(found)[: max(len(stream) - 1, 0)]


def _check(parts: Sequence[LanguageModel], names: Sequence[str], weights: np.ndarray, edges: np.ndarray) -> None:
    if not parts or len(names) != len(parts) or len({(part.vocabulary_size, part.eos) for part in parts}) > 1:
        raise ValueError("its parts do not belong together")
    if weights.dtype != np.float64 or edges.dtype != np.float64 or weights.shape != (edges.size + 1, len(parts)):
        raise ValueError("its weights are not one per part and bucket")
    if not (weights >= 0).all() or not np.allclose(weights.sum(1), 1):
        raise ValueError("its weights do not sum to one")
    if edges.ndim != 1 or not np.isfinite(edges).all() or (np.diff(edges) < 0).any():
        raise ValueError("its buckets are not in order")
