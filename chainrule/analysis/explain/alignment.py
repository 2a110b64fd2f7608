"""Why a translation says what it says: where each of its words looked, what each source word did for it, and what else
was in the beam.

Attention is where the decoder looked; attribution is what it made of it: integrated gradients of log p(y_t | y_<t, x)
along the line from average source vectors to the real ones, so that a row adds up to what the source did for that word.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.errors import UserError
from chainrule.generation.beam import Beam, BeamStep
from chainrule.models.contract import State
from chainrule.tasks._pairs import PairTask
from chainrule.text.base import Tokenizer

FEWEST_STEPS, MOST_STEPS = 8, 256  # on the line from no source to the source
EXACT = 0.05  # nats by which a row may miss what it should add up to, before there are more steps
LOGITS_AT_ONCE = 1 << 24
WIDTH = 5

Condition: TypeAlias = Mapping[str, np.ndarray]  # of one row: source (1, places) and lengths (1,)


class ReadsSource(Protocol):
    """What is asked of a model that writes one text from another."""

    vocabulary_size: int

    @property
    def source_table(self) -> nn.Embedding: ...

    def source_vectors(self, condition: Condition) -> tuple[Tensor, Tensor]: ...

    def begin_from(self, vectors: Tensor, lengths: Tensor, is_continued: bool) -> State: ...

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State | None]: ...

    def output(self, hidden: Tensor) -> Tensor: ...

    def alignment(self, condition: Condition, targets: np.ndarray) -> Tensor | None: ...


@dataclass(frozen=True)
class Branch:
    """One beginning of the beam: its last token, how likely all of it is, and where it comes from and leads to."""

    token: str
    total: float  # log-probability of the whole beginning
    parent: int | None  # among those of the step before
    is_ended: bool
    is_best: bool  # whether the text that was chosen begins so


@dataclass(frozen=True)
class Translated:
    """A translation, and what led to each of its tokens."""

    asked: str  # the text that was given
    source: list[str]  # tokens, the end of the sentence included
    target: list[str]
    text: str
    probabilities: list[float]  # of the target's tokens
    attention: np.ndarray | None  # (target, source), rows sum to one; None: this model has none
    attribution: np.ndarray  # (target, source), in nats
    beam: list[list[Branch]]  # step by step

    def to_json(self) -> dict[str, object]:
        """Every figure, for programs."""
        return {
            "source": self.source,
            "target": self.target,
            "text": self.text,
            "probabilities": self.probabilities,
            "attention": None if self.attention is None else np.round(self.attention, 6).tolist(),
            "attribution": np.round(self.attribution, 6).tolist(),
            "beam": [[asdict(branch) for branch in step] for step in self.beam],
        }


def explain_translation(task: PairTask, model: ReadsSource, text: str, width: int = WIDTH) -> Translated:
    """Translate a text by beam search, and tell where each token of the translation comes from."""
    if not text.strip():
        raise UserError("the text is empty, so there is nothing to translate; write one")
    source, longest = task.encode_source(text), task.longest(model)
    if len(source) > longest:
        raise UserError(f"the text has {len(source)} tokens but this model reads {longest}; shorten it")
    written = task.write(model, [text], Beam(width=width))[0]
    best = written.found[0]
    condition = task.condition([source])
    eos = task.tokenizer.eos
    read = np.array([[eos, *best.ids[:-1]]])
    attention = model.alignment(condition, read)
    source_text, target_text = task.source_tokenizer.token_text, task.tokenizer.token_text
    return Translated(
        asked=text,
        source=[source_text(int(id)) for id in condition["source"][0]],
        target=[target_text(id) for id in best.ids],
        text=written.texts[0],
        probabilities=np.exp(best.log_probabilities).tolist(),
        attention=None if attention is None else attention[0].numpy(),
        attribution=attribute(model, condition, read, np.array(best.ids)),
        beam=_tree(written.steps, best.ids, target_text),
    )


def attribute(model: ReadsSource, condition: Condition, read: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """What each place of the source adds to log p of each wanted token: (target, source)."""
    line = _Line(model, condition, torch.from_numpy(read), torch.from_numpy(wanted))
    with torch.no_grad():
        nothing, all_of_it = line.chances(torch.tensor([0.0, 1.0]))[0]
    steps = FEWEST_STEPS
    while True:
        found = line.integrate(steps)
        if steps >= MOST_STEPS or float((found.sum(1) - (all_of_it - nothing)).abs().max()) <= EXACT:
            return found.numpy()
        steps *= 2


class _Line:
    """The straight line from average source vectors (share 0) to the real ones (share 1)."""

    def __init__(self, model: ReadsSource, condition: Condition, read: Tensor, wanted: Tensor):
        self.model, self.read, self.wanted = model, read, wanted
        vectors, self.lengths = model.source_vectors(condition)
        self.average = model.source_table.weight.detach().mean(0)
        self.way = vectors.detach() - self.average  # (1, places, width)

    def chances(self, shares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log p of each wanted token at these shares (shares, target), the hidden vectors, and the points."""
        points = (self.average + shares[:, None, None] * self.way).requires_grad_()  # (shares, places, width)
        state = self.model.begin_from(points, self.lengths.expand(len(shares)), is_continued=False)
        hidden, _ = self.model.read(self.read.expand(len(shares), -1), state)
        places = torch.arange(len(self.wanted))
        return self.model.output(hidden).log_softmax(-1)[:, places, self.wanted], hidden, points

    def integrate(self, steps: int) -> Tensor:
        """The slopes along the line, added up: (target, places). Points are dense at its beginning, at share = s²,
        where little of the source decides much."""
        logits = len(self.wanted) * self.model.vocabulary_size
        parts = ((torch.arange(steps) + 0.5) / steps).split(max(LOGITS_AT_ONCE // logits, 1))
        return torch.stack([self._add_up(s, 1 / steps) for s in parts]).sum(0)

    def _add_up(self, s: Tensor, step: float) -> Tensor:
        chances, hidden, points = self.chances(s * s)
        # Each chance hangs on the hidden vector of its own place alone, so all of these slopes are found at once.
        in_hidden = torch.autograd.grad(chances.sum(), hidden, retain_graph=True)[0]
        weights = (2 * s * step)[:, None, None]  # d(s²)
        rows = []
        for place in range(len(self.wanted)):
            slopes = torch.autograd.grad(hidden[:, place], points, in_hidden[:, place], retain_graph=True)[0]
            rows.append(((slopes * weights).sum(0) * self.way[0]).sum(-1))
        return torch.stack(rows)


def _tree(steps: list[BeamStep], best: tuple[int, ...], name: Callable[[int], str]) -> list[list[Branch]]:
    """The beam step by step. Beginnings that ended go no further, so parents are counted among those that went on."""
    tree: list[list[Branch]] = []
    histories: list[list[int]] = [[]]
    places: list[int | None] = [None]
    for step in steps:
        branches, going_on, next_places = [], [], []
        for place, (parent, id, total, is_ended) in enumerate(
            zip(step.parents, step.ids, step.totals, step.is_ended, strict=True)
        ):
            history = [*histories[parent], id]
            branches.append(Branch(name(id), total, places[parent], is_ended, tuple(history) == best[: len(history)]))
            if not is_ended:
                going_on.append(history)
                next_places.append(place)
        tree.append(branches)
        histories, places = going_on, list(next_places)
    return tree


def link_words(task: PairTask, model: ReadsSource, source: str, target: str) -> str:
    """Which word of the source each word of the target looked at most, as '0-0 1-2': source first, counted from 0.

    Words are separated by spaces; the weights of a word's tokens are added up.
    """
    if not source.strip() or not target.strip():
        return ""
    ids, said = task.encode_source(source)[: task.longest(model)], task.encode_target(target)
    weights = model.alignment(task.condition([ids]), np.concatenate([[task.tokenizer.eos], said[:-1]])[None])
    if weights is None:
        return ""
    places = _words(ids, task.source_tokenizer)
    words = _words(said, task.tokenizer)
    by_word = np.zeros((max(words) + 1, max(places) + 1))
    np.add.at(by_word, (np.array(words)[:, None], np.array(places)), weights[0, :, : len(places)].numpy())
    return " ".join(f"{int(row.argmax())}-{number}" for number, row in enumerate(by_word))


def _words(ids: np.ndarray, tokenizer: Tokenizer) -> list[int]:
    """The number of the word that each token belongs to; every word begins with a space."""
    starts = [tokenizer.token_bytes[int(id)].startswith(b" ") or tokenizer.joins_with_spaces for id in ids]
    return np.maximum(np.cumsum(starts) - 1, 0).tolist()
