"""Sampling: draw one token at a time from the model's filtered distribution, several samples as one batch."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chainrule.errors import UserError
from chainrule.generation.batch import Batch, Token
from chainrule.generation.drafts import Draft
from chainrule.generation.prompt import Prompt, Tokenizer, read_prompt
from chainrule.generation.settings import Sampling
from chainrule.generation.speculative import Speculation
from chainrule.models.contract import Steps


@dataclass(frozen=True)
class Generation:
    """A finished text. `ids` and `log_probabilities` include the eos, or the stop string, that ended it."""

    text: str
    ids: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    finish_reason: str
    sample: int = 0
    seed: int | None = None  # with `sample` as first_sample, draws this text again
    score: float | None = None  # what beam search ranks by


def sample(
    model: Steps,
    tokenizer: Tokenizer,
    prompt: str,
    sampling: Sampling,
    condition: Any = None,
    draft: Draft | None = None,
) -> list[Generation]:
    """Every sample once it is finished, in order."""
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
    condition: Any = None,
    draft: Draft | None = None,
) -> Iterator[Token]:
    """Tokens as they come, those of all samples interleaved. A bad prompt is refused before the first one.

    The prompt is read once, whatever the number of samples. To know the seed, pass `sampling.seeded()`. A
    torch model must be in evaluation mode. `condition` is what `model.start` takes, for a batch of one. A `draft` makes
    one sample faster and changes nothing of it.
    """
    read = read_prompt(model, tokenizer, prompt, sampling.truncate)
    if draft is not None:
        if sampling.samples > 1:
            raise UserError(f"a draft is for one sample at a time, got {sampling.samples}; several are a batch already")
        return Speculation(model, tokenizer, draft).stream(read, sampling.seeded(), condition)
    return _stream(model, tokenizer, read, sampling.seeded(), condition)


def _stream(model: Steps, tokenizer: Tokenizer, prompt: Prompt, sampling: Sampling, condition: Any) -> Iterator[Token]:
    batch = Batch(model, tokenizer)
    rows = batch.add(prompt, sampling, condition)
    while batch.rows:
        for _, token in sorted(batch.roll(), key=lambda found: found[0].index):
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
