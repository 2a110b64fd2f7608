"""Vectors of texts: the hidden states of a model, averaged over the tokens of a text, or the one after its last token.

Every text is read after the token that starts a document, as prompts are. The hidden state after that token is the same
for all texts and does not count, unless there is nothing else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from chainrule.errors import UserError
from chainrule.generation.decoder import NOT_FINITE
from chainrule.generation.prompt import Tokenizer, read_prompt
from chainrule.kernels.threads import threads_for
from chainrule.models._numpy import start, to_numpy
from chainrule.models.contract import HasHiddenStates, LanguageModel

POOLINGS = ("mean", "last")
READ_AT_ONCE = 1024  # tokens whose hidden states are held at one time


@dataclass(frozen=True)
class EncodedText:
    """A text as the model reads it."""

    ids: np.ndarray  # (time,)
    begin: int  # where the tokens begin that count

    @property
    def length(self) -> int:
        """How many tokens the text itself has."""
        return len(self.ids) - self.begin


def encode_texts(model: LanguageModel, tokenizer: Tokenizer, texts: Sequence[str]) -> list[EncodedText]:
    """Read every text after the token that starts a document; one that is too long for the model is refused."""
    encoded = []
    for number, text in enumerate(texts, start=1):
        prompt = read_prompt(model, tokenizer, text, truncate=True, heals=False)
        if model.context_length is not None and prompt.length > model.context_length:
            name = "the text" if len(texts) == 1 else f"text {number} of {len(texts)}"
            found = f"{name} has {prompt.length} tokens but this model reads {model.context_length}"
            raise UserError(f"{found}; shorten it")
        encoded.append(EncodedText(prompt.ids, len(prompt.ids) - prompt.length if prompt.length else 0))
    return encoded


def embed_texts(model: LanguageModel, texts: Sequence[EncodedText], pooling: str = "mean") -> np.ndarray:
    """(texts, width) A vector for each text, the same alone or beside others."""
    batches = [(places, embed_batch(model, [texts[i] for i in places], pooling)) for places in batch_places(texts)]
    vectors = np.empty((len(texts), batches[0][1].shape[1] if batches else 0), np.float32)
    for places, found in batches:
        vectors[places] = found
    return vectors


def batch_places(texts: Sequence[EncodedText]) -> Iterator[list[int]]:
    """Which texts are read together: those of similar length, READ_AT_ONCE tokens, or one longer text, at a time."""
    batch: list[int] = []
    for place in sorted(range(len(texts)), key=lambda place: len(texts[place].ids)):
        if batch and (len(batch) + 1) * len(texts[place].ids) > READ_AT_ONCE:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def embed_batch(model: LanguageModel, texts: Sequence[EncodedText], pooling: str) -> np.ndarray:
    """(texts, width) Read together. What stands after the end of a shorter text changes nothing before it."""
    assert isinstance(model, HasHiddenStates)
    longest = max(len(text.ids) for text in texts)
    tokens = np.full((len(texts), longest), model.eos, np.int64)
    weights = np.zeros((len(texts), longest))
    for row, text in enumerate(texts):
        end = len(text.ids)
        first = text.begin if pooling == "mean" else end - 1
        tokens[row, :end] = text.ids
        weights[row, first:end] = 1 / (end - first)
    state, total = start(model, len(texts)), np.zeros(())
    piece = max(READ_AT_ONCE // len(texts), 1)
    with threads_for(model, min(longest, piece) * len(texts)):
        for begin in range(0, longest, piece):
            hidden, state = model.hidden_states(tokens[:, begin : begin + piece], state)  # (texts, time, width)
            total = total + np.einsum("btw,bt->bw", to_numpy(hidden), weights[:, begin : begin + piece])
    if not np.isfinite(total).all():
        raise UserError(NOT_FINITE)
    vectors: np.ndarray = total.astype(np.float32)
    return vectors
