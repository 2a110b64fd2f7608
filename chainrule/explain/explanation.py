"""One prediction explained: what any model can say of it, and what its own kind can say beyond that."""

from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.data.shards import TokenShards
from chainrule.errors import UserError
from chainrule.evaluation.score import NATS_PER_BIT
from chainrule.explain import mixture
from chainrule.explain.die import Die, make_die
from chainrule.explain.importance import Importance, weigh
from chainrule.explain.ladder import Ladder, climb_down, matched
from chainrule.explain.places import Evidence, find_evidence
from chainrule.generation import Sampling
from chainrule.generation.decoder import Decoder
from chainrule.models import infinigram, mix, ngram
from chainrule.models.base import LanguageModel, log_softmax
from chainrule.text.base import Tokenizer

if TYPE_CHECKING:
    from chainrule.explain import gates, positions, transformer

    Inside = Ladder | mixture.Inside | gates.Inside | positions.Inside | transformer.Inside | None

MOST_READ = 2048  # tokens of a text, for models that would read any number
FACES, SIGHTINGS = 12, 10


@dataclass(frozen=True)
class Explanation:
    """Why `token` after `text`. Lists of figures are about tokens[1:]: the first is the <eos> that begins a text."""

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
        from chainrule.explain.page import page

        return page(self)

    def _repr_html_(self) -> str:
        from chainrule.explain.page import fragment

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
    token: str | None = None,
    sampling: Sampling | None = None,
    shards: TokenShards | None = None,
    faces: int = FACES,
    kind: str = "",
) -> Explanation:
    """Why `token`, or else the likeliest, comes after `text`. `shards` are the training text, where it is kept."""
    ids, notes = _read(model, tokenizer, text)
    logits = Decoder(model, ids).logits[0]
    chances = np.exp(log_softmax(logits))
    chosen = int(chances.argmax()) if token is None else _find(tokenizer, token, chances, notes)
    seen = np.zeros(len(logits), bool)
    seen[ids] = True
    surprise = np.abs(model.score(ids.astype(np.uint32)).astype(np.float64)) / NATS_PER_BIT  # never -0.0
    inside, evidence = _look_inside(model, ids, chosen, tokenizer, shards)
    return Explanation(
        model=kind or type(model).__module__.rpartition(".")[2],
        text=text,
        tokens=[tokenizer.token_text(int(id)) for id in ids],
        token=tokenizer.token_text(chosen),
        probability=float(chances[chosen]),
        surprise=surprise.tolist(),
        die=make_die(logits, tokenizer, sampling or Sampling(), seen, faces),
        importance=weigh(model, ids, chosen),
        inside=inside,
        evidence=evidence,
        separator=" " if tokenizer.joins_with_spaces else "",
        notes=notes,
    )


def _read(model: LanguageModel, tokenizer: Tokenizer, text: str) -> tuple[np.ndarray, list[str]]:
    """The tokens that the model reads: those of the text after an <eos>, or the last of them."""
    notes = []
    if text.endswith(" ") and not tokenizer.joins_with_spaces:
        text = text.rstrip(" ")
        notes.append("the space at the end was left off: it belongs to the token that comes next")
    ids = np.concatenate([[tokenizer.eos], tokenizer.encode(text)]).astype(np.int64)
    reads = min(getattr(model, "context_length", None) or MOST_READ, MOST_READ)
    if len(ids) > reads:
        notes.append(f"the text has {len(ids) - 1:,} tokens, of which the last {reads:,} were read")
        ids = ids[-reads:]
    return ids, notes


def _find(tokenizer: Tokenizer, token: str, chances: np.ndarray, notes: list[str]) -> int:
    """The id that a text stands for, with or without a space in front, whichever is likelier."""
    if token == tokenizer.token_text(tokenizer.eos):
        return tokenizer.eos
    spelled = [ids for each in (token, f" {token}") if token and len(ids := tokenizer.encode(each))]
    if not spelled:
        raise UserError("--token is empty; give the token whose probability is to be explained")
    fewest = min(map(len, spelled))
    ids = max((ids for ids in spelled if len(ids) == fewest), key=lambda ids: chances[ids[0]])
    if fewest > 1:
        first = tokenizer.token_text(int(ids[0]))
        notes.append(f"'{token}' is {fewest} tokens; the first of them, {first!r}, is explained")
    return int(ids[0])


def _look_inside(
    model: Any, ids: np.ndarray, token: int, tokenizer: Tokenizer, shards: TokenShards | None
) -> tuple["Inside", Evidence | None]:
    if isinstance(model, ngram.Model):
        evidence = _evidence(shards, tokenizer, matched(model, ids), token)
        return climb_down(model, ids, token, tokenizer), evidence
    if isinstance(model, infinigram.Model):
        length, _ = model.evidence(ids)
        return None, _evidence(shards, tokenizer, ids[len(ids) - length :].tolist(), token)
    if isinstance(model, mix.Model):
        return mixture.look_inside(model, ids, token), None
    if not hasattr(model, "parameters"):
        return None, None
    from chainrule.explain import gates, positions, transformer
    from chainrule.models import transformer as transformer_model
    from chainrule.models._recurrent import RecurrentModel

    if isinstance(model, transformer_model.Model):
        return transformer.look_inside(model, ids, token, tokenizer), None
    if isinstance(model, RecurrentModel):
        return gates.look_inside(model, ids, token), None
    return positions.look_inside(model, ids, token), None


def _evidence(shards: TokenShards | None, tokenizer: Tokenizer, context: list[int], token: int) -> Evidence | None:
    return None if shards is None else find_evidence(shards, tokenizer, context, token, SIGHTINGS)
