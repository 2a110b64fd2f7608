"""The figures of an evaluation, as training writes them to metrics.jsonl and `chainrule evaluate --json` prints them.

Loss is in nats per token; bits per byte counts the bytes of the text as UTF-8, so it compares models of any tokenizer.
A figure is None where it is infinite or would mislead: bits per byte where tokens hide part of the text, a perplexity
of scores that do not sum to one.
"""

from math import exp, log
from typing import NotRequired, TypedDict

NATS_PER_BIT = log(2)
LARGEST_EXPONENT = 700  # exp of more overflows a float


class LossFigures(TypedDict):
    """A mean loss, and the two figures that follow from it."""

    loss: float | None
    perplexity: float | None
    bits_per_byte: float | None


class Evaluation(LossFigures):
    """How good a model is on a held-out part of its data, measured when training has ended."""

    impossible_tokens: int  # that the model gave probability zero
    tokens: int
    documents: int
    bytes: NotRequired[int]
    scored_tokens: NotRequired[int]  # where only some of the tokens were scored, and stand for all
    per: NotRequired[str]  # what the perplexity is per, where that is not a token
    figures: NotRequired[dict[str, float]]  # what the task measures beyond the loss, by name: {"BLEU": 36.5}


class CountingFigures(LossFigures):
    """What an n-gram predicts of the text kept aside, in the tokens of a model that learns by gradient."""

    order: int


def describe_counting(figures: CountingFigures) -> str:
    """'a 7-gram of the same tokens has 2.359 bits per byte'"""
    bits, perplexity = figures["bits_per_byte"], figures["perplexity"]
    found = f"perplexity {perplexity:,.1f}" if bits is None else f"{bits:.4f} bits per byte"
    return f"a {figures['order']}-gram of the same tokens has {found}"


class MixPart(Evaluation):
    """One part of a mix, measured by itself."""

    name: str
    architecture: str
    weight: float  # the mean over the text


class MixEvaluation(Evaluation):
    """A mix, its parts on the same text, and its difference from the best of them where that can be told."""

    parts: list[MixPart]
    against: dict[str, object] | None  # "run", and the fields of evaluation.significance.Difference


class EnsemblePart(TypedDict):
    """One part of an ensemble, measured by itself."""

    name: str
    architecture: str
    bits_per_byte: float | None
    saves: float  # the share of its bits that the ensemble would need more without this part


class EnsembleEvaluation(Evaluation):
    """An ensemble and its parts on the same text."""

    parts: list[EnsemblePart]
    counting: float | None  # bits per byte of the n-gram that is trained without a budget


class TextFigures(TypedDict):
    """How well a model predicts a text: all that `chainrule evaluate` tells of it."""

    documents: int
    tokens: int  # without <eos>
    bytes: int
    characters: int
    changed_documents: int  # that are not what their tokens spell; all, where a vocabulary is closed
    unknown_tokens: int  # outside a closed vocabulary
    impossible_tokens: int  # that the model gave probability zero
    nats: float  # negative log-likelihood of the whole text
    bits_per_byte: float | None
    bits_per_character: float | None
    perplexity: float | None  # per token, <eos> counted
    perplexity_without_eos: float | None
    perplexity_without_unknown: float | None
    is_normalised: NotRequired[bool]  # whether the model's probabilities sum to one


def loss_figures(loss: float, bytes_per_token: float | None) -> LossFigures:
    """The figures of a mean loss in nats per token; no bits per byte where the bytes of a token are not known."""
    return {
        "loss": loss,
        "perplexity": exp(min(loss, LARGEST_EXPONENT)),
        "bits_per_byte": loss / NATS_PER_BIT / bytes_per_token if bytes_per_token else None,
    }
