"""Speculative decoding of one sample: the same tokens as without a draft, in fewer steps of the model.

Tokens are drawn from the model's own logits with the sample's own random numbers. The draft only decides how many
tokens a step reads: a proposed token is accepted if it equals the one drawn. As many are accepted as by the rule of
Leviathan et al. (2023) for deterministic proposals; their rule keeps the distribution, this one keeps every token.
"""

from collections.abc import Iterator

import numpy as np

from chainrule.generation.batch import Row, Token, draw_token
from chainrule.generation.decoder import Decoder, restart_length
from chainrule.generation.drafts import MOST_PROPOSED, Draft
from chainrule.generation.prompt import Prompt, Tokenizer
from chainrule.generation.settings import Sampling
from chainrule.models.contract import Steps


class SpeculativeDecoder:
    """Draws a sample with the help of a draft; counts the tokens `proposed` by it and those `accepted`."""

    def __init__(self, model: Steps, tokenizer: Tokenizer, draft: Draft) -> None:
        self._model, self._tokenizer, self._draft = model, tokenizer, draft
        self._most = 1  # proposals per step: doubled after all were accepted, halved after one was not
        self.proposed = self.accepted = 0

    def stream(self, prompt: Prompt, sampling: Sampling, condition: object = None) -> Iterator[Token]:
        """Yield the tokens of one sample; `sampling` must have its seed."""
        row = Row(self._tokenizer, prompt, sampling, sampling.first_sample)
        decoder = Decoder(self._model, prompt.ids, condition, prompt.allowed)
        yield draw_token(decoder.logits, row)
        while row.finish_reason is None:
            if not decoder.room:  # start again as SampleBatch does
                assert decoder.context_length is not None
                last = row.history[-restart_length(decoder.context_length) :]
                decoder = Decoder(self._model, np.array(last, np.int64), condition)
                yield draw_token(decoder.logits, row)
                continue
            yield from self._step(decoder, row)

    def _step(self, decoder: Decoder, row: Row) -> Iterator[Token]:
        most = min(self._most, decoder.room - 1, row.remaining - 1)
        proposals = self._draft.propose(row.history, most) if most > 0 else []
        ids = np.array([row.history[-1], *proposals], np.int64)
        accepted = 0
        for logits in decoder.verify(ids):
            yield draw_token(logits[None], row)
            if accepted == len(proposals) or row.history[-1] != proposals[accepted]:
                break
            accepted += 1
            if row.finish_reason is not None:
                break
        decoder.accept(ids, min(1 + accepted, len(ids)))
        self.proposed += len(proposals)
        self.accepted += accepted
        if proposals:
            self._most = min(2 * self._most, MOST_PROPOSED) if accepted == len(proposals) else max(self._most // 2, 1)
