"""Sampling: draw one token at a time from the model's filtered distribution, several samples as one batch."""

from collections.abc import Iterator
from dataclasses import dataclass

from chainrule.errors import UserError
from chainrule.generation.batch import SampleBatch, Token
from chainrule.generation.constraint import check_constraint
from chainrule.generation.drafts import Draft
from chainrule.generation.processors import check_bias
from chainrule.generation.prompt import Prompt, Tokenizer, read_prompt
from chainrule.generation.settings import Sampling
from chainrule.generation.speculative import SpeculativeDecoder
from chainrule.models.contract import Steps


@dataclass(frozen=True)
class Generation:
    """A finished text. `ids` and `log_probabilities` include the eos or the tokens of the stop string that ended it."""

    text: str
    ids: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    finish_reason: str
    sample: int = 0
    seed: int | None = None  # reproduces this text together with first_sample=`sample`
    score: float | None = None  # of a beam search


def sample(
    model: Steps,
    tokenizer: Tokenizer,
    prompt: str,
    sampling: Sampling,
    condition: object = None,
    draft: Draft | None = None,
) -> list[Generation]:
    """Draw `sampling.samples` continuations of a prompt; returns them in order, once all are finished."""
    sampling = sampling.seeded()
    tokens: dict[int, list[Token]] = {}
    for token in stream(model, tokenizer, prompt, sampling, condition, draft):
        tokens.setdefault(token.sample, []).append(token)
    return [_gather(tokens[index], sampling.seed) for index in sorted(tokens)]


def stream(
    model: Steps,
    tokenizer: Tokenizer,
    prompt: str,
    sampling: Sampling,
    condition: object = None,
    draft: Draft | None = None,
) -> Iterator[Token]:
    """Yield tokens as they are drawn, those of all samples interleaved. A bad prompt raises before the first token.

    The prompt is read once, whatever the number of samples. To know the seed, pass `sampling.seeded()`. A torch model
    must be in evaluation mode. `condition` is what `model.start` takes, for a batch of one. A `draft` speeds up a
    single sample and does not change its text.
    """
    check_bias(sampling.logit_bias, model.vocabulary_size)
    check_constraint(tokenizer, sampling.constraint)
    read = read_prompt(model, tokenizer, prompt, sampling.truncate)
    if draft is not None:
        if sampling.samples > 1:
            raise UserError(f"a draft is for one sample at a time, got {sampling.samples}; several are a batch already")
        return SpeculativeDecoder(model, tokenizer, draft).stream(read, sampling.seeded(), condition)
    return _stream(model, tokenizer, read, sampling.seeded(), condition)


def _stream(
    model: Steps, tokenizer: Tokenizer, prompt: Prompt, sampling: Sampling, condition: object
) -> Iterator[Token]:
    batch = SampleBatch(model, tokenizer)
    rows = batch.add(prompt, sampling, condition)
    while batch.rows:
        for _, token in sorted(batch.emit(), key=lambda drawn: drawn[0].index):
            yield token
        for row in rows:
            if row.error is not None:
                raise row.error
        batch.advance()


def _gather(tokens: list[Token], seed: int | None) -> Generation:
    reason = tokens[-1].finish_reason
    assert reason is not None
    return Generation(
        text="".join(token.text for token in tokens),
        ids=tuple(token.id for token in tokens),
        log_probabilities=tuple(token.log_probability for token in tokens),
        finish_reason=reason,
        sample=tokens[0].sample,
        seed=seed,
    )
