"""How well a model tells better answers from worse ones, and what it thought of them before it learned: log π₀."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.data.buckets import group_by_size
from chainrule.progress import progress
from chainrule.storage import load_arrays, save_arrays
from chainrule.tasks._preference_rows import PairRows
from chainrule.tasks._preference_settings import Settings

REFERENCE = "reference.safetensors"  # in the folder of a run: log π₀ of the pairs of each part (pairs, 2)
AT_ONCE = 4096  # tokens that are read together


@dataclass(frozen=True)
class PairFigures:
    """The means over some pairs; without a reference that the method needs, there are no loss and no margin."""

    loss: float | None  # what is minimised
    margin: float | None  # by how much the chosen answer is ahead, as the method counts
    accuracy: float | None  # the share of pairs in which it is ahead; a tie counts half
    likelier: float  # the share of pairs whose chosen answer is the likelier one, whatever it was before
    chosen_nats: float  # of all chosen answers
    chosen_tokens: int


def measure_pairs(
    model: Any, rows: PairRows, pairs: np.ndarray, settings: Settings, reference: np.ndarray | None, padding: int
) -> PairFigures:
    """Figures of some pairs by their numbers; `reference` has log π₀ of all pairs (pairs, 2)."""
    import torch

    from chainrule.tasks._preference_loss import Answers, losses

    log_p, lengths = log_probs_of(model, rows, pairs, padding)
    chosen = rows.chosen
    likelihoods = log_p if settings.has_reference else log_p / lengths
    nats, tokens = -float(log_p[:, 0].sum()), int(sum(chosen.is_asked[pair].sum() for pair in pairs))
    likelier = _share_ahead(likelihoods[:, 0] - likelihoods[:, 1])
    if settings.has_reference and reference is None:
        return PairFigures(None, None, None, likelier, nats, tokens)
    before = None if reference is None else torch.from_numpy(reference[pairs].astype(np.float64))
    answers = Answers(torch.from_numpy(log_p), torch.from_numpy(lengths))
    loss, margin = (each.numpy() for each in losses(settings, answers, before))
    return PairFigures(float(loss.mean()), float(margin.mean()), _share_ahead(margin), likelier, nats, tokens)


def _share_ahead(margins: np.ndarray) -> float:
    return float((margins > 0).mean() + (margins == 0).mean() / 2)


def log_probs_of(
    model: Any, rows: PairRows, pairs: np.ndarray, padding: int, title: str = ""
) -> tuple[np.ndarray, np.ndarray]:
    """log π(y|x) of both answers of some pairs, and how many tokens each has: (pairs, 2) of float64 each. With a title,
    there is a progress bar."""
    import torch

    from chainrule.tasks._preference_loss import evaluating, read_answers

    log_p, lengths = np.zeros((len(pairs), 2)), np.zeros((len(pairs), 2))
    shown = progress(title, len(pairs) if title else 0, "pairs")
    with torch.no_grad(), evaluating(model), shown as advance:
        for places in group_by_size(rows.sizes[pairs].tolist(), AT_ONCE):
            batch = rows.batch(pairs[places], padding)
            answers = read_answers(model, batch.inputs, batch.targets)
            log_p[places], lengths[places] = answers.log_p.numpy(), answers.lengths.numpy()
            advance(len(places))
    return log_p, lengths


def load_reference(folder: Path) -> dict[str, np.ndarray]:
    """What was kept of the model as training began: log π₀ by the name of the part; of other methods, nothing."""
    path = folder / REFERENCE
    return load_arrays(path)[0] if path.is_file() else {}


def keep_reference(folder: Path, model: Any, parts: Mapping[str, PairRows], padding: int) -> dict[str, np.ndarray]:
    """log π₀ of the pairs of these parts: from the disk, or computed with this model, as training begins, and kept."""
    known = load_reference(folder)
    if not parts.keys() <= known.keys():
        for name, rows in parts.items():
            log_p, _ = log_probs_of(model, rows, np.arange(len(rows)), padding, f"reference of the {name} part")
            known[name] = log_p.astype(np.float32)
        new = folder / f"{REFERENCE}.tmp"
        save_arrays(new, known)
        new.replace(folder / REFERENCE)
    return known
