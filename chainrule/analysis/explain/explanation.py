"""One prediction explained: what any model can say of it, and what its own kind can say beyond that."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.analysis.explain import mixture
from chainrule.analysis.explain.die import Die, make_die
from chainrule.analysis.explain.importance import Importance, weigh
from chainrule.analysis.explain.ladder import Ladder, climb_down, matched
from chainrule.analysis.explain.places import Evidence, find_evidence
from chainrule.data.shards import TokenShards
from chainrule.errors import UserError
from chainrule.evaluation.score import NATS_PER_BIT
from chainrule.generation import Sampling
from chainrule.generation.prompt import Prompt, read_prompt
from chainrule.models import infinigram, mix, ngram
from chainrule.models._numpy import step, to_numpy
from chainrule.models.contract import LanguageModel, architecture_of, learns, log_softmax
from chainrule.text.base import Tokenizer

if TYPE_CHECKING:
    from chainrule.analysis.explain import gates, positions, transformer

    Inside = Ladder | mixture.Inside | gates.Inside | positions.Inside | transformer.Inside | None

MOST_READ = 1024  # tokens of a text, whatever the model could
AT_ONCE = 64  # tokens whose logits are held at one time
FACES, SIGHTINGS = 12, 10


@dataclass(frozen=True)
class Explanation:
    """Why `token` after `text`. Lists of figures are about tokens[1:]: before the first, the <eos> that begins a text,
    or the first word of a text too long, nothing was read."""

    model: str  # the kind
    text: str
    tokens: list[str]
    token: str
    probability: float
    surprise: list[float]  # bits of each token, before it came
    die: Die
    importance: Importance
    inside: "Inside" = None
    evidence: Evidence | None = None
    separator: str = ""  # what stands between tokens that are words
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = _plain(self)
        return found

    def html(self) -> str:
        """A page of its own, with nothing from elsewhere."""
        from chainrule.analysis.explain.page import page

        return page(self)

    def _repr_html_(self) -> str:
        from chainrule.analysis.explain.page import fragment

        return fragment(self)


def _plain(value: Any) -> Any:
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
    faces: int = FACES,
) -> Explanation:
    """Why `token`, or else the likeliest, comes after `text`. `shards` are the training text, where it is kept."""
    prompt, notes = _read(model, tokenizer, text)
    return explain_prompt(model, tokenizer, prompt, token, sampling, shards, faces, notes)


def explain_prompt(
    model: LanguageModel,
    tokenizer: Tokenizer,
    prompt: Prompt,
    token: str | int | None = None,
    sampling: Sampling | None = None,
    shards: TokenShards | None = None,
    faces: int = FACES,
    notes: Sequence[str] = (),
) -> Explanation:
    """The same of a prompt as it is, ids that no text would give included."""
    ids, notes = prompt.ids, list(notes)
    surprise, logits = _surprise(model, ids)
    possible = logits if prompt.allowed is None else np.where(prompt.allowed, logits, -np.inf)
    if not model.is_normalised:
        notes.append(
            "its scores do not sum to one: the die is made of them, surprise and ladder are of the scores themselves"
        )
    chosen = _find(tokenizer, token, logits, notes) if isinstance(token, str) else token
    chosen = int(possible.argmax()) if chosen is None else chosen
    seen = np.zeros(len(logits), bool)
    seen[ids] = True
    seen[tokenizer.eos] = False  # as samples have it: the boundary is not text
    inside, evidence = _look_inside(model, ids, chosen, tokenizer, shards)
    return Explanation(
        model=architecture_of(model),
        text=prompt.text,
        tokens=[tokenizer.token_text(int(id)) for id in ids],
        token=tokenizer.token_text(chosen),
        probability=float(np.exp(log_softmax(logits)[chosen])),
        surprise=surprise,
        die=make_die(possible, tokenizer, sampling or Sampling(), seen, faces),
        importance=weigh(model, ids, chosen),
        inside=inside,
        evidence=evidence,
        separator=" " if tokenizer.joins_with_spaces else "",
        notes=notes,
    )


def _read(model: LanguageModel, tokenizer: Tokenizer, text: str) -> tuple[Prompt, list[str]]:
    """What the model reads, as `sample` would have it: a space at the end may be taken back for the next token."""
    prompt = read_prompt(model, tokenizer, text, truncate=True)
    count = len(tokenizer.encode(text))
    notes = []
    if prompt.allowed is not None:
        notes.append(
            "the space at the end is taken for the beginning of the next token: the die has only faces that begin with "
            "one, and all other figures are of the text without it"
        )
    if len(prompt.ids) > MOST_READ:
        prompt = replace(prompt, ids=prompt.ids[-MOST_READ:])
    if count > len(prompt.ids):
        notes.append(f"the text has {count:,} tokens, of which the last {len(prompt.ids):,} were read")
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
    """The id that a text stands for, with or without a space in front, whichever is likelier."""
    if token == tokenizer.token_text(tokenizer.eos):
        return tokenizer.eos
    spelled = [ids for each in (token, f" {token}") if token and len(ids := tokenizer.encode(each))]
    if not spelled:
        raise UserError(f"--token {token!r} holds no token; give the one whose probability is to be explained")
    fewest = min(map(len, spelled))
    ids = max((ids for ids in spelled if len(ids) == fewest), key=lambda ids: logits[ids[0]])
    if fewest > 1:
        first = tokenizer.token_text(int(ids[0]))
        notes.append(f"'{token}' is {fewest} tokens; the first of them, {first!r}, is explained")
    if int(ids[0]) == tokenizer.unknown:
        notes.append(f"'{token}' is not in the vocabulary; <unk> is explained in its place")
    return int(ids[0])


def _look_inside(
    model: Any, ids: np.ndarray, token: int, tokenizer: Tokenizer, shards: TokenShards | None
) -> tuple["Inside", Evidence | None]:
    if isinstance(model, ngram.Model):
        evidence = _evidence(shards, tokenizer, matched(model, ids), token)
        return climb_down(model, ids, token, tokenizer), evidence
    if isinstance(model, infinigram.Model):
        read = ids[-model.config.context_length :]
        length, _ = model.evidence(read)
        return None, _evidence(shards, tokenizer, read[len(read) - length :].tolist(), token)
    if isinstance(model, mix.Model):
        return mixture.look_inside(model, ids, token), None
    if not learns(model):
        return None, None
    from chainrule.analysis.explain import gates, positions, transformer
    from chainrule.models import transformer as transformer_model
    from chainrule.models._recurrent import RecurrentModel

    if isinstance(model, transformer_model.Model):
        return transformer.look_inside(model, ids, token, tokenizer), None
    if isinstance(model, RecurrentModel):
        return gates.look_inside(model, ids, token), None
    return positions.look_inside(model, ids, token), None


def _evidence(shards: TokenShards | None, tokenizer: Tokenizer, context: list[int], token: int) -> Evidence | None:
    """None where the text is not kept, or there is no context: that stands everywhere."""
    if shards is None or not context:
        return None
    return find_evidence(shards, tokenizer, context, token, SIGHTINGS)
