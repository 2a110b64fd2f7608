"""Examines the course of a training by its journal: overfitting, learning rate, and whether it ended too soon."""

from collections.abc import Sequence

from chainrule.analysis.doctor.subject import Subject
from chainrule.training.callbacks import Record
from chainrule.training.finding import Finding
from chainrule.training.journal import column
from chainrule.training.symptoms import find_symptoms, mean_loss

STILL_FALLING = 0.02  # relative fall of the validation loss in the last tenth of training
WIDE = 0.05  # relative distance of the training loss below the validation loss
RATE = ("learning rate too high", "loss hardly moves", "exploding gradients", "most gradients are clipped")


def look_at_course(subject: Subject) -> list[Finding]:
    """Findings about the training; none for a model that counts."""
    if subject.recipe is None:
        return []
    steps, evaluations = subject.records("step"), subject.records("evaluation")
    found = find_symptoms(steps, evaluations, subject.recipe["clip"])
    names = {each.name for each in found}
    if steps and not subject.is_finished:
        found.append(_unfinished(subject, steps[-1]))
    if "learning rate too high" not in names:
        found += _pace(evaluations)
        found += [] if "overfitting" in names else _fit(steps, evaluations)
    if steps and not names.intersection(RATE):
        fall = f"training loss fell from {steps[0]['loss']:.3f} to {steps[-1]['loss']:.3f}"
        found.append(Finding("learning rate", "good", f"{fall} without spikes or exploding gradients"))
    return found


def _unfinished(subject: Subject, last: Record) -> Finding:
    found = f"it stopped at step {last['step']:,}, {last['progress']:.0%} of its budget"
    return Finding("unfinished", "note", found, f"resume with: chainrule train --resume {subject.path}")


def _fit(steps: Sequence[Record], evaluations: Sequence[Record]) -> list[Finding]:
    """Whether the validation loss fell as the training loss did."""
    measured = [each for each in evaluations if each["loss"] is not None]
    if not measured:
        advice = "keep some text aside (--validation-fraction 0.1, or --validation OTHER.txt)"
        return [Finding("overfitting", "note", "unknown: no text was kept aside for validation", advice)]
    losses = column(measured, "loss")
    best, step = losses.min(), measured[int(losses.argmin())]["step"]
    since = measured[-2]["step"] if len(measured) > 1 else 0
    where = f"at step {step:,}, the last evaluation" if best == losses[-1] else f"at step {step:,}"
    training = mean_loss(steps, since, measured[-1]["step"])
    now = f"loss is now {losses[-1]:.3f} in validation and {training:.3f} in training"
    if training < (1 - WIDE) * losses[-1]:
        advice = "use more weight_decay (0.03) or dropout, or more text: a part of what it learns does not generalise"
        return [Finding("wide gap", "note", f"validation loss was best {where}, {best:.3f}, but {now}", advice)]
    return [Finding("overfitting", "good", f"none: validation loss was best {where}, {best:.3f}; {now}")]


def _pace(evaluations: Sequence[Record]) -> list[Finding]:
    """Whether the validation loss was still falling steeply when training ended."""
    measured = [each for each in evaluations if each["loss"] is not None]
    if len(measured) < 3:
        return []
    before, last = measured[-2], measured[-1]
    share = (last["step"] - before["step"]) / last["step"]
    fall = (1 - last["loss"] / before["loss"]) * 0.1 / share
    if fall < STILL_FALLING:
        return []
    return [
        Finding(
            "still falling",
            "note",
            f"validation loss fell from {before['loss']:.3f} to {last['loss']:.3f} in the last {share:.0%} of training",
            "train longer or, if there is no time, with a higher learning_rate",
        )
    ]
