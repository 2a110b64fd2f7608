"""What is minimised where a model learns from preferences; y₊ is the chosen answer to x, and y₋ the rejected one.

DPO (Rafailov et al., 2023): -log σ(r(y₊) - r(y₋)), r(y) = β log π(y|x) / π₀(y|x), where π₀ is the model as it began.
SimPO (Meng et al., 2024): -log σ(r(y₊) - r(y₋) - γ), r(y) = β log π(y|x) / |y|.
ORPO (Hong et al., 2024): -log p(y₊) - λ log σ(r(y₊) - r(y₋)), r(y) = log p(y) / (1 - p(y)), p(y) = π(y|x)^(1/|y|).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from chainrule.layers.lora import without_lora
from chainrule.layers.softmax import LOGITS_AT_ONCE, Candidates
from chainrule.models.contract import IGNORE, Batch, Loss, State
from chainrule.tasks._preference_settings import Settings

CERTAIN = -1e-6  # log p of an answer beyond which its odds are not told apart from infinite ones

Read = Callable[[Tensor], Tensor]  # tokens (rows, time) -> hidden states (rows, time, width)


@dataclass(frozen=True)
class Answers:
    """Of pairs of answers, the chosen one first: log π(y|x) in nats and |y|, the tokens with the end."""

    log_p: Tensor  # (pairs, 2)
    lengths: Tensor  # (pairs, 2)


def losses(settings: Settings, answers: Answers, reference: Tensor | None) -> tuple[Tensor, Tensor]:
    """The loss of each pair, and by how much its chosen answer is ahead, r(y₊) - r(y₋); `reference` has log π₀(y|x)."""
    mean = answers.log_p / answers.lengths
    if settings.method == "orpo":
        sure = mean.clamp(max=CERTAIN)
        margin = _ahead(sure - torch.log(-torch.expm1(sure)))
        return -mean[:, 0] - settings.number("odds_weight") * F.logsigmoid(margin), margin
    if settings.method == "dpo":
        assert reference is not None
        wanted = margin = _ahead(settings.number("beta") * (answers.log_p - reference))
    else:
        margin = _ahead(settings.number("beta") * mean)
        wanted = margin - settings.number("gamma")
    return _smoothed(wanted, settings.label_smoothing) - settings.sft_weight * mean[:, 0], margin


def _ahead(rewards: Tensor) -> Tensor:
    return rewards[:, 0] - rewards[:, 1]


def _smoothed(margin: Tensor, smoothing: float) -> Tensor:
    """-log σ(margin), where a share of the pairs is taken for the wrong way round."""
    return -(1 - smoothing) * F.logsigmoid(margin) - smoothing * F.logsigmoid(-margin)


class Objective:
    """The loss of a batch of pairs, as the training loop asks for it; `reference` has log π₀ of every pair (pairs, 2),
    or is None where the model without its updates is the reference."""

    def __init__(self, model: Any, settings: Settings, reference: Tensor | None = None, read: Read | None = None):
        self.model, self.settings, self._kept = model, settings, reference
        self._read = read

    def __call__(
        self, batch: Batch, state: State | None, candidates: Candidates | None = None
    ) -> tuple[Loss, State | None]:
        """Every row is read from a fresh state, so that the one given stays as it is."""
        answers = self._answers(batch)
        found, _ = losses(self.settings, answers, self._reference(batch))
        return Loss(found.sum(), len(found)), state

    def _answers(self, batch: Batch) -> Answers:
        return read_answers(self.model, batch.inputs, batch.targets, self._read)

    def _reference(self, batch: Batch) -> Tensor | None:
        if not self.settings.has_reference:
            return None
        if self._kept is not None:
            return self._kept[batch.condition["pair"]]
        with torch.no_grad(), without_lora(self.model), evaluating(self.model):
            return self._answers(batch).log_p


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """A context in which nothing of the model drops out."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def read_answers(model: Any, inputs: Any, targets: Any, read: Read | None = None) -> Answers:
    """Of inputs and targets (pairs, 2, time), where only the tokens of the answers are asked for."""
    inputs, targets = torch.as_tensor(inputs).flatten(0, 1), torch.as_tensor(targets).flatten(0, 1).long()
    hidden = model.read(inputs.long(), None)[0] if read is None else read(inputs)
    asked = targets != IGNORE
    rows = torch.nonzero(asked)[:, 0]
    each = _log_probs(model, hidden[asked], targets[asked])
    log_p = each.new_zeros(len(inputs)).index_add(0, rows, each)
    return Answers(log_p.view(-1, 2), asked.sum(1).view(-1, 2))


def _log_probs(model: Any, hidden: Tensor, targets: Tensor) -> Tensor:
    """log p of each target (tokens,), some logits at a time: what a gradient needs of the others is computed again."""
    rows = max(1, LOGITS_AT_ONCE // model.vocabulary_size)
    pieces = zip(hidden.split(rows), targets.split(rows), strict=True)
    if len(targets) <= rows or not torch.is_grad_enabled():
        return torch.cat([_log_p(model, *piece) for piece in pieces])
    each = (checkpoint(_log_p, model, *piece, use_reentrant=False, preserve_rng_state=False) for piece in pieces)
    return torch.cat(list(each))


def _log_p(model: Any, hidden: Tensor, targets: Tensor) -> Tensor:
    return -F.cross_entropy(model.output(hidden).float(), targets, reduction="none")
