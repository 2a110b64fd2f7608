"""Reading prompts that go on from one another, as those of a conversation do: what was read is not read again."""

from collections.abc import Iterator

import numpy as np

from chainrule.generation.decoder import Decoder
from chainrule.generation.prompt import Prompt
from chainrule.models.contract import Steps


class PromptReader:
    """Keeps the state after the last prompt and the one after its continuation, and goes on from either if it can.

    `decoder` has read the latest prompt once `read` is done; whoever continues the prompt appends to it.
    """

    def __init__(self, model: Steps) -> None:
        self._model = model
        self._prompt: Decoder | None = None  # a state right after the prompt
        self.decoder: Decoder | None = None
        self.tokens_read = 0  # of the latest prompt: what was new in it, and as far back as the model looks

    def read(self, prompt: Prompt) -> Iterator[None]:
        """Read a prompt in chunks, with a pause before each in which the caller may give up."""
        decoder = self._begin(prompt)
        self.tokens_read = decoder.unread
        self._prompt = self.decoder = None  # a reading that is given up leaves nothing behind
        yield
        while decoder.prefill_next():
            yield
        if prompt.allowed is None:  # else its logits are for this prompt alone
            self._prompt = decoder
        self.decoder = decoder.branch()

    def _begin(self, prompt: Prompt) -> Decoder:
        for kept in (self.decoder, self._prompt):
            if kept is not None and prompt.allowed is None and _goes_on(prompt.ids, kept):
                kept.extend(prompt.ids[kept.length :])
                return kept
        return Decoder(self._model, prompt.ids, allowed=prompt.allowed, is_chunked=True)


def _goes_on(ids: np.ndarray, decoder: Decoder) -> bool:
    """Whether tokens begin with all that a decoder has read, and it has room for the rest."""
    length = decoder.length
    is_longer = decoder.has_read_all and length <= len(ids) and len(ids) - length <= decoder.room
    return is_longer and np.array_equal(decoder.history[0], ids[:length])
