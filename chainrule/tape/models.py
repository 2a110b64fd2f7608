"""Language models on the tape. Their parameters have the names and shapes of those of the torch models.

MODELS has them by the name of their architecture. A configuration is any object with the settings in configs.py, as the
torch models' configurations are.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from chainrule.tape import modules as m
from chainrule.tape import recurrent
from chainrule.tape.attention import Attention, Rotary
from chainrule.tape.configs import BagOfWordsConfig, ElmanConfig, MLPConfig, RecurrentConfig, TransformerConfig
from chainrule.tape.losses import SoftmaxCrossEntropy
from chainrule.tape.tape import Array, Module, Parameter, Tape, Value

C = TypeVar("C")  # the configuration of an architecture
S = TypeVar("S")  # its state: what it has read before a window

ACTIVATIONS: dict[str, Module] = {
    "relu": m.ReLU(),
    "silu": m.SiLU(),
    "gelu": m.GELU("exact"),
    "gelu-tanh": m.GELU("tanh"),
    "relu-squared": m.ReLUSquared(),
    "swiglu": m.SwiGLU(),
}


class Model(Generic[C, S]):
    """The base of all models. Subclasses define `logits`: words (batch, time) and a state in, logits and state out."""

    def __init__(self, config: C, parameters: Mapping[str, Array]):
        self.check(config)
        self.config = config
        self.parameters: dict[str, Parameter] = {}
        self.bind(parameters)
        self._seed: int | None = None  # of dropout; None: no dropout
        self._drawn = 0

    @classmethod
    def check(cls, config: C) -> None:
        """Raises a ValueError for settings that the tape has no module for."""

    def bind(self, parameters: Mapping[str, Array]) -> None:
        """Use these arrays, without copying them, as parameters."""
        self.parameters = {name: Parameter(array) for name, array in parameters.items()}

    def logits(self, words: Value, state: S | None) -> tuple[Value, S | None]:
        raise NotImplementedError

    def join_state(self, flat: Mapping[str, Array]) -> S | None:
        """The state that has the arrays of the torch model's, given by their names."""
        return None

    def split_state(self, state: S) -> dict[str, Array]:
        """The arrays of a state by their names in the torch model's."""
        return {}

    def loss(
        self, tape: Tape, inputs: Array, targets: Array, state: S | None = None, seed: int | None = None
    ) -> tuple[Value, S | None]:
        """The mean loss of a window after what `state` has read (None: nothing), and the state after it.

        With a seed it is a step of training, and the seed decides what is dropped out.
        """
        self._seed, self._drawn = seed, 0
        logits, state = self.logits(tape.value(inputs), state)
        return SoftmaxCrossEntropy()(logits, tape.value(targets)), state

    def linear(self, a: Value, name: str) -> Value:
        names = [f"{name}.weight", f"{name}.bias"]
        return m.Linear()(a, *(self.parameters[each] for each in names if each in self.parameters))

    def embed(self, words: Value) -> Value:
        return m.Embedding()(words, self.parameters["embedding.weight"])

    def dropout(self, a: Value, rate: float) -> Value:
        if self._seed is None or not rate:
            return a
        self._drawn += 1
        return m.Dropout(rate, (self._seed, self._drawn))(a)

    def unembed(self, hidden: Value) -> Value:
        """softmax(W h (+ b)), where W may be the embedding."""
        for name in ("unembedding", "unembedding.weight", "embedding.weight"):
            if name in self.parameters:
                break
        bias = [self.parameters[each] for each in ("unembedding.bias", "output_bias") if each in self.parameters]
        return m.Linear()(hidden, self.parameters[name], *bias)


class MLP(Model[MLPConfig, Array]):
    """The state is the last order - 2 words, (batch, order - 2)."""

    @classmethod
    def check(cls, config: MLPConfig) -> None:
        if config.tied:
            raise ValueError("on the tape tied must be False, got True; set tied=false")

    def logits(self, words: Value, state: Array | None) -> tuple[Value, Array]:
        config, (batch, time) = self.config, words.shape
        none = len(self.parameters["embedding.weight"].array) - 1
        before = np.full((batch, config.order - 2), none) if state is None else np.asarray(state)
        line = np.concatenate([before, words.array], 1)
        contexts = np.lib.stride_tricks.sliding_window_view(line, config.order - 1, axis=1)[:, :, ::-1]
        embedded = self.embed(Value(contexts, tape=words.tape))  # (batch, time, order - 1, width), the latest first
        x = self.dropout(m.Reshape(batch, time, -1)(embedded), config.dropout)
        features = self.dropout(m.Tanh()(self.linear(x, "hidden")), config.dropout)
        if config.is_direct:
            features = m.Concatenate()(features, x)
        return self.unembed(features), line[:, time:]


class BagOfWords(Model[BagOfWordsConfig, None]):
    def logits(self, words: Value, state: None) -> tuple[Value, None]:
        means = self.dropout(m.MeanOverTime()(self.embed(words)), self.config.dropout)
        return self.unembed(self.dropout(m.Tanh()(self.linear(means, "hidden")), self.config.dropout)), None


RC = TypeVar("RC", bound=RecurrentConfig)


class Recurrent(Model[RC, list[Array]]):
    """The state is a list of one array per layer, (batch, width); of an LSTM, h and c side by side."""

    parts = 1

    def join_state(self, flat: Mapping[str, Array]) -> list[Array]:
        """From {'0.0': h of layer 0, '0.1': its c, '1.0': h of layer 1, ...}."""
        return [
            np.concatenate([np.asarray(flat[f"{layer}.{part}"]) for part in range(self.parts)], 1)
            for layer in range(self.config.num_layers)
        ]

    def split_state(self, state: list[Array]) -> dict[str, Array]:
        return {
            f"{layer}.{part}": array
            for layer, parts in enumerate(state)
            for part, array in enumerate(np.split(parts, self.parts, 1))
        }

    def cell(self) -> Module:
        raise NotImplementedError

    def logits(self, words: Value, state: list[Array] | None) -> tuple[Value, list[Array]]:
        config = self.config
        x = self.embed(words)
        if config.input_scale != 1:
            x = m.Scale(config.input_scale)(x)
        x = self.dropout(x, config.input_dropout)
        after: list[Array] = []
        for number in range(config.num_layers):
            layer = f"recurrent.cells.{number}"
            input_weight, weight, bias, *more = (
                self.parameters[f"{layer}.{each}"]
                for each in ("input_weight", "recurrent_weight", "bias", "recurrent_bias")
                if f"{layer}.{each}" in self.parameters
            )
            zeros = (len(words.array), self.parts * weight.shape[1])
            before = np.zeros(zeros, weight.array.dtype) if state is None else state[number]
            states = self.cell()(
                x, Value(before, tape=words.tape), input_weight, self._drop_weights(weight, words), bias, *more
            )
            after.append(states.array[:, -1].copy())
            width = weight.shape[1]
            shown = states if states.shape[-1] == width else m.Slice(0, width)(states)
            shown = self.dropout(shown, config.dropout)
            x = m.Add()(x, shown) if config.residual and number else shown
        return self.unembed(x), after

    def _drop_weights(self, weight: Parameter, words: Value) -> Value:
        """Recurrent weights with dropout, the same for all steps of the window."""
        rate = self.config.recurrent_dropout
        if self._seed is None or not rate:
            return weight
        self._drawn += 1
        mask = m.draw_mask(weight.array, rate, (self._seed, self._drawn))
        return m.Multiply()(weight, Value(mask, tape=words.tape))


class Elman(Recurrent[ElmanConfig]):
    def cell(self) -> Module:
        return recurrent.Elman(self.config.nonlinearity)


class UGRNN(Recurrent[RecurrentConfig]):
    def cell(self) -> Module:
        return recurrent.UGRNN()


class GRU(Recurrent[RecurrentConfig]):
    def cell(self) -> Module:
        return recurrent.GRU()


class LSTM(Recurrent[RecurrentConfig]):
    parts = 2

    def cell(self) -> Module:
        return recurrent.LSTM()


class Transformer(Model[TransformerConfig, None]):
    """A Transformer with pre-norm blocks. It reads every window from its start, so it has no state."""

    ONLY: ClassVar[dict[str, str | int | float]] = {
        "norm_placement": "pre",
        "ngram_order": 0,
        "attention_dropout": 0.0,
        "position_join": "add",
    }
    POSITIONS = ("none", "learned", "rotary")

    @classmethod
    def check(cls, config: TransformerConfig) -> None:
        for name, value in cls.ONLY.items():
            if getattr(config, name) != value:
                raise ValueError(f"on the tape {name} must be {value}, got {getattr(config, name)}; set {name}={value}")
        if config.positions not in cls.POSITIONS:
            known = ", ".join(cls.POSITIONS)
            raise ValueError(f"on the tape positions must be one of {known}, got {config.positions}; set one of them")

    def logits(self, words: Value, state: None) -> tuple[Value, None]:
        config = self.config
        x = self.embed(words)
        if config.positions == "learned":
            places = Value(np.arange(words.shape[1]), tape=words.tape)
            x = m.Add()(x, m.Embedding()(places, self.parameters["positions.weight"]))
        if config.embedding_norm:
            x = m.RMSNorm(float(np.finfo(x.array.dtype).eps))(x)
        x = self.dropout(x, config.dropout)
        for layer in range(config.num_layers):
            block = f"blocks.{layer}"
            mixed = self._attend(self._norm(x, f"{block}.attention_norm"), f"{block}.attention")
            x = m.Add()(x, self.dropout(mixed, config.dropout))
            inner = self.linear(self._norm(x, f"{block}.feedforward_norm"), f"{block}.feedforward.input")
            fed = self.linear(ACTIVATIONS[config.activation](inner), f"{block}.feedforward.output")
            x = m.Add()(x, self.dropout(fed, config.dropout))
        logits = self.unembed(self._norm(x, "norm"))
        if config.logit_cap:
            logits = m.Scale(config.logit_cap)(m.Tanh()(m.Scale(1 / config.logit_cap)(logits)))
        return logits, None

    def _norm(self, x: Value, name: str) -> Value:
        gain, bias = self.parameters[f"{name}.weight"], self.parameters.get(f"{name}.bias")
        if self.config.norm == "rms":
            return m.RMSNorm(self.config.norm_epsilon)(x, gain)
        return m.LayerNorm(self.config.norm_epsilon)(x, gain, *([bias] if bias else []))

    def _attend(self, x: Value, name: str) -> Value:
        config = self.config
        heads, fewer = config.num_heads, config.num_key_value_heads or config.num_heads
        width = config.head_width or config.width // heads
        stacked = self.linear(x, f"{name}.query_key_value")
        query, key, value = (
            m.Slice(first * width, end * width)(stacked)
            for first, end in ((0, heads), (heads, heads + fewer), (heads + fewer, heads + 2 * fewer))
        )
        if config.qk_norm:
            query, key = (
                self._norm_heads(each, f"{name}.{part}_norm", width) for each, part in ((query, "query"), (key, "key"))
            )
        if config.positions == "rotary":
            query, key = (Rotary(width, config.rotary_base)(each) for each in (query, key))
        return self.linear(Attention(heads, fewer)(query, key, value), f"{name}.output")

    def _norm_heads(self, x: Value, name: str, width: int) -> Value:
        """RMSNorm of each head by itself."""
        parted = m.Reshape(*x.shape[:2], -1, width)(x)
        return m.Reshape(*x.shape)(m.RMSNorm()(parted, self.parameters[f"{name}.weight"]))


MODELS: dict[str, type[Model[Any, Any]]] = {
    "mlp": MLP, "bow": BagOfWords, "elman": Elman, "ugrnn": UGRNN, "gru": GRU, "lstm": LSTM, "transformer": Transformer
}  # fmt: skip
