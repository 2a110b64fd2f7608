"""Symptoms by their definitions, on records whose figures are known; none on trainings that went well."""

import math

import pytest

from chainrule.training.symptoms import find_symptoms, mean_loss
from tests.training.journals import HEALTHY, evaluation, healthy, steps


def names(*arguments) -> list[str]:
    return [each.name for each in find_symptoms(*arguments)]


def falling(count: int = 100, first: float = 4.0, last: float = 2.0) -> list[float]:
    return [first + (last - first) * i / (count - 1) for i in range(count)]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_training_has_none_at_any_moment(name):
    records = healthy(name)
    for end in range(1, len(records) + 1):
        seen = [[each for each in records[:end] if each["event"] == event] for event in ("step", "evaluation")]
        assert names(*seen, HEALTHY[name]["clip"]) == []


def test_overfitting_begins_at_the_best_evaluation_and_has_its_figures():
    training = steps(falling())  # 4 to 2: the mean of steps 21 to 40 is 4 - 2 * 29.5 / 99
    validation = [
        evaluation(20, 3.6),
        evaluation(40, 3.5),
        evaluation(60, 3.6),
        evaluation(80, 3.65),
        evaluation(100, 3.7),
    ]
    (found,) = find_symptoms(training, validation, 1.0)
    assert (found.name, found.severity) == ("overfitting", "problem")
    before, now = 4 - 2 * 29.5 / 99, 4 - 2 * 89.5 / 99
    assert "began at step 40" in found.found
    assert f"from 3.500 to 3.700 (+{3.7 / 3.5 - 1:.1%})" in found.found
    assert f"training loss fell from {before:.3f} to {now:.3f}" in found.found
    assert "step 40" in found.advice


@pytest.mark.parametrize(
    ("after", "severity"),
    [
        ((3.52, 3.53), None),  # within a hundredth of the best
        ((3.6, 3.5), None),  # once is not enough
        ((3.6,), None),
        ((3.54, 3.54), "note"),
        ((3.54, 3.675), "problem"),  # a twentieth
    ],
)
def test_validation_loss_must_stay_above_its_best(after, severity):
    validation = [evaluation(20, 3.6), evaluation(40, 3.5)]
    validation += [evaluation(60 + 20 * i, loss) for i, loss in enumerate(after)]
    found = find_symptoms(steps(falling(100)), validation, 1.0)
    assert [each.severity for each in found] == ([severity] if severity else [])


def test_what_fits_the_training_text_no_better_than_other_text_does_not_overfit():
    validation = [evaluation(20, 2.4), evaluation(40, 1.0), evaluation(80, 1.2), evaluation(100, 1.3)]
    assert names(steps(falling()), validation, 1.0) == []


def test_where_training_loss_rises_too_it_is_the_rate_and_not_overfitting():
    losses = [*falling(50, 4.0, 3.0), *falling(50, 3.0, 3.8)]
    validation = [evaluation(50, 3.0), evaluation(75, 3.4), evaluation(100, 3.8)]
    (found,) = find_symptoms(steps(losses), validation, 1.0)
    assert (found.name, found.severity) == ("learning rate too high", "problem")
    lowest = min(sum(losses[i : i + 10]) / 10 for i in range(0, 100, 10))
    assert f"from {lowest:.3f} (by step 60) " in found.found
    assert f"to {sum(losses[90:]) / 10:.3f}" in found.found


def test_a_loss_that_jumps_at_once_and_stays_up_has_risen_from_its_first():
    (found,) = find_symptoms(steps([4.0, *[30.0, 29.0] * 30]), [], 1.0)
    assert "from 4.000 (by step 1) to 29.5" in found.found


def test_a_training_that_never_came_down_to_where_it_began_does_not_overfit():
    losses = [2.0, *falling(99, 9.0, 5.0)]
    validation = [evaluation(20, 7.5), evaluation(60, 8.0), evaluation(100, 8.5)]
    assert names(steps(losses), validation, 1.0) == ["learning rate too high"]


@pytest.mark.parametrize(
    ("height", "times", "severity"),
    [(2.49, 1, None), (2.51, 1, "note"), (2.51, 2, "note"), (2.51, 3, "problem")],
)
def test_a_spike_is_a_quarter_above_the_median_of_the_twenty_before(height, times, severity):
    losses = [*falling(40, 4.0, 2.0), *[2.0] * 200]
    for time in range(times):
        losses[100 + 40 * time] = height + 0.01 * time
    found = find_symptoms(steps(losses), [], 1.0)
    assert [each.severity for each in found] == ([severity] if severity else [])
    if severity:
        assert f"from 2.000 to {height + 0.01 * (times - 1):.3f} at step {101 + 40 * (times - 1)}" in found[0].found


def test_small_losses_may_wobble():
    """0.1 to 0.3 is three times as much, but a fifth of a nat."""
    assert names(steps([*falling(40, 4.0, 0.1), *[0.1, 0.1, 0.1, 0.3] * 20]), [], 1.0) == []


@pytest.mark.parametrize(("last", "is_found"), [(4.0, True), (3.81, True), (3.79, False)])
def test_a_loss_that_lost_less_than_a_twentieth_stands_still(last, is_found):
    losses = [4.0, *falling(39, 4.0, last), *[last] * 60]
    assert names(steps(losses), [], 1.0) == ["loss hardly moves"] * is_found


def test_nothing_stands_still_before_a_fifth_of_the_training():
    records = [each | {"progress": each["step"] / 1000} for each in steps([4.0] * 190)]
    assert names(records, [], 1.0) == []
    assert names([*records, records[-1] | {"progress": 0.2}], [], 1.0) == ["loss hardly moves"]


@pytest.mark.parametrize(("clip", "norm", "is_found"), [(0.0, 51.0, True), (0.0, 49.0, False), (1.0, 51.0, False)])
def test_a_gradient_a_hundred_times_the_usual_explodes_where_nothing_holds_it(clip, norm, is_found):
    norms = [0.5] * 100
    norms[60] = norm
    assert names(steps(falling(), norms), [], clip) == ["exploding gradients"] * is_found


def test_the_first_tenth_may_have_large_gradients():
    assert names(steps(falling(), [500.0] * 10 + [0.5] * 90), [], 0.0) == []


@pytest.mark.parametrize(
    ("share", "norm", "clip", "is_found"),
    [(1.0, 3.5, 1.0, True), (0.8, 3.5, 1.0, False), (1.0, 2.5, 1.0, False), (0.0, 3.5, 0.0, False)],
)
def test_most_gradients_are_clipped_where_nine_in_ten_are_and_far_above_the_limit(share, norm, clip, is_found):
    found = find_symptoms(steps(falling(), [norm] * 100, share), [], clip)
    assert [each.name for each in found] == ["most gradients are clipped"] * is_found
    if is_found:
        assert "100% of the updates were clipped to 1; the usual norm is 3.5" in found[0].found
        assert "clip=7" in found[0].advice


def test_too_few_records_and_missing_figures_say_nothing():
    assert names(steps([4.0] * 19), [], 1.0) == []
    assert names([each | {"loss": None} for each in steps([4.0] * 50)], [], 1.0) == []
    unmeasured = {"event": "evaluation", "step": 50, "loss": None}
    assert names(steps(falling()), [unmeasured] * 4, 1.0) == []


def test_the_mean_loss_is_of_the_steps_after_one_and_up_to_another():
    records = steps([1.0, 2.0, 3.0, 4.0])
    assert mean_loss(records, 1, 3) == 2.5
    assert math.isnan(mean_loss(records, 4, 9))
