"""The loop: gradients of micro-batches, averages of weights, the best weights by validation, nonsense refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from chainrule.data.batches import TrainingBatch
from chainrule.errors import UserError
from chainrule.models.contract import IGNORE, Batch
from chainrule.training.callbacks import Callback, CallbackList, Record
from chainrule.training.checkpoint import Checkpoints
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.journal import events
from chainrule.training.recipe import Recipe
from chainrule.training.trainer import MIX, Trainer
from tests.training.trainings import FAMILIES, HARD, Log, assert_same_tensors, build, go_on, stream, windows

PLAIN = Recipe(batch_size=5, window=8, chain=3, steps=6, optimizer="sgd", learning_rate=0.1, clip=0.0)


def trainer_of(model, recipe=PLAIN, callback=None, **context) -> Trainer:
    settings = {"batches": windows(recipe), "budget": Budget(steps=recipe.steps)} | context
    return Trainer(model, recipe, TrainingContext(**settings), callback or CallbackList(), None)


def gradients(model) -> dict[str, torch.Tensor]:
    return {
        name: parameter.grad.to_dense().clone() if parameter.grad.is_sparse else parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


@pytest.mark.parametrize("pieces", [1, 2, 3, 7])
@pytest.mark.parametrize("architecture", FAMILIES)
def test_states_of_micro_batches_join_to_that_of_the_batch(architecture, pieces):
    model = build(architecture, dropout=0.0)
    window = windows(PLAIN).batch(0)
    whole, cut = (trainer_of(model, replace(PLAIN, micro_batches=count)) for count in (1, pieces))
    for trainer in (whole, cut):
        trainer._gradient(window, None)
    if not model.carries_state:
        assert whole.state is cut.state is None
        return
    for mine, other in zip(cut.state, whole.state, strict=True):
        for part, like in zip(mine, other, strict=True):
            torch.testing.assert_close(part, like, rtol=1e-5, atol=1e-6)
            assert not part.requires_grad


def test_a_recipe_says_how_many_words_a_sampled_softmax_scores():
    """The most frequent ones every time, and of the others so many on average."""
    counts = np.arange(1000)
    recipe = replace(PLAIN, sampled_softmax=1.0, sampled_head=30, sampled_tail=50)
    sampler = trainer_of(build("lstm"), recipe, counts=counts).sampler
    drawn = [sampler.draw().ids for _ in range(200)]
    assert all(set(each[:30].tolist()) == set(range(970, 1000)) for each in drawn)
    assert np.mean([len(each) - 30 for each in drawn]) == pytest.approx(50, abs=2)
    with pytest.raises(UserError, match="sampled_tail must be"):
        Recipe(sampled_tail=0)


@pytest.mark.parametrize("architecture", ["lstm", "mlp"])
def test_a_recurrent_state_is_handed_on_within_a_chain_and_only_there(architecture, monkeypatch):
    model, seen = build(architecture, dropout=0.0), []
    advance = model.advance

    def spy(batch, state, *rest):
        seen.append(None if state is None else float(state[0][0].abs().sum()))
        return advance(batch, state, *rest)

    monkeypatch.setattr(model, "advance", spy)
    trainer_of(model).run()
    assert len(seen) == 6
    if architecture == "mlp":
        assert seen == [None] * 6
    else:
        assert [value == 0 for value in seen] == [True, False, False, True, False, False]


def test_the_average_of_weights_follows_its_definition():
    """m ← d m + (1 - d) θ after every update, d = min(ema, (1 + s) / (10 + s)) so that the start is forgotten soon."""
    model = build("mlp", dropout=0.0)
    recipe = replace(PLAIN, ema=0.6, steps=12)
    trainer = trainer_of(model, recipe)
    expected = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for step in range(12):
        trainer.step()
        decay = min(0.6, (1 + step) / (10 + step))
        for name, parameter in model.named_parameters():
            expected[name] = decay * expected[name] + (1 - decay) * parameter.detach()
    for name, tensor in trainer.average.items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-5, atol=1e-7)
    trainer._finish()
    assert_same_tensors(dict(model.named_parameters()), trainer.average)


def test_evaluations_are_of_the_average_and_leave_training_alone():
    """With as without looking at validation text: the same updates."""
    looked, blind = build("gru"), build("gru")
    recipe = replace(HARD, ema=0.9)
    one = trainer_of(looked, recipe, validation=stream(3))
    other = trainer_of(blind, recipe)
    for trainer in (one, other):
        for _ in range(10):
            trainer.step()
            trainer._evaluate_if_due()
    assert one.position.evaluated == 2
    assert looked.training
    assert_same_tensors(looked.state_dict(), blind.state_dict())
    loss_of_weights = -looked.score(stream(3)).mean()
    with one._averaged():
        loss_of_average = -looked.score(stream(3)).mean()
    assert loss_of_average != loss_of_weights
    assert_same_tensors(looked.state_dict(), blind.state_dict())


def test_the_result_has_the_best_weights_by_validation(tmp_path):
    """At a rate that only harms, the first evaluation is the best."""
    recipe = replace(HARD, optimizer="sgd", learning_rate=30.0, schedule="constant", ema=0.0, clip=0.0, warmup=0.0)
    trainer, _ = go_on(tmp_path / "run", "mlp", recipe)
    evaluations = [event for event in events(tmp_path / "run" / "metrics.jsonl") if event["event"] == "evaluation"]
    assert len(evaluations) == 4
    losses = [event["loss"] for event in evaluations]
    best = min(range(4), key=lambda index: losses[index])
    assert trainer.position.best_step == evaluations[best]["step"] < evaluations[-1]["step"]
    assert float(-trainer.model.score(stream(3)).astype(np.float64).mean()) == pytest.approx(losses[best], rel=1e-6)
    running = [min(losses[: i + 1]) == losses[i] for i in range(4)]
    assert [event["is_best"] for event in evaluations] == running


def test_the_last_step_is_always_evaluated(tmp_path):
    for steps in (1, 3, 14):
        go_on(tmp_path / str(steps), "mlp", replace(HARD, steps=steps))
        evaluated = [e["step"] for e in events(tmp_path / str(steps) / "metrics.jsonl") if e["event"] == "evaluation"]
        assert evaluated[-1] == steps
        assert len(evaluated) == len(set(evaluated)) <= HARD.evaluations
    assert evaluated == [4, 8, 11, 14]


def independent_losses(architecture: str, recipe: Recipe) -> list[tuple[float, int]]:
    """(nats, tokens) of every step, computed without the loop."""
    model, batches = build(architecture, dropout=0.0), windows(recipe, [stream(1)])
    found, state = [], None
    for step in range(recipe.steps or 0):
        window = batches.batch(step)
        if model.carries_state and window.is_fresh:
            state = model.start(recipe.batch_size)
        inputs, targets = torch.from_numpy(window.inputs), torch.from_numpy(window.targets)
        hidden, state = model.read(inputs, state)
        log_probabilities = model.output(hidden).log_softmax(-1)
        nats = -log_probabilities.gather(-1, targets[:, :, None]).sum()
        (nats / targets.numel()).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= recipe.learning_rate * parameter.grad
                    parameter.grad = None
        state = tuple(tuple(part.detach() for part in parts) for parts in state) if model.carries_state else None
        found.append((float(nats.detach()), targets.numel()))
    return found


@pytest.mark.parametrize("architecture", ["elman", "mlp"])
def test_the_journal_has_the_average_training_loss_of_every_epoch(architecture, tmp_path):
    recipe = replace(PLAIN, steps=13, schedule="constant")
    model, batches = build(architecture, dropout=0.0), windows(recipe, [stream(1)])
    log = Log(tmp_path / "metrics.jsonl")
    trainer_of(model, recipe, log, batches=batches).run()
    log.close()
    found = list(events(tmp_path / "metrics.jsonl"))
    expected = independent_losses(architecture, recipe)
    steps = [event for event in found if event["event"] == "step"]
    assert [event["loss"] for event in steps] == pytest.approx([n / t for n, t in expected], rel=1e-4)
    size, ends = batches.rings[0].size, []
    for step in range(1, 14):
        if step * 40 // size > (step - 1) * 40 // size:
            ends.append(step)
    epochs = [event for event in found if event["event"] == "epoch"]
    assert [event["step"] for event in epochs] == ends
    assert [event["epoch"] for event in epochs] == [end * 40 // size for end in ends]
    assert len(ends) > 2
    for begin, event in zip([0, *ends], epochs, strict=False):
        part = expected[begin : event["step"]]
        assert event["loss"] == pytest.approx(sum(n for n, _ in part) / sum(t for _, t in part), rel=1e-4)


def test_the_journal_has_what_a_person_wants_to_know(tmp_path):
    go_on(tmp_path, "lstm", HARD, bytes_per_token=1.25)
    step = next(event for event in events(tmp_path / "metrics.jsonl") if event["event"] == "step")
    assert step["tokens"] == 40
    assert step["bits_per_byte"] == pytest.approx(step["loss"] / np.log(2) / 1.25)
    assert step["learning_rate"] == pytest.approx(0.01 * 0.5 / 14 / 0.2)  # in the middle of the first step of 14
    assert step["gradient_norm"] > 0
    assert step["memory_bytes"] > 1e7
    assert json.dumps(step)


def test_dropout_depends_on_the_seed_and_the_step_alone():
    seen: list[int] = []
    model = build("mlp")
    trainer = trainer_of(model, replace(PLAIN, seed=5))
    trainer._gradient = lambda window, candidates, rows: (seen.append(torch.initial_seed()), (1.0, 1))[1]  # type: ignore[method-assign]
    for _ in range(3):
        trainer.step()
    assert seen == [5 * MIX, 5 * MIX + 1, 5 * MIX + 2]


class Numbers(Callback):
    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Record] = []

    def step(self, record: Record) -> None:
        self.steps.append(record)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_nonsense_stops_training_before_the_update(where, value, optimizer, tmp_path, monkeypatch):
    model, callback = build("lstm"), Numbers()
    recipe = replace(HARD, optimizer=optimizer, checkpoint_seconds=0.0, micro_batches=1)
    checkpoints = Checkpoints(tmp_path)
    context = TrainingContext(
        windows(recipe), Budget(steps=14), describe_batch=lambda window: f"batch {window.inputs[0, :3]}"
    )
    trainer = Trainer(model, recipe, context, callback, checkpoints)
    advance, calls = model.advance, iter(range(100))

    def poison(batch: Batch, state, *rest):
        loss, state = advance(batch, state, *rest)
        if next(calls) == 6:
            if where == "loss":
                loss = replace(loss, total=loss.total * value)
            else:
                loss.total.register_hook(lambda gradient: gradient * value)
        return loss, state

    monkeypatch.setattr(trainer, "_advance", poison)
    first = windows(recipe).batch(6).inputs[0, :3]
    what = f"the loss is {value}" if where == "loss" else "the gradient's norm is "
    with pytest.raises(UserError) as problem:
        trainer.run()
    assert str(problem.value).startswith(what)
    assert f"at step 6 (batch {first})" in str(problem.value)
    assert "the checkpoint of step 6 is kept" in str(problem.value)
    kept = Checkpoints(tmp_path).load()
    assert kept is not None
    assert kept.facts["step"] == 6 == len(callback.steps)
    assert_same_tensors(
        model.state_dict(), {name[6:]: tensor for name, tensor in kept.tensors.items() if name.startswith("model/")}
    )
    assert all(bool(torch.isfinite(tensor).all()) for tensor in model.state_dict().values())


def test_the_reported_norm_is_that_before_clipping():
    callback = Numbers()
    recipe = replace(PLAIN, clip=1e-3)
    model = build("mlp", dropout=0.0)
    trainer_of(model, recipe, callback).run()
    other = build("mlp", dropout=0.0)
    free = trainer_of(other, PLAIN)
    free._gradient(windows(PLAIN).batch(0), None)
    norm = torch.nn.utils.clip_grad_norm_(other.parameters(), 1e9)
    assert callback.steps[0]["gradient_norm"] == pytest.approx(float(norm), rel=1e-5)
    assert all(step["clipped"] for step in callback.steps)


def test_a_window_in_which_nothing_is_asked_of_a_piece_adds_nothing():
    model = build("mlp", dropout=0.0)
    window = windows(PLAIN).batch(0)
    targets = window.targets.copy()
    targets[3:] = IGNORE
    nats, count = trainer_of(model, replace(PLAIN, micro_batches=5))._gradient(
        TrainingBatch(window.inputs, targets, True), None
    )
    assert count == 24
    cut = gradients(model)
    model.zero_grad()
    alone, _ = trainer_of(model)._gradient(TrainingBatch(window.inputs[:3], targets[:3], True), None)
    assert nats == pytest.approx(alone, rel=1e-6)
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(cut[name], gradient, rtol=1e-5, atol=1e-7)
