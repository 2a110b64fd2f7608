"""A whole plan, of presets and of runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from chainrule.analysis.plan.machines import ACCELERATORS
from chainrule.analysis.plan.plan import PlanRequest, make_plan
from chainrule.analysis.plan.planned_model import find_subject
from chainrule.errors import UserError
from chainrule.models._presets import PUBLISHED
from chainrule.runs.write import store
from chainrule.text.base import Vocabulary
from chainrule.text.bytes import train as bytes_tokenizer


def write_folder(path: Path, architecture: str, *metrics: dict[str, Any], **tokenizer: Any) -> str:
    path.mkdir(parents=True)
    config = {"architecture": architecture, "model": {}, "data": {"inputs": ["poems.txt"]}}
    config["tokenizer"] = {"hash": "0", "vocabulary_size": 300, **tokenizer}
    (path / "config.json").write_text(json.dumps(config))
    (path / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in metrics))
    (path / "manifest.json").write_text("{}")
    return str(path)


def test_a_run_of_a_transformer_is_planned_as_it_was_trained(tmp_path: Path):
    from chainrule.models.transformer import SIZES, Model

    tokenizer = bytes_tokenizer([], Vocabulary())
    model = Model(SIZES["tiny"], tokenizer.vocabulary_size, tokenizer.eos)
    store(tmp_path / "runs" / "poems", "transformer", model, tokenizer, {"inputs": ["poems.txt"]}, False)
    subject = find_subject("poems")
    assert subject.parameters.total == model.num_parameters
    assert subject.source == "transformer of poems.txt"
    plan = make_plan(subject, PlanRequest(), [])
    assert plan.compute.tokens == 20 * model.num_parameters
    assert plan.memory.batch_size == 1


def test_other_models_have_the_count_of_their_metrics(tmp_path: Path):
    steps = [{"event": "step", "tokens": 5000}, {"event": "step", "tokens": 9000}]
    run = write_folder(tmp_path / "lstm", "lstm", *steps, {"event": "trained", "parameters": 1234, "tokens": 700})
    plan = make_plan(find_subject(run), PlanRequest(), [ACCELERATORS["a100"]])
    assert plan.model.parameters.total == 1234
    assert plan.compute.tokens == 9000  # what it read, not how long the text is
    assert plan.compute.training_flops == 6 * 1234 * 9000
    assert plan.memory.activations is None
    with pytest.raises(UserError, match="not a Transformer, so context_length"):
        make_plan(find_subject(run), PlanRequest(context_length=10), [])


@pytest.mark.parametrize(
    ("architecture", "tokenizer", "sentence"),
    [
        ("ngram", {}, "counts its text once"),
        ("mix", {}, "made of runs"),
        ("lstm", {}, "how many parameters"),
        ("transformer", {}, "do not describe a Transformer"),
        ("transformer", {"vocabulary_size": None}, "how large the vocabulary"),
    ],
)
def test_runs_that_cannot_be_planned_say_why(tmp_path: Path, architecture: str, tokenizer: dict, sentence: str):
    run = write_folder(tmp_path / "run", architecture, {"event": "trained"}, **tokenizer)
    with pytest.raises(UserError, match=sentence):
        find_subject(run)


def test_names_are_found_or_corrected():
    assert find_subject("GPT3-175B").name == "gpt3-175b"
    with pytest.raises(UserError, match="neither a preset nor a run; did you mean 'gpt3-175b'"):
        find_subject("gpt3-175")


def test_a_longer_context_has_more_positions_to_learn():
    subject = find_subject("gpt2")
    longer = make_plan(subject, PlanRequest(context_length=2048), []).model
    assert longer.parameters.total - subject.parameters.total == 1024 * 768
    assert longer.published_parameters is None
    assert make_plan(subject, PlanRequest(context_length=1024), []).model == subject


def test_the_batch_is_the_published_one_unless_told():
    assert make_plan(find_subject("gpt2"), PlanRequest(), []).memory.batch_size == 512
    assert make_plan(find_subject("gpt2"), PlanRequest(batch_size=8), []).memory.batch_size == 8


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"utilisation": 0.0}, "utilisation must be from 0.001 to 1, got 0"),
        ({"utilisation": 40.0}, "utilisation must be from 0.001 to 1, got 40"),
        ({"utilisation": float("nan")}, "utilisation"),
        ({"batch_size": 0}, "batch_size must be from 1"),
        ({"context_length": -1}, "context_length must be from 1"),
        ({"devices": 0}, "devices must be from 1"),
        ({"price": -1.0}, "price must be"),
        ({"price": float("inf")}, "price must be"),
    ],
)
def test_nonsense_is_refused(settings: dict[str, Any], sentence: str):
    with pytest.raises(UserError, match=sentence):
        PlanRequest(**settings)


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_preset_can_be_planned(name: str):
    plan = make_plan(find_subject(name), PlanRequest(), [ACCELERATORS["h100"]])
    assert plan.compute.training_flops_with_attention > plan.compute.training_flops
    assert plan.times[0].seconds > 0
