"""Warnings: each once, when it can first be told, and silence where all is well."""

import pytest

from chainrule.training.callbacks import CallbackList
from chainrule.training.journal import events
from chainrule.training.warn import Warner
from tests.training.journals import HEALTHY, evaluation, healthy, steps
from tests.training.trainings import HARD, StopAt, assert_same_tensors, go_on


def tell(warner: Warner, records) -> None:
    for record in records:
        (warner.step if record["event"] == "step" else warner.evaluation)(record)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_training_is_not_warned_of(name):
    said: list[str] = []
    tell(Warner(said.append, HEALTHY[name]["clip"]), healthy(name))
    assert said == []


def overfitted() -> list:
    records = steps([4.0 - i / 60 for i in range(120)])
    measured = [
        evaluation(20, 3.6),
        evaluation(40, 3.5),
        evaluation(60, 3.6),
        evaluation(80, 3.65),
        evaluation(100, 3.7),
    ]
    return sorted([*records, *measured], key=lambda each: each["step"])


def test_overfitting_is_said_once_and_as_soon_as_two_evaluations_show_it():
    said: list[str] = []
    warner = Warner(said.append, 1.0)
    for record in overfitted():
        tell(warner, [record])
        assert len(said) == (record["step"] > 80 or record == evaluation(80, 3.65))
    assert said[0].startswith(
        "warning: overfitting: it began at step 40: since then validation loss rose from 3.500 to 3.650"
    )
    assert "\n" not in said[0]


def test_a_training_that_goes_on_remembers_what_came_before():
    said: list[str] = []
    records = overfitted()
    end = records.index(evaluation(60, 3.6)) + 1
    tell(Warner(said.append, 1.0, records[:end]), records[end:])
    assert len(said) == 1
    forgetful: list[str] = []
    tell(Warner(forgetful.append, 1.0), records[end:])
    assert forgetful == []


def test_without_evaluations_it_looks_twenty_times():
    said: list[str] = []
    warner = Warner(said.append, 1.0)
    for record in steps([4.0] * 200):
        tell(warner, [record])
        assert len(said) == (record["step"] >= 40)  # a fifth of the way
    assert said[0].startswith("warning: loss hardly moves: training loss went from 4.000 to 4.000 in 40 steps")


def test_what_the_loop_tells_it_is_what_it_needs_and_training_stays_the_same(tmp_path, monkeypatch):
    """A rate so low that nothing moves: the same journal and weights with and without the warner."""
    recipe = HARD.__class__(**vars(HARD) | {"steps": 60, "learning_rate": 1e-9, "matrix_learning_rate": 1e-9})
    plain, _ = go_on(tmp_path / "plain", "mlp", recipe)
    said: list[str] = []

    class Warned(StopAt):  # takes the place of a callback in `go_on`
        def __init__(self, step: int | None):
            self.warner = Warner(said.append, recipe.clip)

        def step(self, record):
            self.warner.step(record)

        def evaluation(self, record):
            self.warner.evaluation(record)

    monkeypatch.setattr("tests.training.trainings.StopAt", Warned)
    warned, _ = go_on(tmp_path / "warned", "mlp", recipe)
    assert [each.split(":")[1] for each in said] == [" loss hardly moves"]
    assert_same_tensors(plain.model.state_dict(), warned.model.state_dict())
    losses = [[each["loss"] for each in events(tmp_path / name / "metrics.jsonl")] for name in ("plain", "warned")]
    assert losses[0] == losses[1]


def test_callbacks_within_callbacks_hear_the_same():
    """As in training: the warner speaks through the others."""

    class Listener(CallbackList):
        def __init__(self):
            super().__init__()
            self.heard: list[str] = []

        def message(self, text: str) -> None:
            self.heard.append(text)

    listener = Listener()
    others = CallbackList(listener)
    with CallbackList(others, Warner(others.message, 1.0)) as callbacks:
        for record in overfitted():
            callbacks.on_event(record)
    assert len(listener.heard) == 1
