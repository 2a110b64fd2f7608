"""Preferences: the papers' losses and gradients, what the model was before, and answers that become likelier."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import chainrule
from chainrule.api import resume
from chainrule.data.preferences import Preference
from chainrule.errors import Stopped, UserError
from chainrule.layers.lora import add_lora, lora_parameters, without_lora
from chainrule.layers.lora_settings import LoRA
from chainrule.models.contract import Batch
from chainrule.runs.folder import Run
from chainrule.tasks import _preference_loss
from chainrule.tasks._preference_figures import REFERENCE, load_reference, log_probs_of
from chainrule.tasks._preference_loss import Objective
from chainrule.tasks._preference_rows import PairRows, PreferenceBatches, encode_pairs
from chainrule.tasks.preferences import Settings, Task
from chainrule.text.chat import Message
from chainrule.text.rendering import encode_prompt, render
from chainrule.training import trainer
from chainrule.training.callbacks import Callback
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.recipe import Recipe
from chainrule.training.start import begin_from
from chainrule.training.trainer import Trainer
from chainrule.training.trunk import Trunk
from tests.tasks.manners import HELD_OUT, LEARNED, asked, polite, rude, train, train_base, write
from tests.tasks.test_dialogue import BYTES, build
from tests.training.trainings import assert_same_tensors

SAID = [("Hi", "Hello!", "What?"), ("3 + 4?", "It is 7, my dear.", "7"), ("Who are you?", "A", "Nobody you know")]
PAIRS = [
    Preference((Message("user", one),), Message("assistant", two), Message("assistant", three), "")
    for one, two, three in SAID
]
ROWS = encode_pairs(BYTES, PAIRS, 256).rows


# The papers' formulas, in plain torch


def sequence_log_probs(model: Any, answers: Sequence[int]) -> tuple[Tensor, Tensor]:
    """log π(y|x) of one answer to each prompt, and |y|: row by row, the log-softmax at each label after the prompt."""
    sums, lengths = [], []
    for pair, which in zip(PAIRS, answers, strict=True):
        prompt = torch.from_numpy(encode_prompt(BYTES, pair.prompt))
        answer = torch.tensor([*pair.answers[which].text.encode(), BYTES.special["<|im_end|>"]])
        ids = torch.cat([prompt, answer])
        log_probs = model(ids[None, :-1])[0].log_softmax(-1)
        labels = ids[1:]
        each = log_probs[torch.arange(len(labels)), labels][len(prompt) - 1 :]
        assert len(each) == len(answer)
        sums.append(each.sum())
        lengths.append(len(answer))
    return torch.stack(sums), torch.tensor(lengths)


def dpo(model: Any, before: Any, beta: float, smoothing: float = 0.0) -> Tensor:
    """-log σ(β log π(y_w|x)/π_ref(y_w|x) - β log π(y_l|x)/π_ref(y_l|x)), equation 7 of Rafailov et al.; label smoothing
    as Mitchell's conservative DPO has it."""
    with torch.no_grad():
        (ref_w, _), (ref_l, _) = (sequence_log_probs(before, [which] * 3) for which in (0, 1))
    (pi_w, _), (pi_l, _) = (sequence_log_probs(model, [which] * 3) for which in (0, 1))
    logits = beta * ((pi_w - pi_l) - (ref_w - ref_l))
    return (-(1 - smoothing) * torch.sigmoid(logits).log() - smoothing * torch.sigmoid(-logits).log()).mean()


def simpo(model: Any, before: Any, beta: float, gamma: float) -> Tensor:
    """-log σ(β/|y_w| log π(y_w|x) - β/|y_l| log π(y_l|x) - γ), equation 6 of Meng et al."""
    (pi_w, of_w), (pi_l, of_l) = (sequence_log_probs(model, [which] * 3) for which in (0, 1))
    return -torch.sigmoid(beta / of_w * pi_w - beta / of_l * pi_l - gamma).log().mean()


def orpo(model: Any, before: Any, weight: float) -> Tensor:
    """L_SFT - λ log σ(log odds(y_w|x) / odds(y_l|x)), equations 3 to 7 of Hong et al.; P is the geometric mean."""
    (pi_w, of_w), (pi_l, of_l) = (sequence_log_probs(model, [which] * 3) for which in (0, 1))
    p_w, p_l = (pi_w / of_w).exp(), (pi_l / of_l).exp()
    ratio = (p_w / (1 - p_w)) / (p_l / (1 - p_l))
    return (-p_w.log() - weight * torch.sigmoid(ratio.log()).log()).mean()


CASES = {
    "dpo": (Settings(), lambda model, before: dpo(model, before, 0.1)),
    "dpo by hand": (
        Settings(beta=0.5, label_smoothing=0.1),
        lambda model, before: dpo(model, before, 0.5, 0.1),
    ),
    "dpo with sft": (
        Settings(sft_weight=0.3),
        lambda model, before: dpo(model, before, 0.1) - 0.3 * per_token(model),
    ),
    "simpo": (Settings("simpo"), lambda model, before: simpo(model, before, 2.0, 0.5)),
    "simpo by hand": (Settings("simpo", beta=2.5, gamma=1.6), lambda model, before: simpo(model, before, 2.5, 1.6)),
    "orpo": (Settings("orpo"), lambda model, before: orpo(model, before, 0.1)),
    "orpo by hand": (Settings("orpo", odds_weight=1.5), lambda model, before: orpo(model, before, 1.5)),
}


def per_token(model: Any) -> Tensor:
    sums, lengths = sequence_log_probs(model, [0] * 3)
    return (sums / lengths).mean()


def moved(model: Any) -> Any:
    """The same model with other weights."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model


def batch_of(rows: PairRows, pairs: Sequence[int]) -> Batch:
    found = rows.batch(pairs, BYTES.eos)
    return Batch(torch.from_numpy(found.inputs), torch.from_numpy(found.targets), found.condition)


def gradients(model: Any, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    return {
        name: each.grad.to_dense() if each.grad.is_sparse else each.grad.clone()
        for name, each in model.named_parameters()
        if each.grad is not None
    }


@pytest.mark.parametrize("architecture", ["transformer", "lstm"])
@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradients_are_those_of_the_paper(name: str, architecture: str):
    settings, formula = CASES[name]
    before, model = build(architecture), moved(build(architecture))
    reference = torch.from_numpy(log_probs_of(before, ROWS, np.arange(3), BYTES.eos)[0]).float()
    found, state = Objective(model, settings, reference)(batch_of(ROWS, range(3)), None)
    expected = formula(model, before)
    assert (found.count, state) == (3, None)
    assert float(found.mean.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    ours, theirs = gradients(model, found.total / 3), gradients(model, expected)
    assert ours.keys() == theirs.keys()
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, theirs[name], rtol=1e-3, atol=1e-6)


def test_logits_computed_again_for_the_gradient_change_nothing(monkeypatch: pytest.MonkeyPatch):
    model = moved(build("transformer"))
    whole = gradients(model, Objective(model, Settings("simpo"))(batch_of(ROWS, range(3)), None)[0].total)
    monkeypatch.setattr(_preference_loss, "LOGITS_AT_ONCE", 5 * BYTES.vocabulary_size)
    pieces = gradients(model, Objective(model, Settings("simpo"))(batch_of(ROWS, range(3)), None)[0].total)
    for name, gradient in whole.items():
        torch.testing.assert_close(pieces[name], gradient, rtol=1e-4, atol=1e-6)


def test_an_answer_that_is_certain_has_finite_odds():
    from chainrule.tasks._preference_loss import Answers, losses

    log_p = torch.tensor([[0.0, -5.0]], requires_grad=True)
    loss, margin = losses(Settings("orpo"), Answers(log_p, torch.tensor([[3, 5]])), None)
    loss.sum().backward()
    assert margin.isfinite().all() and log_p.grad is not None and log_p.grad.isfinite().all()


def test_a_model_without_its_updates_is_the_reference_that_is_kept():
    kept = torch.from_numpy(log_probs_of(build("transformer"), ROWS, np.arange(3), BYTES.eos)[0]).float()
    model = build("transformer")
    add_lora(model, LoRA(rank=2, alpha=8.0))
    with torch.no_grad():
        for each in lora_parameters(model).values():
            each.add_(0.1 * torch.randn_like(each))
    batch = batch_of(ROWS, [2, 0, 1])
    live, by_disk = (Objective(model.train(), Settings(), each)(batch, None)[0] for each in (None, kept))
    assert float(live.total.detach()) == pytest.approx(float(by_disk.total.detach()), rel=1e-6)
    ours, theirs = (gradients(model, each.total) for each in (live, by_disk))
    assert ours and all("lora" in name for name in ours)
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, theirs[name], rtol=1e-4, atol=1e-6)
    with without_lora(model):
        np.testing.assert_allclose(log_probs_of(model, ROWS, np.arange(3), BYTES.eos)[0], kept, rtol=1e-5)


# Batches


@pytest.mark.parametrize("architecture", ["transformer", "lstm", "mlp"])
def test_a_pair_among_others_is_as_if_it_stood_alone(architecture: str):
    model = build(architecture)
    together, lengths = log_probs_of(model, ROWS, np.arange(3), BYTES.eos)
    for pair in range(3):
        alone, own = log_probs_of(model, ROWS, np.array([pair]), BYTES.eos)
        np.testing.assert_allclose(together[pair], alone[0], rtol=1e-5)
        assert lengths[pair].tolist() == own[0].tolist() == [len(each.text) + 1 for each in PAIRS[pair].answers]


def test_both_answers_of_a_pair_are_in_one_batch():
    rows = pairs_of(LEARNED[:40])
    batches, same = (PreferenceBatches(rows, BYTES.eos, 400, 0) for _ in range(2))
    per_epoch = round(batches.tokens_per_epoch / batches.tokens_per_step)
    seen: list[int] = []
    for step in range(per_epoch):
        batch = batches.batch(step)
        assert batch.inputs.size <= 400 and batch.examples == len(batch.inputs)
        for number, pair in zip(batch.condition["pair"].tolist(), batch.inputs, strict=True):
            for row, ids in zip(pair, rows.rows.ids[2 * number : 2 * number + 2], strict=True):
                assert row[: len(ids) - 1].tolist() == ids[:-1].tolist()
            seen.append(number)
        np.testing.assert_array_equal(batch.inputs, same.batch(step).inputs)
    assert sorted(seen) == list(range(40))
    assert max(batches.batch(step).inputs[0].size for step in range(per_epoch)) == batches.length


def pairs_of(sums: Sequence[tuple[int, int]]) -> PairRows:
    pairs = [
        Preference((Message("user", asked(*each)),), *(Message("assistant", say(*each)) for say in (polite, rude)), "")
        for each in sums
    ]
    return encode_pairs(BYTES, pairs, 256).rows


@pytest.mark.parametrize("architecture", ["transformer", "lstm"])
def test_a_batch_in_pieces_or_by_several_processes_is_the_same_training(architecture: str):
    found = []
    for changes in ({}, {"micro_batches": 3}, {"workers": 2}):
        recipe = Recipe(optimizer="sgd", learning_rate=0.3, steps=4, clip=0.0, **changes)
        batches = PreferenceBatches(pairs_of(LEARNED[:30]), BYTES.eos, 500, 0)
        model = build(architecture)
        context = TrainingContext(batches, Budget(steps=4), objective=Objective(model, Settings("orpo")))
        Trainer(model, recipe, context, Callback(), None).run()
        found.append(model.state_dict())
    for other in found[1:]:
        for name, tensor in found[0].items():
            torch.testing.assert_close(other[name], tensor, rtol=1e-3, atol=1e-5)


def test_pairs_that_are_too_long_are_left_out():
    long = replace(PAIRS[0], rejected=Message("assistant", "no " * 100))
    encoded = encode_pairs(BYTES, [PAIRS[1], long, PAIRS[0]], 200)
    assert encoded.kept == [0, 2]
    expected = [render(BYTES, [*PAIRS[0].prompt, each])[0].ids.tolist() for each in PAIRS[0].answers]
    assert [each.tolist() for each in encoded.rows.rows.ids[2:]] == expected


# From a run and pairs to a run


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train_base(tmp_path_factory.mktemp("preferences"))


def weights(run: Run) -> dict[str, Tensor]:
    return {name: each.detach() for name, each in run.model.state_dict().items()}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lora": True},
        {"method": "orpo", "odds_weight": 1.0},
        {"method": "simpo"},
        {"top_layers": 1, "learning_rate": 0.003},
    ],
    ids=str,
)
def test_preferred_answers_become_likelier(base: Run, settings: dict[str, Any], tmp_path: Path):
    run = train(tmp_path, base, **settings)
    before, after = (run.trained[name]["figures"] for name in ("before", "validation"))
    assert after["chosen likelier"] >= 95 and after["accuracy"] >= 95
    assert before["chosen likelier"] < 50 and after["preference loss"] < before["preference loss"]
    assert after["chosen likelier"] == 100 * share_by_hand(run)
    assert run.trained["validation"]["documents"] == len(HELD_OUT)
    assert (run.path / "adapter.safetensors").exists() == bool(settings.get("lora"))


def share_by_hand(run: Run) -> float:
    """The share of the sums kept aside whose polite answer is likelier than the rude one, by the run's own scores: in
    all with DPO, or per token."""
    per_token, ahead = run.config["data"]["method"] != "dpo", 0
    for each in HELD_OUT:
        scores = []
        for say in (polite, rude):
            [row] = render(run.tokenizer, [Message("user", asked(*each)), Message("assistant", say(*each))])
            scored = run.model.score(row.ids)[row.is_asked[1:]]
            scores.append(float(scored.mean() if per_token else scored.sum()))
        ahead += scores[0] > scores[1]
    return ahead / len(HELD_OUT)


def test_what_was_before_training_has_no_preference(base: Run, tmp_path: Path):
    run = train(tmp_path, base, steps=2)
    before = run.trained["before"]["figures"]
    assert (before["margin"], before["accuracy"]) == (0, 50)
    assert before["preference loss"] == pytest.approx(np.log(2))
    first = next(event for event in run.metrics if event["event"] == "evaluation")
    assert (first["step"], first["loss"]) == (0, pytest.approx(np.log(2)))


@pytest.mark.parametrize("lora", [False, True])
def test_the_reference_is_what_the_run_was(base: Run, lora: bool, tmp_path: Path):
    run = train(tmp_path, base, steps=2, lora=lora)
    task, kept = Task(run.path), load_reference(run.path)
    model = begin_from(base, base.model.config, run.tokenizer).eval()
    assert set(kept) == ({"validation"} if lora else {"train", "validation"})
    for name, rows in (("train", task.rows), ("validation", task.held_out_rows)):
        if name in kept:
            expected, _ = log_probs_of(model, rows, np.arange(len(rows)), run.tokenizer.eos)
            np.testing.assert_allclose(kept[name], expected, rtol=1e-6)


def test_the_best_weights_are_those_of_the_lowest_loss(base: Run, tmp_path: Path):
    """Of pairs that prefer the opposite, the loss rises from the first step on."""
    run = train(tmp_path, base, validation=write(tmp_path / "rude.jsonl", HELD_OUT, rude, polite))
    assert run.trained["best_step"] == 0
    assert_same_tensors(weights(run), weights(base))


def test_a_text_model_gets_role_tokens(tmp_path: Path):
    text = chainrule.Texts(["the cow eats hay", "the sheep eats grass"] * 10)
    start = chainrule.train(
        text, model="lstm", tokenizer="characters", width=16, steps=3, path=tmp_path / "text", unit="line"
    )
    run = train(tmp_path, Run(start.path), steps=2)
    assert run.tokenizer.chat is not None and "<|im_end|>" in run.tokenizer.special
    assert run.is_language_model and chainrule.load(run.path).sample("the", max_tokens=3)
    assert run.model.vocabulary_size == run.tokenizer.vocabulary_size > start.tokenizer.vocabulary_size


@pytest.mark.parametrize("settings", [{}, {"lora": True, "lora_dropout": 0.2}, {"method": "simpo", "dropout": 0.1}])
def test_a_resumed_training_equals_one_without_interruption(
    base: Run, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings = {**settings, "micro_batches": 2, "steps": 8}
    whole = weights(train(tmp_path, base, **settings))

    def stop(self: Trainer, request: Any, own: Any = trainer.Trainer._stop_if_asked) -> None:
        request.signal = 15 if self.position.step == 3 else None
        own(self, request)

    with monkeypatch.context() as patched:
        patched.setattr(trainer.Trainer, "_stop_if_asked", stop)
        with pytest.raises(Stopped, match="resume with"):
            train(tmp_path, base, **settings)
    assert_same_tensors(weights(Run(resume(tmp_path / "manners").path)), whole)


def test_a_kept_trunk_changes_nothing(base: Run, tmp_path: Path):
    model = begin_from(base, base.model.config, base.tokenizer)
    rows = encode_pairs(base.tokenizer, PAIRS[1:2], 64).rows
    found = rows.batch([0], base.tokenizer.eos)
    batch = Batch(torch.from_numpy(found.inputs), torch.from_numpy(found.targets), found.condition)
    trunk = Trunk(model, 1, tmp_path / "trunk.bin")
    for _ in range(2):  # computed, then kept
        with_trunk, without = (
            Objective(model, Settings("simpo"), None, each)(batch, None)[0] for each in (trunk.hidden, None)
        )
        torch.testing.assert_close(with_trunk.total, without.total)


def test_minutes_include_what_the_reference_takes(base: Run, tmp_path: Path):
    run = train(tmp_path, base, steps=None, minutes=0.05)
    assert run.trained["validation"]["figures"]["accuracy"] > 50 and (run.path / REFERENCE).exists()


def test_evaluate_takes_the_pairs_kept_aside_and_others(base: Run, tmp_path: Path):
    loaded = chainrule.load(train(tmp_path, base).path)
    kept, same = loaded.evaluate_preferences(), loaded.evaluate_preferences(tmp_path / "other.jsonl")
    assert kept["figures"] == loaded.trained["validation"]["figures"]
    for name, value in kept["figures"].items():
        assert same["figures"][name] == pytest.approx(value, abs=1e-4)
    of_base = chainrule.load(base.path).evaluate_preferences(tmp_path / "other.jsonl")
    assert of_base["figures"] == {"chosen likelier": loaded.trained["before"]["figures"]["chosen likelier"]}
    with pytest.raises(UserError, match="has no pairs of answers kept aside"):
        chainrule.load(base.path).evaluate_preferences()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "ppo"}, "method must be one of dpo, orpo, simpo, got 'ppo'"),
        ({"gamma": 1.0}, "gamma is a setting of simpo, and the method is dpo; leave it out"),
        ({"method": "orpo", "beta": 1.0}, "beta is a setting of dpo and simpo, and the method is orpo"),
        ({"method": "orpo", "label_smoothing": 0.1}, "label_smoothing is a setting of dpo and simpo"),
        ({"beta": 0}, "beta must be above zero"),
        ({"beta": -1}, "beta must be a number of at least 0, got -1"),
        ({"engine": "tape"}, "preferences are learned by the engine torch alone, got tape"),
        ({"most_tokens": 20}, "every pair of the train part has more than 20 tokens; raise most_tokens"),
        ({"size": "tiny"}, "takes no size"),
    ],
)
def test_mistakes_are_named_in_one_sentence(base: Run, settings: dict[str, Any], message: str, tmp_path: Path):
    with pytest.raises(UserError) as error:
        train(tmp_path, base, **settings)
    assert message in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "manners").exists()


def test_a_run_to_begin_from_is_asked_for(tmp_path: Path):
    from typer.testing import CliRunner

    from chainrule.cli.main import app

    result = CliRunner().invoke(app, ["train", "--task", "preferences", str(write(tmp_path / "pairs.jsonl"))])
    assert isinstance(result.exception, UserError)
    assert "the task preferences goes on training a run; name one with --from" in str(result.exception)


def test_a_run_keeps_its_pairs_and_settings(base: Run, tmp_path: Path):
    run = train(tmp_path, base, method="simpo", steps=2)
    data = run.config["data"]
    assert (data["method"], data["beta"], data["gamma"]) == ("simpo", 2.0, 0.5)
    assert run.config["training"]["recipe"]["learning_rate"] == pytest.approx(0.003 / 10)
    assert data["text"]["train"]["documents"] == len(LEARNED) and data["unit"] == "pair"
    lines = (run.path / "tokens" / "validation.jsonl").read_text(encoding="utf-8").splitlines()
    n, m = HELD_OUT[0]
    assert json.loads(lines[0])["chosen"] == [{"role": "assistant", "content": polite(n, m)}]
    assert "rather than: " in (run.path / "README.md").read_text(encoding="utf-8")
