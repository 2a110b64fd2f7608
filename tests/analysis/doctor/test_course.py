"""The course of real trainings: one that overfits, one too fast, one too slow, one cut short, one in good health."""

import pytest

from chainrule.analysis.doctor.course import _fit, look_at_course
from chainrule.analysis.doctor.subject import load_subject
from tests.analysis.doctor.conftest import chain_text


def course(run) -> dict:
    return {finding.name: finding for finding in look_at_course(load_subject(run.path))}


def test_a_healthy_training_is_called_so_with_its_figures(healthy):
    found = course(healthy)
    assert {name: each.severity for name, each in found.items()} == {"overfitting": "good", "learning rate": "good"}
    losses = [each["loss"] for each in healthy.metrics if each["event"] == "step"]
    assert f"from {losses[0]:.3f} to {losses[-1]:.3f}" in found["learning rate"].found


def test_a_small_text_read_many_times_overfits_from_its_best_step_on(train, capfd):
    run = train(chain_text(30, 0), steps=250, order=8, hidden_width=128, learning_rate=0.01)
    found = course(run)["overfitting"]
    evaluations = [each for each in run.metrics if each["event"] == "evaluation"]
    best = min(evaluations, key=lambda each: each["loss"])
    assert found.severity == "problem"
    assert f"it began at step {best['step']}:" in found.found
    assert f"from {best['loss']:.3f} to {evaluations[-1]['loss']:.3f}" in found.found
    said = capfd.readouterr().err
    assert said.count("warning: overfitting: it began at step") == 1
    assert "learning rate" in course(run)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"optimizer": "adamw", "learning_rate": 1.0, "schedule": "constant"}, "learning rate too high"),
        ({"learning_rate": 1e-7, "matrix_learning_rate": 1e-7}, "loss hardly moves"),
    ],
)
def test_a_rate_too_high_or_too_low_is_a_problem_and_is_warned_of(train, capfd, settings, name):
    run = train(chain_text(400, 0), steps=200, **settings)
    assert course(run)[name].severity == "problem"
    assert not {"learning rate", "most gradients are clipped", "still falling"} & set(course(run))
    said = capfd.readouterr().err
    assert said.count("warning: ") == said.count(f"warning: {name}: ") == 1


def test_a_rate_somewhat_too_low_ends_while_loss_is_still_falling(train):
    settings = {"optimizer": "adamw", "learning_rate": 3e-4, "schedule": "constant"}
    run = train(chain_text(400, 0), steps=200, **settings)
    found = course(run)["still falling"]
    before, last = [each["loss"] for each in run.metrics if each["event"] == "evaluation"][-2:]
    assert last < before * 0.98
    assert f"from {before:.3f} to {last:.3f}" in found.found


@pytest.mark.parametrize(("training", "name"), [(1.94, "wide gap"), (1.96, "overfitting")])
def test_training_loss_far_below_validation_is_noted_before_that_rises(training, name):
    losses = [(100, 3.0, 2.5), (200, training, 2.05)]  # step, loss of training, loss of validation
    steps = [{"step": step, "loss": loss, "tokens": step} for step, loss, _ in losses]
    evaluations = [{"step": step, "loss": loss} for step, _, loss in losses]
    (found,) = _fit(steps, evaluations)
    assert (found.name, found.severity) == (name, "note" if name == "wide gap" else "good")
    assert f"loss is now 2.050 in validation and {training:.3f} in training" in found.found


def test_without_validation_text_overfitting_cannot_be_told(train):
    found = course(train(chain_text(50, 0), steps=30, validation_fraction=0))["overfitting"]
    assert found.severity == "note"
    assert "no text was kept aside" in found.found


def test_a_model_that_counts_has_no_course(count):
    assert course(count(chain_text(50, 0))) == {}
