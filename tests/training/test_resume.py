"""A training that was interrupted and gone on with is, bit for bit, the one that never was."""

import json
import random
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import chainrule
from chainrule.api import resume
from chainrule.errors import UserError
from chainrule.runs import making
from chainrule.training.checkpoint import Checkpoints
from chainrule.training.context import Budget
from chainrule.training.journal import events
from tests.training.processes import steps_journalled, until
from tests.training.trainings import (
    FAMILIES,
    HARD,
    VOCABULARY,
    Clock,
    assert_same_events,
    assert_same_tensors,
    go_on,
    stream,
    train_with_stops,
)

SETTINGS = ("tokenizer=characters", "size=tiny", "batch-size=4")
OTHERS = ("window=16", "chain=3", "checkpoint_seconds=0.02", "dropout=0.1", "ema=0.9", "micro_batches=2")


def assert_same_training(ours, theirs, folders):
    assert_same_tensors(ours.model.state_dict(), theirs.model.state_dict())
    assert_same_tensors(ours.optimizer.state(), theirs.optimizer.state())
    assert_same_tensors(ours.average, theirs.average)
    assert_same_tensors(ours.best, theirs.best)
    assert vars(ours.position) | {"seconds": 0} == vars(theirs.position) | {"seconds": 0}
    assert_same_events(*(events(folder / "metrics.jsonl") for folder in folders))


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
@pytest.mark.parametrize("architecture", FAMILIES)
def test_a_resumed_training_equals_one_without_interruption(architecture, optimizer, tmp_path):
    """With dropout, micro-batches, an average of the weights, two sources; stopped within an epoch and a chain."""
    recipe = replace(HARD, optimizer=optimizer)
    whole, _ = go_on(tmp_path / "whole", architecture, recipe)
    pieces = train_with_stops(tmp_path / "pieces", architecture, recipe, stops=(1, 5, 6, 13))
    steps = [event for event in events(tmp_path / "whole" / "metrics.jsonl") if event["event"] == "step"]
    assert [event["step"] for event in steps] == list(range(1, 15))
    assert [event["step"] for event in events(tmp_path / "whole" / "metrics.jsonl") if event["event"] == "epoch"]
    assert_same_training(pieces, whole, (tmp_path / "pieces", tmp_path / "whole"))


@pytest.mark.parametrize("optimizer", ["sgd", "momentum"])
def test_so_it_is_with_the_plain_update_rules(optimizer, tmp_path):
    recipe = replace(HARD, optimizer=optimizer, learning_rate=0.1)
    whole, _ = go_on(tmp_path / "whole", "lstm", recipe)
    pieces = train_with_stops(tmp_path / "pieces", "lstm", recipe, stops=(4, 14))
    assert_same_training(pieces, whole, (tmp_path / "pieces", tmp_path / "whole"))


def test_so_it_is_with_a_sampled_softmax(tmp_path):
    """Which words are drawn depends on the seed and the step alone."""
    recipe = replace(HARD, sampled_softmax=0.6, sampled_head=3, sampled_tail=4)

    def context():
        return {"counts": np.bincount(stream(1), minlength=VOCABULARY)}

    whole, _ = go_on(tmp_path / "whole", "lstm", recipe, **context())
    pieces = train_with_stops(tmp_path / "pieces", "lstm", recipe, (3, 9), context)
    assert_same_training(pieces, whole, (tmp_path / "pieces", tmp_path / "whole"))
    exact, _ = go_on(tmp_path / "exact", "lstm", HARD)
    assert exact.position.best_loss != whole.position.best_loss


def test_dropout_and_the_state_matter_to_what_is_compared(tmp_path):
    """So that the tests above cannot pass by forgetting them: a checkpoint without its state leads elsewhere."""
    whole, _ = go_on(tmp_path / "whole", "gru", HARD)
    other, _ = go_on(tmp_path / "other", "gru", replace(HARD, seed=1))
    assert any(not tensor.equal(whole.model.state_dict()[name]) for name, tensor in other.model.state_dict().items())
    stopped = tmp_path / "stopped"
    with pytest.raises(Exception, match="stopped after step 5"):
        go_on(stopped, "gru", HARD, stop_at=5)
    kept = Checkpoints(stopped).load()
    assert kept is not None
    kept.tensors = {name: tensor for name, tensor in kept.tensors.items() if not name.startswith("state/")}
    Checkpoints(stopped).save(kept)
    resumed, _ = go_on(stopped, "gru", HARD)
    assert any(not tensor.equal(whole.model.state_dict()[name]) for name, tensor in resumed.model.state_dict().items())


@pytest.mark.parametrize("architecture", ["lstm", "transformer"])
def test_a_training_by_time_resumes_exactly_too(architecture, tmp_path):
    """The rate follows the time that was used; a clock of our own makes that the same in both."""
    recipe = replace(HARD, steps=None, minutes=1.0, schedule="cosine")
    starts = iter((0.0, 1e5, 777.0, 31.0))

    def context():
        return {"budget": Budget(seconds=30.0), "clock": Clock(next(starts))}

    whole, _ = go_on(tmp_path / "whole", architecture, recipe, **context())
    pieces = train_with_stops(tmp_path / "pieces", architecture, recipe, (3, 8), context)
    assert whole.position.step == 15
    assert_same_training(pieces, whole, (tmp_path / "pieces", tmp_path / "whole"))
    assert pieces.position.seconds == whole.position.seconds == 30.0


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["lstm", "transformer"])
def test_a_training_killed_at_random_moments_ends_in_the_same_bytes(architecture, commands, text):
    settings = [f"--{each}" for each in SETTINGS] + [part for each in OTHERS for part in ("--set", each)]
    request = ("train", text.name, "--model", architecture, "--steps", 80, *settings)
    assert commands.run(*request, "--as", "runs/whole")[0] == 0
    moments = random.Random(5)
    process = commands.start(*request, "--as", "runs/killed")
    kills = 0
    for _ in range(4):
        before = steps_journalled(Path("runs/killed"))
        enough = before + moments.randrange(1, 12)
        until(lambda enough=enough: steps_journalled(Path("runs/killed")) >= enough or Path("runs/killed").exists())
        time.sleep(moments.random() * 0.05)
        process.send(signal.SIGKILL)
        kills += process.wait()[0] == -signal.SIGKILL
        process = commands.start("train", "--resume", "runs/killed")
    code, said = process.wait()
    assert code == 0, said
    assert kills == 4
    assert_same_runs(Path("runs/killed"), Path("runs/whole"))


def assert_same_runs(ours: Path, theirs: Path) -> None:
    for name in ("model.safetensors", "tokenizer.json", "tokens/train-00000.bin"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    journals = (events(path / "metrics.jsonl") for path in (ours, theirs))
    assert_same_events(*([event for event in journal if event["event"] != "trained"] for journal in journals))
    assert chainrule.load(ours).verify() == []
    assert {path.name for path in ours.iterdir()} == {path.name for path in theirs.iterdir()}
    assert not any(path.name.startswith(".") for path in ours.parent.iterdir())


def train(text: Path, run: str, **settings):
    return chainrule.train(
        text, model="gru", size="tiny", tokenizer="characters", steps=12, path=run, checkpoint_seconds=0.0, **settings
    )


@pytest.mark.parametrize("place", ["chainrule.training.learn.write_run", "chainrule.runs.making._write_manifest"])
def test_what_is_killed_while_the_run_is_written_can_still_be_resumed(text, place, monkeypatch):
    """The checkpoints stay until the run has its name."""
    train(text, "runs/whole")

    def killed(*arguments, **options):
        raise SystemError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(place, killed)
        with pytest.raises(SystemError):
            train(text, "runs/cows")
    assert Checkpoints(making.unfinished(Path("runs/cows"))).steps()[-1] == 12
    resume("runs/cows")
    assert_same_runs(Path("runs/cows"), Path("runs/whole"))


def test_what_a_kill_after_the_renaming_left_is_cleared_away(text, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(making, "_remove_scaffolding", lambda path: None)
        run = train(text, "runs/cows")
    assert run.verify() == []
    assert (run.path / "training.json").exists()
    with pytest.raises(UserError, match="the training of 'runs/cows' is finished"):
        resume("runs/cows")
    assert not (run.path / "training.json").exists()
    assert not (run.path / "checkpoints").exists()


@pytest.fixture
def stopped(text, monkeypatch) -> Path:
    """An unfinished training of runs/cows with checkpoints, as a crash leaves it."""

    def crash(*arguments, **options):
        raise SystemError("crash")

    with monkeypatch.context() as patch, pytest.raises(SystemError):
        patch.setattr("chainrule.tasks.language.evaluate_shards", crash)
        train(text, "runs/cows")
    return making.unfinished(Path("runs/cows"))


@pytest.mark.parametrize(
    "name", ["tokens/train-00000.bin", "tokens/validation-00000.bin", "tokens/index.json", "tokenizer.json"]
)
def test_a_changed_byte_of_what_training_reads_is_refused_by_name(stopped, name):
    file = stopped / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(UserError, match=f"{name}' has changed since training began"):
        resume("runs/cows")
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert resume("runs/cows").verify() == []


def test_a_changed_corpus_is_refused_by_name(stopped, text):
    before = text.read_text()
    text.write_text(before.replace("cow", "pig"))
    with pytest.raises(UserError, match="cows.txt' has changed since training began; restore the old text"):
        resume("cows")
    text.write_text(before)
    assert resume("cows").verify() == []


@pytest.mark.parametrize(
    ("part", "name", "value"), [("recipe", "learning_rate", 0.5), ("model", "width", 48), ("recipe", "steps", 99)]
)
def test_a_changed_setting_is_refused_by_name(stopped, part, name, value):
    job = json.loads((stopped / "training.json").read_text())
    was = job[part][name]
    job[part][name] = value
    (stopped / "training.json").write_text(json.dumps(job))
    with pytest.raises(UserError, match=f"{name} has changed since training began: it is {value} .* with {was};"):
        resume("runs/cows")
    assert Checkpoints(stopped).steps()


def test_a_damaged_job_is_one_sentence(stopped):
    (stopped / "training.json").write_text('{"architecture": "gru"')
    with pytest.raises(UserError, match="training.json' is missing or damaged"):
        resume("runs/cows")


def test_nothing_to_resume_is_one_sentence(text):
    with pytest.raises(UserError, match="there is no unfinished training of 'runs/none'"):
        resume("runs/none")
    assert not Path("runs").exists()
    train(text, "runs/done")
    with pytest.raises(UserError, match="the training of 'runs/done' is finished"):
        resume("runs/done")


def test_resuming_replaces_no_folder_that_was_not_to_be_overwritten(stopped):
    mine = Path("runs/cows")
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="'runs/cows' was written after that training began; move it away"):
        resume("runs/cows")
    assert (mine / "thesis.txt").read_text() == "years of work"
    mine.rename("runs/thesis")
    assert resume("runs/cows").verify() == []


def test_a_resumed_training_that_overwrites_replaces_the_old_run_only_at_its_end(text, monkeypatch):
    old = train(text, "runs/cows").config["started_at"]

    def crash(*arguments, **options):
        raise SystemError("crash")

    with monkeypatch.context() as patch, pytest.raises(SystemError):
        patch.setattr("chainrule.tasks.language.evaluate_shards", crash)
        train(text, "runs/cows", overwrite=True, seed=3)
    assert chainrule.load("runs/cows").config["training"]["recipe"]["seed"] == 0
    again = resume("runs/cows")
    assert again.config["training"]["recipe"]["seed"] == 3
    assert again.config["started_at"] >= old
    assert [path.name for path in Path("runs").iterdir()] == ["cows"]
