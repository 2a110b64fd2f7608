"""From the prompt of a request, as text or ids, to the job that the scheduler runs for it."""

from dataclasses import dataclass, field

import numpy as np

from chainrule.errors import UserError
from chainrule.generation import Sampling
from chainrule.generation.batch import TopTokens, top_tokens
from chainrule.generation.decoder import NOT_FINITE
from chainrule.generation.processors import check_bias
from chainrule.generation.prompt import Prompt, read_prompt
from chainrule.models.contract import log_softmax
from chainrule.serving.errors import APIError
from chainrule.serving.jobs import SamplingJob
from chainrule.serving.model_provider import ServedModel
from chainrule.serving.tokens import check_ids

CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"


@dataclass
class PromptLogprobs:
    """The log-probabilities of a prompt's own tokens, except the first: collected during prefill."""

    ids: np.ndarray  # all tokens that are read
    alternatives: int
    log_probabilities: list[float] = field(default_factory=list)
    top: list[TopTokens] = field(default_factory=list)

    def add(self, logits: np.ndarray) -> None:
        """Logits (time, vocabulary) for the tokens that follow those added so far."""
        begin = len(self.log_probabilities) + 1
        following = self.ids[begin : begin + len(logits)]
        if len(following) == 0:
            return
        scores = log_softmax(logits[: len(following)])
        if np.isnan(scores).any():
            raise UserError(NOT_FINITE)
        self.log_probabilities += scores[np.arange(len(following)), following].tolist()
        self.top += top_tokens(scores, np.zeros(len(scores)), self.alternatives)


@dataclass
class PromptRequest:
    """One prompt of a request: its tokens as the client counts them, and the job that continues it."""

    job: SamplingJob
    text: str
    ids: list[int]  # without the <eos> before every text, unless the client gave it
    logprobs: PromptLogprobs | None

    def echoed(self) -> tuple[list[float | None], list[TopTokens | None]]:
        """The log-probability and the most likely tokens at each of `ids`; None at the first."""
        assert self.logprobs is not None
        if not self.ids:
            return [], []
        scores, top = self.logprobs.log_probabilities, self.logprobs.top
        first = len(scores) - (len(self.ids) - 1)
        return [None, *scores[first:]], [None, *top[first:]]


def make_request(
    served: ServedModel,
    prompt: str | list[int] | Prompt,
    sampling: Sampling | None,
    wants_logprobs: bool = False,
    alternatives: int = 0,
    field: str = "prompt",
) -> PromptRequest:
    """Text is read after an <eos>, as by `chainrule sample`; ids are read as they are; a `Prompt` is encoded already.

    Where log-probabilities of the prompt's own tokens are wanted, a space at its end is one of them; otherwise it is
    healed (see generation/prompt.py).
    """
    if sampling is not None:
        try:
            check_bias(sampling.logit_bias, served.tokenizer.vocabulary_size)
        except UserError as error:
            raise APIError.from_user_error(error, "invalid_value", "logit_bias") from None
    if isinstance(prompt, str):
        read = _read_text(served, prompt, not wants_logprobs, field)
        ids = [id for id in read.ids.tolist() if id != served.tokenizer.eos]  # which no text contains
    elif isinstance(prompt, Prompt):
        read = prompt
        ids = read.ids.tolist()
        ids = ids[1:] if ids[0] == served.tokenizer.eos else ids
    else:
        read = read_ids(served, prompt, field)
        ids = prompt
    logprobs = PromptLogprobs(read.ids, alternatives) if wants_logprobs else None
    job = SamplingJob(served, read, sampling, logprobs.add if logprobs else None)
    return PromptRequest(job, read.text, ids, logprobs)


def _read_text(served: ServedModel, text: str, heals: bool, field: str) -> Prompt:
    try:
        return read_prompt(served.model, served.tokenizer, text, truncate=False, heals=heals)
    except UserError as error:
        raise APIError.from_user_error(error, CONTEXT_LENGTH_EXCEEDED, field) from None


def read_ids(served: ServedModel, ids: list[int], field: str = "prompt", may_be_long: bool = False) -> Prompt:
    """A prompt of ids, which must be in the vocabulary and, unless `may_be_long`, fit into the model's context."""
    check_ids(served.tokenizer, ids, field)
    if served.context_length is not None and len(ids) > served.context_length and not may_be_long:
        sentence = f"the prompt has {len(ids)} tokens but this model reads {served.context_length}; shorten it"
        raise APIError(400, sentence, CONTEXT_LENGTH_EXCEEDED, field)
    return Prompt(np.array(ids, np.int64), served.tokenizer.decode(ids))
