"""The contract: what every model is, what it may be able to do beyond that, and what an architecture's file holds.

A model has two methods: `start` gives a state, `step` reads tokens and returns logits. A state is a nest (dict, list or
tuple) of batch-first arrays: NumPy's for models that count, torch's for models that learn by gradient. A condition is
such a nest, too, of whatever the model's own encoder understands: token ids, pixels, frames. Everything else, from loss
to beam search, rests on these two methods. Further abilities are the Protocols below; nothing else may be asked for by
name. What a parameter is for is declared in chainrule/layers/roles.py.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from chainrule.errors import UserError

Array = Any  # a NumPy array or a torch tensor: both index, compare and slice alike
State = Any  # a nest of batch-first arrays

SCORED_AT_ONCE = 4096  # tokens whose logits are held at one time
IGNORE = -100  # a target that is not predicted: padding, a prompt, an unlabelled position (torch's own default)


@dataclass(frozen=True)
class Batch:
    """Position t of `inputs` is asked to predict position t of `targets`."""

    inputs: Array  # (batch, time)
    targets: Array  # (batch, time), IGNORE where nothing is asked
    condition: Any = None


@dataclass(frozen=True)
class Loss:
    """A sum of negative log-likelihoods in nats and how many tokens it is over; losses add up exactly."""

    total: Any
    count: int

    def __add__(self, other: "Loss") -> "Loss":
        return Loss(self.total + other.total, self.count + other.count)

    @property
    def mean(self) -> Any:
        return self.total / max(self.count, 1)


class Steps(Protocol):
    """All that running a model takes."""

    vocabulary_size: int

    @property
    def num_parameters(self) -> int: ...

    def start(self, batch_size: int, condition: Any = None) -> State: ...

    def step(self, tokens: Array, state: State) -> tuple[Array, State]: ...


def check_ids(ids: np.ndarray, vocabulary_size: int) -> None:
    """Kernels do not look where they read, so ids from outside are checked before."""
    if np.size(ids) and not (np.min(ids) >= 0 and np.max(ids) < vocabulary_size):
        raise UserError(f"token ids must be from 0 to {vocabulary_size - 1}, got {np.min(ids)} to {np.max(ids)}")


def slide(before: np.ndarray, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For models whose state is the last few words: the context at every position, and the new state.

    before (batch, context), tokens (batch, time) -> (batch, time, context), (batch, context)
    """
    context, time = before.shape[1], tokens.shape[1]
    words = np.concatenate([before, tokens], 1)
    places = np.arange(1, time + 1)[:, None] + np.arange(context)
    return words[:, places], words[:, time:]


def log_softmax(logits: Array) -> Array:
    """log(softmax) over the last axis: torch's own for its tensors, in float64 for NumPy's; -inf stays -inf."""
    if not isinstance(logits, np.ndarray):
        return logits.log_softmax(-1)
    logits = logits.astype(np.float64)
    top = logits.max(-1, keepdims=True)
    logits -= np.where(np.isfinite(top), top, 0.0)
    total = np.exp(logits).sum(-1, keepdims=True)
    return logits - np.log(np.where(total == 0, 1.0, total))


def cross_entropy(logits: Array, targets: Array) -> Loss:
    """The summed negative log-likelihood of every target that is not IGNORE."""
    asked = targets != IGNORE
    chosen = log_softmax(logits[asked])  # (asked, vocabulary)
    picked = chosen[range(len(chosen)), targets[asked]]
    return Loss(-picked.sum(), int(asked.sum()))


def learns(model: object) -> bool:
    """Whether it learns by gradient, found out without importing torch."""
    return bool(getattr(model, "learns_by_gradient", False))


def architecture_of(model: Any) -> str:
    """The name of its file: 'ngram', 'lstm'."""
    return type(model).__module__.rpartition(".")[2]


class Architecture(Protocol):
    """A file in chainrule/models: one architecture, found by its file's name. (`SIZES` needs a `tiny`, for the tests.)

    It may also have `TASK`, the task it is for where that is not language modelling, and be a FitsBudget, FitsSpeed or
    HasRecipe.
    """

    Config: type  # a frozen dataclass of settings
    SIZES: dict[str, Any]  # presets: settings by name
    DEFAULT_SIZE: str
    DEFAULT_TOKENIZER: str
    Model: type["LanguageModel"]  # (config, vocabulary_size, eos)


@runtime_checkable
class FitsBudget(Protocol):
    """An architecture that chooses its size for a budget."""

    def for_budget(self, seconds: float, tokens: int, vocabulary_size: int) -> tuple[Any, dict[str, Any], list[str]]:
        """For so many seconds of the reference machine and so many tokens of training text: the settings of the model,
        changes to the recipe, and lines that say why."""


@runtime_checkable
class FitsSpeed(Protocol):
    """One that chooses again once it is known how fast a model of its own trains here."""

    def for_speed(
        self, config: Any, tokens_per_second: float, seconds: float, tokens: int, vocabulary_size: int
    ) -> tuple[Any, dict[str, Any], list[str]] | None:
        """As for_budget, where a model with these settings trains so fast; None: as it was."""


@runtime_checkable
class HasRecipe(Protocol):
    """An architecture with default settings of training of its own."""

    def recipe(self, config: Any) -> dict[str, Any]:
        """Fields of chainrule.training.recipe.Recipe."""


@runtime_checkable
class Counts(Protocol):
    """A model that is fitted by reading its text once, without gradients."""

    def fit(
        self,
        streams: Iterable[np.ndarray],
        held_out: np.ndarray | None = None,
        advance: Callable[[int], None] = lambda tokens: None,
    ) -> "Counts":
        """Read streams eos d1 eos ... eos; `held_out` may set interpolation weights."""


@runtime_checkable
class Rewinds(Protocol):
    """A model that can take back tokens it has read, as speculative decoding asks for."""

    def rewind(self, state: State, before: State, tokens: Array) -> State:
        """The state after these tokens (batch, time), where `state` has read them and more since `before`."""


@runtime_checkable
class MatchesContexts(Protocol):
    """A model that knows how much of each context it has seen in its training text."""

    def context_lengths(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        """How many tokens up to each position (batch, time) are a context that it knows, and the new state."""


@runtime_checkable
class HasTrunk(Protocol):
    """A model of blocks one above the other. Where the lowest ones, its trunk, do not learn, what they make of a text
    stays the same and can be kept."""

    num_blocks: int

    def trunk_parameters(self, blocks: int) -> Iterable[Any]:
        """The parameters of so many of the lowest blocks, and of all that is below them."""

    def read_trunk(self, tokens: Array, blocks: int) -> Array:
        """What so many blocks make of separate texts (batch, time): (batch, time, width)."""

    def read_on(self, trunk: Array, blocks: int) -> Array:
        """The hidden states that all further blocks make of it."""


@runtime_checkable
class HasHiddenStates(Protocol):
    """A model that makes its logits of a hidden state: a vector after each token that it has read."""

    def hidden_states(self, tokens: Array, state: State) -> tuple[Array, State]:
        """The hidden states (batch, time, width) after each of the tokens (batch, time), and the new state."""


class LanguageModel:
    """Base of every architecture: with `start` and `step`, it has a loss, scores text, and can be called for logits."""

    config: Any  # the architecture's frozen dataclass of settings
    vocabulary_size: int
    eos: int
    learns_by_gradient: ClassVar[bool] = False
    receptive_field: int | None = None  # how many tokens back a prediction can depend on; None: all of them
    context_length: int | None = None  # the most tokens that one state reads; None: any number
    is_normalised = True  # whether the logits are log-probabilities up to a constant that softmax removes

    def start(self, batch_size: int, condition: Any = None) -> State:
        raise NotImplementedError

    def step(self, tokens: Array, state: State) -> tuple[Array, State]:
        raise NotImplementedError

    def __call__(self, tokens: Array, condition: Any = None) -> Array:
        """Logits (batch, time, vocabulary) of what follows each of the tokens (batch, time)."""
        return self.step(tokens, self.start(len(tokens), condition))[0]

    @property
    def num_parameters(self) -> int:
        raise NotImplementedError

    def save(self, path: Path) -> None:
        """Write weights or counts and settings to a safetensors file."""
        raise NotImplementedError

    @classmethod
    def load(cls, path: Path) -> Self:
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """What a person may want to know of this model beyond its settings."""
        return {}

    def notes(self) -> list[str]:
        """What a person must know of how it was made: fallbacks, parts left out."""
        return []

    def loss(self, batch: Batch) -> Loss:
        state = self.start(len(batch.inputs), batch.condition)
        logits, _ = self.step(batch.inputs, state)
        return cross_entropy(logits, batch.targets)

    def score(self, stream: np.ndarray) -> np.ndarray:
        """log p in nats of every token after the first of a stream eos d1 eos d2 ... eos, read from end to end."""
        scores = np.empty(max(len(stream) - 1, 0), np.float32)
        state = self.start(1)
        for begin in range(0, len(scores), SCORED_AT_ONCE):
            tokens = np.asarray(stream[begin : begin + SCORED_AT_ONCE + 1], np.int64)
            logits, state = self.step(tokens[None, :-1], state)
            found = log_softmax(logits)[0]
            found = np.asarray(found.detach() if hasattr(found, "detach") else found)
            scores[begin : begin + len(found)] = found[np.arange(len(found)), tokens[1:]]
        return scores
