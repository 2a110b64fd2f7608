"""What a budget of time chooses, and that what was asked for stays."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import chainrule
from chainrule.errors import UserError
from chainrule.evaluation.stream import evaluate_shards, spread
from chainrule.models import attention, bow, elman, gru, lstm, mlp, transformer, ugrnn
from chainrule.models._budgets import ATTENTION, BAG, MLP, RECURRENT, TRANSFORMER, dropout_of_characters, rung
from chainrule.training.recipe import OPTIMIZERS, Recipe

LINES = [f"line {i}: the {'red' if i % 3 else 'old'} cow eats {'hay' if i % 2 else 'grass'} today" for i in range(300)]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "cows.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.mark.parametrize("recipes", [ATTENTION, BAG, MLP, RECURRENT, TRANSFORMER])
def test_more_time_never_buys_a_smaller_model(recipes):
    for kind in (recipes.few, recipes.many):
        rungs = [rung(kind.ladder, seconds, 1_000_000)[0] for seconds in (0, 5, 20, 60, 180, 600, 1800, 36000)]
        widths = [shape["width"] for shape in rungs]
        assert widths == sorted(widths)
        assert widths[-1] > widths[0]


def test_a_short_text_gets_a_smaller_model_and_a_long_one_less_dropout():
    wide, narrow = (rung(TRANSFORMER.few.ladder, 3600, tokens)[0] for tokens in (1_000_000, 20_000))
    assert narrow["width"] < wide["width"]
    assert rung(TRANSFORMER.few.ladder, 3600, 100_000_000)[0]["dropout"] == pytest.approx(wide["dropout"] / 10)


def test_a_faster_machine_gets_a_larger_transformer_and_more_dropout_for_what_is_read_more_often():
    first, _, _ = transformer.for_budget(600, 1_000_000, 65)
    found = [transformer.for_speed(first, speed, 600, 1_000_000, 65) for speed in (2_000, 10_000, 50_000)]
    slow, as_measured, fast = (config for config, _, _ in found)
    assert (as_measured.width, as_measured.num_layers) == (first.width, first.num_layers)
    assert slow.width < first.width < fast.width
    assert slow.dropout < as_measured.dropout < fast.dropout
    assert transformer.for_speed(first, 10_000, 600, 100_000_000, 65)[0].dropout == 0.0
    assert transformer.for_speed(first, 10_000, 600, 1_000_000, 50_000) is None


def test_what_was_measured_here_changes_the_size_but_not_what_was_asked_for(text, monkeypatch):
    from chainrule.training import budget

    measured = budget.choose_speed

    def pretend(*given):
        recipe, speed, reasons = measured(*given)
        return recipe, replace(speed, training=1e9), reasons

    monkeypatch.setattr(budget, "choose_speed", pretend)
    monkeypatch.setattr(budget, "divide_time", stop_after(budget.divide_time))
    with pytest.raises(Resolved) as found:
        chainrule.train(text, tokenizer="characters", minutes=0.05, dropout=0.07)
    resolved = found.value.args[0]
    assert resolved.config.width > 64 and resolved.config.ngram_dropout == 0.6
    assert resolved.config.dropout == 0.07


def test_dropout_goes_by_the_speed_of_the_model_that_is_trained(text, monkeypatch):
    from chainrule.training import budget

    measured, speeds = budget.choose_speed, [3e7, 9e7]  # of the first guess, and of the size that this makes affordable

    def pretend(*given):
        recipe, speed, reasons = measured(*given)
        return recipe, replace(speed, training=speeds.pop(0)), reasons

    monkeypatch.setattr(budget, "choose_speed", pretend)
    monkeypatch.setattr(budget, "divide_time", stop_after(budget.divide_time))
    with pytest.raises(Resolved) as found:
        chainrule.train(text, tokenizer="characters", minutes=2e-5)
    resolved = found.value.args[0]
    tokens = text.stat().st_size * 0.9
    assert not speeds and 0 < resolved.config.dropout < 0.4
    assert resolved.config.dropout == pytest.approx(
        dropout_of_characters(9e7 * 2e-5 * 60 / tokens)["dropout"], abs=0.02
    )


class Resolved(Exception):
    """Ends a training where all is chosen."""


def stop_after(function):
    def stop(*given):
        raise Resolved(function(*given))

    return stop


@pytest.mark.parametrize("module", [transformer, lstm, gru, ugrnn, elman, attention, bow, mlp])
@pytest.mark.parametrize("vocabulary_size", [65, 2000, 50_000])
def test_what_is_chosen_can_be_built(module, vocabulary_size):
    for seconds in (1, 20, 200, 2000):
        config, recipe, why = module.for_budget(seconds, 1_000_000, vocabulary_size)
        assert (recipe["sampled_softmax"] > 0) == (vocabulary_size == 50_000)
        assert str(config.width) in why[0]


@pytest.mark.parametrize("module", [transformer, lstm, gru, ugrnn, elman, attention, bow, mlp])
def test_a_minute_of_words_samples_fewer_candidates_than_ten(module):
    """In a short time more steps are worth more than exact ones."""
    minute, ten = (Recipe(**module.for_budget(seconds, 1_000_000, 10_000)[1]) for seconds in (60, 600))
    assert minute.sampled_head + minute.sampled_tail < ten.sampled_head + ten.sampled_tail


@pytest.mark.parametrize(("seconds", "vocabulary_size"), [(60, 65), (60, 10_000), (600, 257), (600, 10_000)])
def test_recurrent_cells_of_a_comparison_have_as_many_parameters_and_differ_in_nothing_but_the_cell(
    seconds, vocabulary_size
):
    modules = (lstm, gru, ugrnn, elman)
    shapes = [module.for_budget(seconds, 1_000_000, vocabulary_size) for module in modules]
    assert len({(config.num_layers, config.dropout, str(recipe)) for config, recipe, _ in shapes}) == 1
    counts = [
        module.Model(config, vocabulary_size, 0).num_parameters
        for module, (config, *_) in zip(modules, shapes, strict=True)
    ]
    assert counts == pytest.approx([counts[0]] * 4, rel=0.04)
    assert shapes[0][0].width == RECURRENT.choose(seconds, 1_000_000, vocabulary_size)[0]["width"]


def test_settings_that_were_asked_for_stay_and_the_rest_is_chosen(text):
    run = chainrule.train(text, tokenizer="characters", minutes=0.02, width=32, num_heads=1, batch_size=3)
    assert run.config["model"]["width"] == 32
    assert run.config["model"]["ngram_order"] == 6  # of the choice; no size has it
    recipe = run.config["training"]["recipe"]
    assert (recipe["batch_size"], recipe["table_learning_rate"], recipe["minutes"]) == (3, 0.2, 0.02)


@pytest.mark.parametrize("budget", [{"minutes": 0.02}, {"steps": 2, "size": "tiny"}])
def test_another_optimizer_has_rates_of_its_own(text, budget):
    """Those that were found with Muon would spoil a training with Adam."""
    run = chainrule.train(text, model="transformer", tokenizer="characters", optimizer="adamw", **budget)
    recipe = run.config["training"]["recipe"]
    assert (recipe["learning_rate"], recipe["matrix_learning_rate"]) == (OPTIMIZERS["adamw"], None)


def test_words_are_given_to_an_lstm(text):
    assert chainrule.train(text, tokenizer="words", minutes=0.02).architecture == "lstm"
    assert chainrule.train(text, steps=2, size="tiny").architecture == "transformer"


def test_a_network_is_told_what_counting_makes_of_its_tokens(text, monkeypatch):
    monkeypatch.chdir(text.parent)
    run = chainrule.train(text, model="lstm", tokenizer="characters", minutes=0.05, path="runs/network")
    told = run.config["training"]["counting"]
    counted = chainrule.train(text, model="ngram", order=7, tokenizer="runs/network", path="runs/counted")
    found = counted.trained["validation"]
    assert told["order"] == 7
    assert told["bits_per_byte"] == pytest.approx(found["bits_per_byte"])
    assert told["perplexity"] == pytest.approx(found["perplexity"])


def test_part_of_a_text_from_all_over_it():
    stream = np.arange(1000)
    assert spread(stream, 1000) is stream
    found = spread(stream, 160)
    assert len(found) == 160
    assert found[0] == 0
    assert found[-1] == 999


def test_figures_of_a_part_stand_for_the_whole(text):
    text.write_text("\n".join(f"{i} cows eat {'hay' if i % 7 else 'grass'} on day {i * i}" for i in range(4000)))
    run = chainrule.train(text, tokenizer="characters", order=3, validation_fraction=0.5, unit="line")
    shards = run.shards("validation")
    whole = evaluate_shards(run.model, run.tokenizer, shards)
    part = evaluate_shards(run.model, run.tokenizer, shards, most=shards.part.tokens // 2)
    assert part["scored_tokens"] < shards.part.tokens
    assert part["bits_per_byte"] == pytest.approx(whole["bits_per_byte"], rel=0.1)
    assert "scored_tokens" not in whole


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"minutes": 1, "widht": 3}, "unknown setting 'widht'; did you mean 'width'"),
        ({"steps": 1, "window": 4096}, "window must be at most the context_length"),
        ({"steps": 1, "seed": 2**40}, "seed must be a whole number from 0"),
        ({"model": "ngram", "minutes": 1}, "ngram counts its text once, so it takes no minutes"),
        ({"steps": 1, "final_rate": 2.0}, "final_rate must be a number from 0 to 1"),
    ],
)
def test_bad_settings_are_refused_before_any_text_is_read(text, monkeypatch, settings, sentence):
    monkeypatch.setattr("chainrule.tasks.language.TextSource", None)
    with pytest.raises(UserError, match=sentence):
        chainrule.train(text, **settings)
