"""Symptoms of a training that goes wrong, found in its records alone.

The warnings during training and the doctor afterwards call the same functions, so that both say the same.
docs/guides/doctor.md has the thresholds and the trainings they were set by: no healthy one shows any symptom.
"""

from collections.abc import Sequence

import numpy as np

from chainrule.training.callbacks import Record
from chainrule.training.finding import Finding
from chainrule.training.journal import column

FEWEST_RECORDS = 20  # before there are so many, nothing is said
OVERFIT = 0.01  # validation loss above its best, in two evaluations on end
OVERFIT_BADLY = 0.05
SPIKE, SPIKE_NATS = 1.25, 0.25  # a loss beside the median of those before it: this many times, and so much more
SPIKES_ARE_MANY = 3
RISEN, RISEN_NATS = 1.1, 0.2  # the newest tenth of the losses beside the lowest tenth
NOISES = 3  # and so many times as much more as such a mean differs by chance, where batches are of unlike rows
STANDSTILL = 0.05  # the least part of its first loss that a training should have lost
STANDSTILL_PROGRESS = 0.2  # when it should have
START = 0.1  # the part of a training whose gradients are large in good health too
EXPLODED = 100.0  # a gradient's norm beside the median
CLIPPED_SHARE, CLIPPED_NORM = 0.9, 3.0  # so many updates are clipped, and the median norm is so many times the limit
LOWER_RATES = "train anew with lower rates (learning_rate, matrix_learning_rate), or with --set warmup=0.1"


def find_symptoms(steps: Sequence[Record], evaluations: Sequence[Record], clip: float) -> list[Finding]:
    """All symptoms that the records show so far. A `clip` of 0 means that gradients are not clipped."""
    known = [each for each in steps if each["loss"] is not None and each["gradient_norm"] is not None]
    if len(known) < FEWEST_RECORDS:
        return []
    rise = find_rise(known)
    fit = None if rise else find_overfitting(known, evaluations)
    rate = rise or find_spikes(known) or find_standstill(known) or find_clipping(known, clip)
    return [each for each in (fit, rate, find_explosion(known, clip)) if each]


def find_overfitting(steps: Sequence[Record], evaluations: Sequence[Record]) -> Finding | None:
    """Validation loss went up from its best, and stays up, while training loss, which is below it, went on down."""
    measured = [each for each in evaluations if each["loss"] is not None]
    losses = column(measured, "loss")
    best = int(losses.argmin()) if len(losses) else 0
    if len(losses) < best + 3 or losses[-2:].min() <= losses[best] * (1 + OVERFIT):
        return None
    ends = [0, *(each["step"] for each in measured)]  # of the stretch of training before each evaluation
    before, now = (mean_loss(steps, ends[at], ends[at + 1]) for at in (best, len(losses) - 1))
    if not now < min(before, losses[-1]):
        return None
    rise, step = losses[-1] / losses[best] - 1, measured[best]["step"]
    kept = max((each["step"] for each in measured if each.get("is_best")), default=step)  # a task may not go by loss
    return Finding(
        "overfitting",
        "problem" if rise >= OVERFIT_BADLY else "note",
        f"it began at step {step:,}: since then validation loss rose from {losses[best]:.3f} to {losses[-1]:.3f} "
        f"({rise:+.1%}) while training loss fell from {before:.3f} to {now:.3f}",
        f"the weights of step {kept:,} were kept, so only time was lost; to do better, use more text, a smaller model, "
        "more dropout (--set dropout=0.2), or less time",
    )


def find_rise(steps: Sequence[Record]) -> Finding | None:
    """Training loss is above what it once was, or began at: updates undo more than they learn."""
    losses = column(steps, "loss")
    parts = [np.array([0]), *np.array_split(np.arange(len(steps)), 10)]
    means = [losses[part].mean() for part in parts]
    lowest = int(np.argmin(means))
    noise = np.median(np.abs(np.diff(losses))) / len(parts[-1]) ** 0.5
    if means[-1] <= means[lowest] * RISEN or means[-1] - means[lowest] < max(RISEN_NATS, NOISES * noise):
        return None
    step = steps[parts[lowest][-1]]["step"]
    found = f"training loss rose from {_nats(means[lowest])} (by step {step:,}) to {_nats(means[-1])}"
    return Finding("learning rate too high", "problem", found, LOWER_RATES)


def find_spikes(steps: Sequence[Record]) -> Finding | None:
    """A loss far above those just before it, which a smaller step would not have reached."""
    losses = column(steps, "loss")
    usual = np.median(np.lib.stride_tricks.sliding_window_view(losses, FEWEST_RECORDS)[:-1], 1)
    after = losses[FEWEST_RECORDS:]
    places = np.flatnonzero((after > usual * SPIKE) & (after - usual > SPIKE_NATS))
    if not len(places):
        return None
    largest = places[(after - usual)[places].argmax()]
    step = steps[FEWEST_RECORDS + largest]["step"]
    times = f"{len(places)} times, most" if len(places) > 1 else "once,"
    return Finding(
        "learning rate too high",
        "problem" if len(places) >= SPIKES_ARE_MANY else "note",
        f"training loss spiked {times} from {_nats(usual[largest])} to {_nats(after[largest])} at step {step:,}",
        f"if it does not come down again, {LOWER_RATES}; clip gradients (--set clip=1)",
    )


def find_standstill(steps: Sequence[Record]) -> Finding | None:
    """Training loss is still about what it was before anything was learned."""
    losses = column(steps, "loss")
    now = losses[-max(len(losses) // 10, 1) :].mean()
    if steps[-1]["progress"] < STANDSTILL_PROGRESS or not losses[0] * (1 - STANDSTILL) < now <= losses[0] * RISEN:
        return None
    return Finding(
        "loss hardly moves",
        "problem",
        f"training loss went from {losses[0]:.3f} to {now:.3f} in {steps[-1]['step']:,} steps; the learning rate was "
        f"{column(steps, 'learning_rate').max():.2g} at most",
        "the learning rate is too low (try ten times as much), or the text cannot be learned, as random text cannot",
    )


def find_explosion(steps: Sequence[Record], clip: float) -> Finding | None:
    """A gradient far larger than the others, with nothing to hold it."""
    later = _after_the_start(steps)
    if not later:
        return None
    norms = column(later, "gradient_norm")
    usual, largest = float(np.median(norms)), int(norms.argmax())
    if clip or norms[largest] <= EXPLODED * usual:
        return None
    found = f"a norm of {norms[largest]:.3g} by step {later[largest]['step']:,}, where {usual:.3g} is usual"
    return Finding("exploding gradients", "note", found, f"clip them: --set clip={float(f'{3 * usual:.1g}'):g}")


def find_clipping(steps: Sequence[Record], clip: float) -> Finding | None:
    """Where every gradient is cut to one length, the limit takes the place of the learning rate."""
    later = _after_the_start(steps)
    if not clip or not later:
        return None
    share, usual = column(later, "clipped").mean(), float(np.median(column(later, "gradient_norm")))
    if share < CLIPPED_SHARE or usual < CLIPPED_NORM * clip:
        return None
    return Finding(
        "most gradients are clipped",
        "note",
        f"after the first tenth of training, {share:.0%} of the updates were clipped to {clip:g}; "
        f"the usual norm is {usual:.3g}",
        f"raise the limit (--set clip={float(f'{2 * usual:.1g}'):g}), or lower the learning rate",
    )


def _nats(loss: float) -> str:
    """A loss as text, short even where it has grown enormous."""
    return f"{loss:.3f}" if loss < 1000 else f"{loss:.3g}"


def _after_the_start(steps: Sequence[Record]) -> list[Record]:
    """The records without the first tenth of the training, which is steep; empty while there are few others."""
    later = [each for each in steps if each["progress"] > START]
    return later if len(later) >= FEWEST_RECORDS else []


def mean_loss(steps: Sequence[Record], after: int, until: int) -> float:
    """The mean training loss over the records of these steps; NaN where there are none."""
    losses = [each["loss"] for each in steps if after < each["step"] <= until]
    return sum(losses) / len(losses) if losses else float("nan")
