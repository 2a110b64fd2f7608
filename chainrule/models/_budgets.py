"""What a budget of time trains best: the recipe of every family as plain data, by kind of vocabulary and by seconds.

Those for a minute are from a search that is the same for all families (`make recipes`; docs/results/recipes.md says
which it has reached) and from trials beside it; larger sizes are guesses but for these, found on two cores of a laptop
(docs/log.md): the Transformer's on a megabyte of characters, that of recurrent models on a million words, with an LSTM.
"""

from dataclasses import dataclass, field, replace
from math import log2, sqrt
from typing import Any, TypeVar

Settings = dict[str, Any]
Ladder = tuple[tuple[int, Settings, Settings], ...]  # from so many seconds on: of the model, of training
C = TypeVar("C")

LARGE_VOCABULARY = 4096  # words or pieces; fewer are characters and bytes
MEASURED_TOKENS = 1_000_000  # what the ladders were found on
LSTM_GATES = 4
MUCH_DROPPED = 60_000  # tokens of a text that a network can learn by heart


@dataclass(frozen=True)
class Kind:
    """Settings for a kind of vocabulary, of the model and of training; what a rung of the ladder says goes before."""

    ladder: Ladder
    model: Settings = field(default_factory=dict)
    training: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class Recipes:
    """Those of one family."""

    few: Kind
    many: Kind

    def choose(self, seconds: float, tokens: int, vocabulary_size: int) -> tuple[Settings, Settings]:
        """Settings of the model and of training."""
        kind = self.many if vocabulary_size > LARGE_VOCABULARY else self.few
        shape, changes = rung(kind.ladder, seconds, tokens)
        return kind.model | shape, kind.training | changes


def rung(ladder: Ladder, seconds: float, tokens: int) -> tuple[Settings, Settings]:
    """The highest that the time allows. A shorter text gets a smaller model; of a longer one less is read twice, so
    less is dropped out. (How much, by square roots, is a guess that no trial has tested.)"""
    plenty = (tokens / MEASURED_TOKENS) ** 0.5
    seconds *= min(plenty, 1.0)
    shape, changes = next((shape, changes) for least, shape, changes in reversed(ladder) if seconds >= least)
    if plenty > 1.5:
        shape = {name: round(value / plenty, 3) if name.endswith("dropout") else value for name, value in shape.items()}
    return shape, changes


def fit_budget(
    base: C, recipes: Recipes, seconds: float, tokens: int, vocabulary_size: int, **of_text: Any
) -> tuple[C, Settings, list[str]]:
    """What `for_budget` of a family gives: its settings, those of training, and why; `of_text` are settings that the
    text decides."""
    shape, training = recipes.choose(seconds, tokens, vocabulary_size)
    config = replace(base, **(shape | of_text))  # type: ignore[type-var]
    if "context_length" in shape:
        training = {"window": shape["context_length"], **training}
    budget = f"{seconds:,.0f} seconds of two laptop cores and {tokens:,} tokens"
    return config, training, [f"{describe(config)}: for {budget}"]


def fit_recurrent_budget(
    base: C, gates: int, seconds: float, tokens: int, vocabulary_size: int
) -> tuple[C, Settings, list[str]]:
    """The same for recurrent networks, whose widths are chosen for an LSTM: a cell with fewer gates is wider, so that
    all have as many parameters."""

    def widen(width: int) -> int:
        """The multiple of 8 with which 2 gates width² + vocabulary width is nearest to the LSTM's."""
        wanted = 2 * LSTM_GATES * width**2 + vocabulary_size * width
        exact = (sqrt(vocabulary_size**2 + 8 * gates * wanted) - vocabulary_size) / (4 * gates)
        return max(round(exact / 8), 1) * 8

    shape, _ = RECURRENT.choose(seconds, tokens, vocabulary_size)
    return fit_budget(base, RECURRENT, seconds, tokens, vocabulary_size, width=widen(shape["width"]))


def dropout_of_short_text(epochs: float, tokens: int) -> float:
    """The more often a text is read, the more is dropped out, and the less the longer the text is.

    Of up to MUCH_DROPPED tokens 0.1 if they are read twice, 0.36 if 8 times, 0.6 at most; half of that of four times as
    many. Found with an LSTM of words: see docs/log.md.
    """
    much = min(max(0.13 * log2(max(epochs, 1e-3)) - 0.03, 0.0), 0.6)
    return round(much * min(sqrt(MUCH_DROPPED / tokens), 1.0), 3)


def fit_recurrent_speed(
    config: C, tokens_per_second: float, seconds: float, tokens: int
) -> tuple[C, Settings, list[str]] | None:
    """What `for_speed` of recurrent networks gives: more dropout where a short text is read often; None where it has
    enough."""
    epochs = tokens_per_second * seconds / tokens
    dropout = dropout_of_short_text(epochs, tokens)
    if dropout <= config.dropout:  # type: ignore[attr-defined]
        return None
    more = replace(config, dropout=dropout, input_dropout=round(0.8 * dropout, 3))  # type: ignore[type-var]
    return more, {}, [f"{describe(more)}, dropout {dropout:g}: {tokens:,} tokens will be read {epochs:.0f} times"]


def describe(config: Any) -> str:
    """'3 layers of width 96, context 64, embeddings of up to 6 tokens'"""
    layers = getattr(config, "num_layers", 0)
    of_layers = f"{layers} layer{'s' if layers > 1 else ''} of " if layers else ""
    phrases = [f"{of_layers}width {config.width}"]
    for name, phrase in (
        ("order", "order {}"),
        ("context_length", "context {}"),
        ("ngram_order", "embeddings of up to {} tokens"),
    ):
        if getattr(config, name, 0):
            phrases.append(phrase.format(getattr(config, name)))
    return ", ".join(phrases)


COUNTED = {"sampled_softmax": 0.95, "first_vectors": "counted"}
FEW_CANDIDATES = {"sampled_head": 200, "sampled_tail": 400}  # of a sampled softmax: more steps, each less exact

# For AdamW, which all have but the Transformer of characters.
_ADAM: Settings = {
    "sampled_softmax": 0.0,
    "first_vectors": "random",
    "batch_size": 32,
    "learning_rate": 0.01,
    "matrix_learning_rate": 0.004,
    "beta2": 0.999,
    "weight_decay": 0.03,
    "clip": 1.0,
}
_SHORTER = {"batch_size": 16}
_MUON = {
    "learning_rate": 0.015,
    "table_learning_rate": 0.2,
    "muon_rounds": 3,
    "schedule": "trapezoidal",
    "cooldown": 0.9,
    "clip": 0.0,
    "sampled_softmax": 0.0,
}
TRANSFORMER = Recipes(
    few=Kind(
        (
            (0, {"width": 64, "num_layers": 1, "context_length": 64}, {"batch_size": 32}),
            (10, {"width": 64, "num_layers": 2, "context_length": 64, "ngram_dropout": 0.1}, {"batch_size": 32}),
            (30, {"width": 96, "num_layers": 3, "context_length": 64, "ngram_dropout": 0.3}, {"batch_size": 32}),
            (75, {"width": 96, "num_layers": 3, "context_length": 128, "ngram_dropout": 0.4}, {"batch_size": 16}),
            (
                300,
                {"width": 128, "num_layers": 4, "context_length": 128, "ngram_dropout": 0.4, "dropout": 0.05},
                {"batch_size": 16},
            ),
            (
                900,
                {"width": 192, "num_layers": 5, "context_length": 256, "ngram_dropout": 0.5, "dropout": 0.2},
                {"batch_size": 16},
            ),
            # A guess that no trial has tested.
            (
                3600,
                {"width": 256, "num_layers": 6, "context_length": 256, "ngram_dropout": 0.55, "dropout": 0.3},
                {"batch_size": 16},
            ),
        ),
        {},
        _MUON,
    ),
    many=Kind(
        (
            (0, {"width": 128, "num_layers": 1, "hidden_width": 256, "context_length": 32}, FEW_CANDIDATES),
            (30, {"width": 128, "num_layers": 2, "hidden_width": 256, "context_length": 32}, FEW_CANDIDATES),
            # From here on a guess.
            (150, {"width": 192, "num_layers": 2, "hidden_width": 384, "context_length": 64, "dropout": 0.1}, _SHORTER),
            (450, {"width": 256, "num_layers": 3, "hidden_width": 512, "context_length": 64, "dropout": 0.2}, _SHORTER),
            (
                1200,
                {"width": 320, "num_layers": 4, "hidden_width": 640, "context_length": 64, "dropout": 0.3},
                _SHORTER,
            ),
        ),
        {"tied": True, "output_bias": True},  # no tables of n-grams: of so many words, few come again in a short time
        _ADAM | COUNTED | {"optimizer": "adamw", "learning_rate": 0.004},
    ),
)

REFERENCE_FLOPS = 55e9  # a second, of training a Transformer on the two cores that its ladder was found on


def dropout_of_characters(epochs: float) -> Settings:
    """For a Transformer that reads a text so often: of up to two times nothing, 0.2 of nine.

    Found on a megabyte of characters: see docs/log.md.
    """
    often = max(log2(max(epochs, 1e-3) / 2), 0.0)
    return {"dropout": round(min(0.09 * often, 0.4), 3), "ngram_dropout": round(min(0.4 + 0.05 * often, 0.6), 3)}


_SLOWER = {"matrix_learning_rate": 0.003}
_ONE_LAYER = {"num_layers": 1, "input_scale": 4.0}
_WIDER: Ladder = (
    (150, {"width": 200, "input_dropout": 0.15, "dropout": 0.25}, _SLOWER),
    (450, {"width": 256, "input_dropout": 0.3, "dropout": 0.4}, _SLOWER),
    (1350, {"width": 320, "input_dropout": 0.35, "dropout": 0.45}, _SLOWER),  # a guess: see docs/log.md
)
_FASTER = {"matrix_learning_rate": 0.008}
RECURRENT = Recipes(  # the same for every cell, so that a comparison of cells compares nothing else
    few=Kind(((0, {"width": 128, "input_dropout": 0.1, "dropout": 0.1}, _FASTER), *_WIDER), _ONE_LAYER, _ADAM),
    many=Kind(
        ((0, {"width": 128, "input_dropout": 0.05, "dropout": 0.05}, FEW_CANDIDATES), *_WIDER),
        _ONE_LAYER,
        _ADAM | COUNTED,
    ),
)

_AS_WIDE: Ladder = (  # a hidden layer as wide as the vectors, as tied outputs ask for
    (0, {"width": 128, "hidden_width": 128, "dropout": 0.1}, {}),
    (150, {"width": 200, "hidden_width": 200, "dropout": 0.2}, {}),
    (450, {"width": 256, "hidden_width": 256, "dropout": 0.3}, {}),
)
_AS_WIDE_MANY: Ladder = ((0, {"width": 128, "hidden_width": 128, "dropout": 0.05}, FEW_CANDIDATES), *_AS_WIDE[1:])
_WINDOW_BEFORE = {"order": 6, "is_direct": False, "tied": True}
MLP = Recipes(
    few=Kind(_AS_WIDE, _WINDOW_BEFORE, _ADAM | {"window": 32}),
    many=Kind(
        _AS_WIDE_MANY,
        _WINDOW_BEFORE,
        _ADAM | COUNTED | {"window": 32, "matrix_learning_rate": 0.008},
    ),
)
_BAG = {"context_length": 32, "tied": True}
BAG = Recipes(
    few=Kind(_AS_WIDE, _BAG, _ADAM),
    many=Kind(_AS_WIDE_MANY, _BAG, _ADAM | COUNTED | {"learning_rate": 0.02}),
)
_LONGER: Ladder = (
    (150, {"width": 200, "hidden_width": 800, "dropout": 0.2}, {}),
    (450, {"width": 256, "hidden_width": 1024, "dropout": 0.3}, {}),
)
_ATTENTION = {"context_length": 32, "tied": True, "output_bias": True}
ATTENTION = Recipes(
    few=Kind(
        ((0, {"width": 128, "hidden_width": 256}, {}), *_LONGER),
        _ATTENTION,
        _ADAM | {"learning_rate": 0.006},
    ),
    many=Kind(
        ((0, {"width": 128, "hidden_width": 256, "dropout": 0.1}, FEW_CANDIDATES), *_LONGER),
        _ATTENTION,
        _ADAM | COUNTED | {"learning_rate": 0.004},
    ),
)
