"""One prediction explained: what holds for any model, and what the model itself adds in its own terms."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace

import numpy as np

from chainrule.analysis.explain import page
from chainrule.analysis.explain.distribution import make_distribution
from chainrule.analysis.explain.importance import weigh
from chainrule.analysis.explain.places import Evidence, find_evidence
from chainrule.analysis.explain.prediction import Prediction
from chainrule.data.shards import TokenShards
from chainrule.errors import UserError
from chainrule.evaluation.score import NATS_PER_BIT
from chainrule.generation import Sampling
from chainrule.generation.processors import LogitsProcessor
from chainrule.generation.prompt import Prompt, read_prompt
from chainrule.models._numpy import step, to_numpy
from chainrule.models.contract import LanguageModel, architecture_of, learns, log_softmax
from chainrule.models.explanation import LooksInside, MatchesContexts
from chainrule.text.base import EOS, Tokenizer

MOST_READ = 1024  # tokens of a text, whatever the model could read
AT_ONCE = 64  # tokens whose logits are held at one time
TOP, SIGHTINGS = 12, 10


@dataclass(frozen=True)
class Explanation(Prediction):
    """An explained prediction that can be shown: as JSON, as a page, and in a notebook."""

    def to_json(self) -> dict[str, object]:
        """Every figure, for programs; `kind` says which terms are in `inside`."""
        values = {each.name: _plain(getattr(self, each.name)) for each in fields(self)}
        return values | {"kind": None if self.inside is None else self.inside.kind}

    def html(self) -> str:
        """A page of its own that loads nothing from elsewhere."""
        return page.render_page(self)

    def _repr_html_(self) -> str:
        return page.render_fragment(self)


def _plain(value: object) -> object:
    """Dataclasses and arrays as the dictionaries and lists that JSON has."""
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, np.ndarray):
        return np.round(value.astype(np.float64), 6).tolist()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def explain(
    model: LanguageModel,
    tokenizer: Tokenizer,
    text: str,
    token: str | int | None = None,
    sampling: Sampling | None = None,
    shards: TokenShards | None = None,
    top: int = TOP,
) -> Explanation:
    """Why `token`, by default the likeliest, comes after `text`.

    `shards` are the training text, where it is kept; `top` is how many of the likeliest tokens are listed.
    """
    prompt, notes = _read(model, tokenizer, text)
    return explain_prompt(model, tokenizer, prompt, token, sampling, shards, top, notes)


def explain_prompt(
    model: LanguageModel,
    tokenizer: Tokenizer,
    prompt: Prompt,
    token: str | int | None = None,
    sampling: Sampling | None = None,
    shards: TokenShards | None = None,
    top: int = TOP,
    notes: Sequence[str] = (),
) -> Explanation:
    """The same for a prompt that is already token ids, including ids that no text would give."""
    ids, notes = prompt.ids, list(notes)
    surprise, logits = _surprise(model, ids)
    possible = logits if prompt.allowed is None else np.where(prompt.allowed, logits, -np.inf)
    if not model.is_normalised:
        notes.append(
            "its scores do not sum to one: the distribution is normalised, but surprisal and ladder show the scores "
            "themselves"
        )
    chosen = _find(tokenizer, token, logits, notes) if isinstance(token, str) else token
    chosen = int(possible.argmax()) if chosen is None else chosen
    sampling = sampling or Sampling(temperature=1.0)
    processed = LogitsProcessor(sampling, ids.tolist(), (tokenizer.eos,))(possible)
    importance = weigh(model, ids, chosen)
    if learns(model) and importance.gradient is None:
        notes.append("importance by gradient is not available, as this model declares no token embedding")
    return Explanation(
        model=architecture_of(model),
        text=prompt.text,
        tokens=[tokenizer.token_text(int(id)) for id in ids],
        token=tokenizer.token_text(chosen),
        probability=float(np.exp(log_softmax(logits)[chosen])),
        surprise=surprise,
        distribution=make_distribution(possible, processed, tokenizer, sampling, top),
        importance=importance,
        inside=model.look_inside(ids, chosen, tokenizer.token_text) if isinstance(model, LooksInside) else None,
        evidence=_evidence(model, ids, chosen, tokenizer, shards),
        separator=" " if tokenizer.joins_with_spaces else "",
        notes=notes,
    )


def _read(model: LanguageModel, tokenizer: Tokenizer, text: str) -> tuple[Prompt, list[str]]:
    """The prompt as `sample` reads it, and notes on what was changed: a space at its end, its beginning, its words."""
    prompt = read_prompt(model, tokenizer, text, truncate=True)
    notes = []
    if prompt.allowed is not None:
        notes.append(
            "the space at the end belongs to the next token: the distribution has only tokens that begin with a space, "
            "and all other figures are for the text without it"
        )
    if len(prompt.ids) > MOST_READ:
        prompt = replace(prompt, ids=prompt.ids[-MOST_READ:])
    if prompt.length > len(prompt.ids):
        notes.append(f"the text has {prompt.length:,} tokens, of which the last {len(prompt.ids):,} were read")
    if tokenizer.unknown is not None and (unknown := int((prompt.ids == tokenizer.unknown).sum())):
        notes.append(f"{unknown:,} words of the text are not in the vocabulary; they are read as <unk>")
    return prompt, notes


def _surprise(model: LanguageModel, ids: np.ndarray) -> tuple[list[float], np.ndarray]:
    """Bits of every token after the first, and the logits (vocabulary) of what comes after the last."""
    bits: list[float] = []
    state = model.start(1)
    for begin in range(0, len(ids), AT_ONCE):
        logits, state = step(model, ids[None, begin : begin + AT_ONCE], state)
        found = to_numpy(logits)[0]
        following = ids[begin + 1 : begin + AT_ONCE + 1]
        scored = found if not model.is_normalised else log_softmax(found)
        bits += np.abs(scored[np.arange(len(following)), following] / NATS_PER_BIT).tolist()
    return bits, found[-1]


def _find(tokenizer: Tokenizer, token: str, logits: np.ndarray, notes: list[str]) -> int:
    """The id of a token given as text, with or without a space in front, whichever is likelier."""
    if token in (EOS, tokenizer.end):
        return tokenizer.eos
    spelled = [ids for each in (f" {token}", token) if token and len(ids := tokenizer.encode_within(each))]
    if not spelled:
        raise UserError(f"the text {token!r} is not a token; give the token to explain")
    fewest = min(map(len, spelled))
    ids = max((ids for ids in spelled if len(ids) == fewest), key=lambda ids: logits[ids[0]])
    if fewest > 1:
        first = tokenizer.token_text(int(ids[0]))
        notes.append(f"'{token}' is {fewest} tokens; the first of them, {first!r}, is explained")
    if int(ids[0]) == tokenizer.unknown:
        notes.append(f"'{token}' is not in the vocabulary; <unk> is explained in its place")
    return int(ids[0])


def _evidence(
    model: LanguageModel, ids: np.ndarray, token: int, tokenizer: Tokenizer, shards: TokenShards | None
) -> Evidence | None:
    """Where the training text has the context; None where the text is not kept, or no context was met."""
    if shards is None or not isinstance(model, MatchesContexts):
        return None
    context = model.matched_context(ids)
    return find_evidence(shards, tokenizer, context, token, SIGHTINGS) if context else None
