"""One sample with a draft beside it: the same tokens as without, in fewer steps of the model.

What is drawn depends on the model's own logits and on the sample's random numbers alone. The draft only decides how
many tokens a step reads: a guess counts if it is what was drawn. As many are accepted as by the rule of Leviathan et
al. (2023) for such guesses, which keeps the distribution; this keeps every token.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from chainrule.errors import UserError
from chainrule.generation.batch import NO_TOKEN, Row, Token, draw_tokens
from chainrule.generation.decoder import NOT_FINITE, Decoder, half_of
from chainrule.generation.drafts import MOST, Draft
from chainrule.generation.prompt import Prompt, Tokenizer
from chainrule.generation.settings import Sampling
from chainrule.models.contract import Steps


class Speculation:
    """`guessed` and `right` tell how well the draft did."""

    def __init__(self, model: Steps, tokenizer: Tokenizer, draft: Draft) -> None:
        self._model, self._tokenizer, self._draft = model, tokenizer, draft
        self._most = 1  # guesses at a time: twice as many after all were right, half as many after one was not
        self.guessed = self.right = 0

    def stream(self, prompt: Prompt, sampling: Sampling, condition: Any = None) -> Iterator[Token]:
        """The tokens of one sample; `sampling` must have its seed."""
        row = Row(self._tokenizer, prompt, sampling, sampling.first_sample)
        decoder = Decoder(self._model, prompt.ids, condition, prompt.allowed)
        yield _draw(decoder.logits, row)
        while row.finish_reason is None:
            if not decoder.room:  # as Batch does: half of a context makes room for as much again
                assert decoder.context_length is not None
                last = row.history[-half_of(decoder.context_length) :]
                decoder = Decoder(self._model, np.array(last, np.int64), condition)
                yield _draw(decoder.logits, row)
                continue
            yield from self._step(decoder, row)

    def _step(self, decoder: Decoder, row: Row) -> Iterator[Token]:
        most = min(self._most, decoder.room - 1, row.remaining - 1)
        guesses = self._draft.guess(row.history, most) if most > 0 else []
        ids = np.array([row.history[-1], *guesses], np.int64)
        right = 0
        for logits in decoder.try_out(ids):
            yield _draw(logits[None], row)
            if right == len(guesses) or row.history[-1] != guesses[right]:
                break
            right += 1
            if row.finish_reason is not None:
                break
        decoder.keep(ids, min(1 + right, len(ids)))
        self.guessed += len(guesses)
        self.right += right
        if guesses:
            self._most = min(2 * self._most, MOST) if right == len(guesses) else max(self._most // 2, 1)


def _draw(logits: np.ndarray, row: Row) -> Token:
    top = logits.max()  # NaN if any is
    if not abs(top) < np.inf:
        raise UserError(NO_TOKEN if top == -np.inf else NOT_FINITE)
    return draw_tokens(logits, [row])[0]
