from itertools import pairwise
from math import cos, pi

import pytest

from chainrule.errors import UserError
from chainrule.training.context import Budget
from chainrule.training.recipe import Recipe
from chainrule.training.schedule import SHAPES, Schedule


@pytest.mark.parametrize(
    ("shape", "values"),
    [
        ("cosine", {0.0: 1, 0.25: (1 + cos(pi / 4)) / 2, 0.5: 0.5, 0.75: (1 - cos(pi / 4)) / 2, 1.0: 0}),
        ("linear", {0.0: 1, 0.25: 0.75, 0.5: 0.5, 1.0: 0}),
        ("trapezoidal", {0.0: 1, 0.5: 1, 0.6: 1, 0.8: 0.5, 0.9: 0.25, 1.0: 0}),
        ("constant", {0.0: 1, 0.3: 1, 1.0: 1}),
    ],
)
def test_values_at_known_points(shape, values):
    schedule = Schedule(shape)
    for progress, value in values.items():
        assert schedule.factor(progress) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_warm_up_is_linear_and_ends_at_the_peak(shape):
    schedule = Schedule(shape, warmup=0.2)
    for progress in (0.0, 0.05, 0.1, 0.15):
        assert schedule.factor(progress) == pytest.approx(progress / 0.2)
    assert schedule.factor(0.2) == pytest.approx(1)
    assert schedule.factor(0.2 - 1e-9) == pytest.approx(1)


def test_cosine_is_that_of_gpt3_after_its_warm_up():
    """Cosine decay to 10 %: lr = final + (1 - final) (1 + cos(π t)) / 2, t from 0 at the end of warm-up to 1."""
    schedule = Schedule("cosine", warmup=0.1, final=0.1)
    assert schedule.factor(0.55) == pytest.approx(0.55)
    assert schedule.factor(0.1 + 0.9 / 3) == pytest.approx(0.1 + 0.9 * 0.75)
    assert schedule.factor(1.0) == pytest.approx(0.1)


@pytest.mark.parametrize("shape", ["cosine", "linear", "trapezoidal"])
def test_the_end_is_the_final_rate_and_it_never_goes_beyond(shape):
    schedule = Schedule(shape, final=0.25)
    assert schedule.factor(1.0) == pytest.approx(0.25)
    assert schedule.factor(1.7) == pytest.approx(0.25)
    assert schedule.factor(-0.1) == pytest.approx(1)


@pytest.mark.parametrize("shape", ["cosine", "linear", "trapezoidal"])
def test_after_the_warm_up_the_rate_never_rises(shape):
    factors = [Schedule(shape, warmup=0.1, final=0.05).factor(i / 1000) for i in range(100, 1001)]
    assert all(later <= earlier for earlier, later in pairwise(factors))


def test_a_warm_up_of_all_the_budget_is_a_ramp():
    schedule = Schedule("cosine", warmup=1.0)
    assert [schedule.factor(progress) for progress in (0.0, 0.5, 1.0)] == pytest.approx([0, 0.5, 1])


def test_progress_by_steps_is_the_middle_of_each():
    budget = Budget(steps=4)
    assert [budget.progress(step, 1e9) for step in range(4)] == [0.125, 0.375, 0.625, 0.875]
    assert [budget.is_over(step, 1e9) for step in (3, 4, 5)] == [False, True, True]


def test_progress_by_time_is_the_time_used():
    budget = Budget(seconds=50.0)
    assert [budget.progress(999, seconds) for seconds in (0.0, 5.0, 25.0, 50.0)] == [0, 0.1, 0.5, 1]
    assert [budget.is_over(999, seconds) for seconds in (49.9, 50.0)] == [False, True]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"schedule": "cosin"}, "schedule must be one of .*; did you mean 'cosine'"),
        ({"warmup": 1.5}, "warmup must be a number from 0 to 1, got 1.5"),
        ({"final_rate": -0.1}, "final_rate must be a number from 0 to 1, got -0.1"),
    ],
)
def test_what_is_no_schedule_is_refused(settings, sentence):
    with pytest.raises(UserError, match=sentence):
        Recipe(**settings)
