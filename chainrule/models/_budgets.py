"""What a budget of time trains best: sizes and settings by seconds on two cores of a laptop (trials: docs/log.md).

The Transformer's were found on a megabyte of characters, those of recurrent models on a million words, with an LSTM.
Rung by rung: from so many seconds on, settings of the model, settings of training.
"""

from typing import Any

Ladder = tuple[tuple[int, dict[str, Any], dict[str, Any]], ...]

TRANSFORMER: Ladder = (
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
        1200,
        {"width": 192, "num_layers": 5, "context_length": 256, "ngram_dropout": 0.5, "dropout": 0.2},
        {"batch_size": 16},
    ),
)

RECURRENT: Ladder = (
    (0, {"width": 128, "input_dropout": 0.1, "dropout": 0.1}, {"matrix_learning_rate": 0.004}),
    (150, {"width": 200, "input_dropout": 0.15, "dropout": 0.25}, {}),
    (450, {"width": 256, "input_dropout": 0.3, "dropout": 0.4}, {}),
    (1350, {"width": 320, "input_dropout": 0.35, "dropout": 0.45}, {}),  # a guess: see docs/log.md
)


MEASURED_TOKENS = 1_000_000  # what the ladders were found on


def rung(ladder: Ladder, seconds: float, tokens: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The highest that the time allows. A shorter text gets a smaller model; of a longer one less is read twice, so
    less is dropped out. (How much, by square roots, is a guess that no trial has tested.)"""
    plenty = (tokens / MEASURED_TOKENS) ** 0.5
    seconds *= min(plenty, 1.0)
    shape, changes = next((shape, changes) for least, shape, changes in reversed(ladder) if seconds >= least)
    if plenty > 1.5:
        shape = {name: round(value / plenty, 3) if name.endswith("dropout") else value for name, value in shape.items()}
    return shape, changes
