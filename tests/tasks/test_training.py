"""Training for a task: resumed = uninterrupted, several processes or pieces of a batch = one, as for plain text."""

import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from chainrule.data.batches import TrainingBatch
from chainrule.errors import Stopped
from chainrule.evaluation.validation import Validation
from chainrule.models.conditional import Config, Model
from chainrule.tasks._batches import PairBatches
from chainrule.training.callbacks import Callback, Record
from chainrule.training.checkpoint import Checkpoints
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.journal import events
from chainrule.training.learn import learn
from chainrule.training.pipeline import resume, train
from chainrule.training.recipe import Recipe
from chainrule.training.trainer import Trainer
from tests.tasks.toys import request, write_pairs
from tests.training.trainings import assert_same_events, assert_same_tensors

EOS = 20


def batches(tokens: int = 40) -> PairBatches:
    generator = np.random.default_rng(0)
    sides = [[generator.integers(0, EOS, generator.integers(1, 9)) for _ in range(50)] for _ in range(2)]
    return PairBatches(sides[0], sides[1], (EOS, EOS), tokens, 0)


def trained(recipe: Recipe, steps: int = 6, **config: object) -> Model:
    torch.manual_seed(0)
    model = Model(
        Config(width=16, num_heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0, **config), EOS + 1, EOS
    )
    trainer = Trainer(model, recipe, TrainingContext(batches(), Budget(steps=steps)), Callback(), None)
    return trainer.run()


@pytest.mark.parametrize("changes", [{"micro_batches": 3}, {"workers": 2}, {"workers": 3, "micro_batches": 2}])
def test_a_batch_in_pieces_or_by_several_processes_is_the_same_training(changes):
    recipe = Recipe(optimizer="sgd", learning_rate=0.5, steps=6, clip=0.0)
    whole, pieces = trained(recipe), trained(replace(recipe, **changes))
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(pieces.state_dict()[name], tensor, atol=1e-5, rtol=1e-4)


def test_a_batch_of_fewer_rows_than_processes_leaves_no_gradient_behind():
    """Batches of one row each: the second process has nothing to read, and what it read before must not count again."""

    class OneThenMany:
        batch_size, length, tokens_per_step, tokens_per_epoch = 4, 3, 6.0, 12

        def batch(self, step: int) -> TrainingBatch:
            rows = 4 if step % 2 == 0 else 1
            inputs = np.arange(rows * 3).reshape(rows, 3) % EOS
            condition = {"source": inputs, "lengths": np.full(rows, 3)}
            return TrainingBatch(inputs, (inputs + 1) % EOS, condition=condition)

        def epochs(self, steps: int) -> list[float]:
            return [steps / 2]

    found = []
    for workers in (1, 2):
        torch.manual_seed(0)
        model = Model(Config(width=16, num_heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0), EOS + 1, EOS)
        recipe = Recipe(optimizer="sgd", learning_rate=0.5, clip=0.0, workers=workers)
        found.append(Trainer(model, recipe, TrainingContext(OneThenMany(), Budget(steps=5)), Callback(), None).run())
    for mine, other in zip(found[0].parameters(), found[1].parameters(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-4)


def test_the_best_weights_are_those_of_the_lowest_rank_whatever_the_loss():
    torch.manual_seed(0)
    model = Model(Config(width=16, num_heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0), EOS + 1, EOS)
    ranks = iter([3.0, 1.0, 2.0])
    seen: list[tuple[float, dict[str, torch.Tensor]]] = []

    def validate(model: Model) -> Validation:
        rank = next(ranks)
        seen.append((rank, {name: each.detach().clone() for name, each in model.named_parameters()}))
        return Validation({"loss": -rank, "perplexity": 1.0, "bits_per_byte": None, "points": 10 - rank}, rank)

    records: list[Record] = []

    class Heard(Callback):
        def evaluation(self, record: Record) -> None:
            records.append(record)

    context = TrainingContext(batches(), Budget(steps=6), validation=validate)
    Trainer(model, Recipe(optimizer="sgd", learning_rate=0.1, evaluations=3, steps=6), context, Heard(), None).run()
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, seen[1][1][name])
    assert [record["points"] for record in records] == [7.0, 9.0, 8.0]
    assert [record["is_best"] for record in records] == [True, True, False]


def test_a_resumed_task_equals_one_without_interruption(tmp_path, monkeypatch):
    pairs = write_pairs(tmp_path / "pairs.tsv", 120)
    settings = {"steps": 12, "dropout": 0.2, "ema": 0.9, "evaluations": 4, "checkpoint_seconds": 0.0, "validated": 5}
    whole = train(request(pairs, tmp_path / "whole", **settings))

    class StopAtFive(Callback):
        def step(self, record: Record) -> None:
            if record["step"] == 5:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(
        "chainrule.training.learn.learn",
        lambda folder, job, task, callbacks: learn(folder, job, task, (StopAtFive(),)),
    )
    with pytest.raises(Stopped, match="chainrule train --resume"):
        train(request(pairs, tmp_path / "pieces", **settings))
    monkeypatch.undo()
    assert Checkpoints(tmp_path / ".pieces.unfinished").steps()[-1] == 5
    pieces = resume(tmp_path / "pieces", {"task": "translation"})
    assert_same_tensors(whole.model.state_dict(), pieces.model.state_dict())
    logs = [list(events(run.path / "metrics.jsonl"))[:-1] for run in (whole, pieces)]
    assert_same_events(*logs)
