"""On how many parameters and tokens a given compute is best spent (Hoffmann et al., 2022: 'Chinchilla').

About 20 tokens per parameter; and L(N, D) = E + A/N^α + B/D^β, fitted to 400 models of web text.
"""

import math
from dataclasses import dataclass

TOKENS_PER_PARAMETER = 20
E, A, ALPHA, B, BETA = 1.69, 406.4, 0.34, 410.7, 0.28
FITTED_PARAMETERS = (70e6, 16e9)
FITTED_TOKENS = (5e9, 500e9)


@dataclass(frozen=True)
class Advice:
    tokens_per_parameter: float
    best_tokens_for_parameters: int
    best_parameters_for_compute: int
    best_tokens_for_compute: int
    expected_loss: float | None  # nats per token of web text; None: too far from what the fit was made with
    expected_loss_at_best: float | None
    is_extrapolated: bool


def advise(num_parameters: int, tokens: int, flops: float, vocabulary_size: int) -> Advice:
    """What Chinchilla's rules say about training so many parameters on so many tokens."""
    parameters_best, tokens_best = best_for(flops)
    return Advice(
        tokens / num_parameters,
        TOKENS_PER_PARAMETER * num_parameters,
        parameters_best,
        tokens_best,
        _if_better_than_guessing(expected_loss(num_parameters, tokens), vocabulary_size),
        _if_better_than_guessing(expected_loss(parameters_best, tokens_best), vocabulary_size),
        not (_within(num_parameters, FITTED_PARAMETERS) and _within(tokens, FITTED_TOKENS)),
    )


def best_for(flops: float) -> tuple[int, int]:
    """The parameters N and tokens D with 6 N D = flops and D = 20 N."""
    parameters = math.sqrt(flops / (6 * TOKENS_PER_PARAMETER))
    return max(round(parameters), 1), max(round(TOKENS_PER_PARAMETER * parameters), 1)


def expected_loss(num_parameters: float, tokens: float) -> float:
    """L(N, D), in nats per token of web text."""
    return E + A / num_parameters**ALPHA + B / tokens**BETA


def _if_better_than_guessing(loss: float, vocabulary_size: int) -> float | None:
    return loss if loss < math.log(max(vocabulary_size, 2)) else None


def _within(value: float, ends: tuple[float, float]) -> bool:
    return ends[0] <= value <= ends[1]
