"""`--from RUN`: training begins with the weights of a run, of which all learn, or some, or low-rank updates alone."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import chainrule
from chainrule.api import resume
from chainrule.data.corpus import Corpus
from chainrule.errors import Stopped, UserError
from chainrule.evaluation.score import stream_of
from chainrule.layers.lora import fold_lora, load_lora
from chainrule.models.transformer import Model
from chainrule.runs.adapter import ADAPTER, load_adapter
from chainrule.runs.folder import Run
from chainrule.training import adapt, learn, trainer
from chainrule.training.recipe import Recipe
from chainrule.training.start import begin_from
from chainrule.training.trunk import Trunk
from tests.training.trainings import assert_same_tensors

SHEEP = [
    f"the {n} sheep of the {hill} hill eat grass" for n in ("two", "three", "four") for hill in ("far", "near", "old")
]
COWS = [
    f"the {n} cows of the {farm} farm eat hay"
    for n in ("two", "three", "four", "six")
    for farm in ("far", "new", "old")
]
SMALL = {"tokenizer": "characters", "width": 32, "num_layers": 3, "num_heads": 2, "context_length": 32}
QUICK = {"steps": 6, "batch_size": 4, "window": 16, "evaluations": 2, "overwrite": True}


def train(lines, **settings):
    """The last three lines are for validation, where nothing else is."""
    if "validation" not in settings:
        lines, settings["validation"] = lines[:-3], chainrule.Texts(lines[-3:])
    return Run(chainrule.train(chainrule.Texts(lines), **settings).path)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    path = tmp_path_factory.mktemp("start") / "base"
    return train(SHEEP * 3 + COWS[:1], model="transformer", size="gpt2-tiny", steps=60, path=path, **SMALL)


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory):
    path = tmp_path_factory.mktemp("start") / "lstm"
    return train(SHEEP * 3, model="lstm", tokenizer="characters", width=32, steps=30, path=path)


def weights(run: Run) -> dict[str, torch.Tensor]:
    return {name: each.detach() for name, each in run.model.state_dict().items()}


@pytest.mark.parametrize("start", ["base", "recurrent"])
def test_the_first_step_finds_what_the_run_knows(start, request, tmp_path):
    start = request.getfixturevalue(start)
    run = train(COWS, start=start, path=tmp_path / "cows", **QUICK)
    first = next(event for event in run.metrics if event["event"] == "evaluation")
    before = run.trained["before"]
    assert first["step"] == 0 and first["loss"] == pytest.approx(before["loss"], rel=1e-5)
    assert run.trained["validation"]["bits_per_byte"] < before["bits_per_byte"]
    assert run.tokenizer.fingerprint == start.tokenizer.fingerprint
    assert run.config["training"]["start"].endswith(start.name)


def test_what_a_run_was_is_measured_on_the_same_text(base, tmp_path):
    text = tmp_path / "cows.txt"
    text.write_text("\n".join(COWS) + "\n", encoding="utf-8")
    run = train(COWS[:4], start=base, path=tmp_path / "cows", validation=text, **QUICK)
    assert run.trained["before"]["bits_per_byte"] == pytest.approx(
        chainrule.load(base.path).evaluate(text)["bits_per_byte"], rel=1e-5
    )


def test_training_that_spoils_the_weights_leaves_them_as_they_were(base, tmp_path):
    run = train(COWS, start=base, path=tmp_path / "cows", learning_rate=3.0, **QUICK)
    assert run.trained["best_step"] == 0
    assert run.trained["validation"]["loss"] == pytest.approx(run.trained["before"]["loss"])
    assert_same_tensors(weights(run), weights(base))


def test_only_the_top_learns_with_top_layers(base, tmp_path):
    run = train(COWS, start=base, path=tmp_path / "cows", top_layers=1, **QUICK)
    changed = {name for name, each in weights(run).items() if not torch.equal(each, weights(base)[name])}
    assert changed
    assert all(name.startswith(("blocks.2.", "norm.")) for name in changed), changed
    assert not (run.path / "trunk.bin").exists()


def test_a_kept_trunk_changes_nothing(base, tmp_path, monkeypatch):
    settings = QUICK | {"top_layers": 2, "steps": 24}
    kept = train(COWS, start=base, path=tmp_path / "kept", **settings)
    read = []
    monkeypatch.setattr(learn, "Trunk", lambda model, blocks, path: Trunk(model, blocks, path, most_bytes=32 * 4))
    monkeypatch.setattr(Model, "read_trunk", lambda *given, own=Model.read_trunk: read.append(1) or own(*given))
    anew = train(COWS, start=base, path=tmp_path / "anew", **settings)
    assert len(read) == 24 * 4  # every row of every step
    for name, each in weights(kept).items():
        torch.testing.assert_close(each, weights(anew)[name], rtol=0, atol=1e-6)


def test_what_is_kept_of_a_row_is_what_all_blocks_make_of_it(base, tmp_path):
    model = begin_from(base, base.model.config, base.tokenizer).eval()
    trunk = Trunk(model, 2, tmp_path / "trunk.bin")
    tokens = torch.from_numpy(base.tokenizer.encode("the cows eat")[None].astype(np.int64))
    for _ in range(2):  # computed, then kept
        hidden = model.read_on(trunk.read(tokens), 2)
        torch.testing.assert_close(model.output(hidden), model(tokens), rtol=0, atol=1e-5)


def test_lora_keeps_its_updates_apart_and_in_the_weights(base, tmp_path):
    run = train(COWS, start=base, path=tmp_path / "cows", lora=True, lora_rank=4, **QUICK)
    adapter = load_adapter(run.path / ADAPTER)
    assert adapter.base.name == base.name and adapter.settings.rank == 4
    assert (run.path / ADAPTER).stat().st_size < (run.path / "model.safetensors").stat().st_size
    model = begin_from(base, base.model.config, base.tokenizer)
    adapt.choose_weights(model, replace(Recipe(), lora=True, lora_rank=4))
    load_lora(model, adapter.arrays)
    fold_lora(model)
    assert_same_tensors(model.state_dict(), weights(run))
    assert run.trained["validation"]["loss"] < run.trained["before"]["loss"]


def test_lora_of_the_top_alone(base, tmp_path):
    run = train(
        COWS, start=base, path=tmp_path / "cows", lora=True, top_layers=1, lora_matrices=["query", "down"], **QUICK
    )
    changed = {name for name, each in weights(run).items() if not torch.equal(each, weights(base)[name])}
    assert changed == {"blocks.2.attention.query_key_value.weight", "blocks.2.feedforward.output.weight"}


@pytest.mark.parametrize("settings", [{}, {"lora": True, "lora_dropout": 0.2}, {"top_layers": 1}])
def test_a_resumed_training_equals_one_without_interruption(base, settings, tmp_path, monkeypatch):
    settings = QUICK | settings | {"path": tmp_path / "cows", "micro_batches": 2}
    whole = weights(train(COWS, start=base, **settings))

    def stop(self, request, own=trainer.Trainer._stop_if_asked):
        request.signal = 15 if self.position.step == 3 else None
        own(self, request)

    with monkeypatch.context() as patched:
        patched.setattr(trainer.Trainer, "_stop_if_asked", stop)
        with pytest.raises(Stopped, match="resume with"):
            train(COWS, start=base, **settings)
    resumed = Run(resume(tmp_path / "cows").path)
    assert_same_tensors(weights(resumed), whole)


def test_micro_batches_change_nothing(base, tmp_path):
    one, four = (
        weights(train(COWS, start=base, path=tmp_path / "cows", micro_batches=count, optimizer="sgd", **QUICK))
        for count in (1, 4)
    )
    for name, each in one.items():
        torch.testing.assert_close(each, four[name], rtol=0, atol=1e-5)


def test_new_tokens_leave_the_others_as_they_were(base):
    size, more = base.model.vocabulary_size, 3
    longer = SimpleNamespace(vocabulary_size=size + more, eos=base.tokenizer.eos)
    model = begin_from(base, base.model.config, longer).eval()
    tokens = torch.tensor([[1, 2, 3, 4]])
    torch.testing.assert_close(model(tokens)[..., :size], base.model(tokens))
    torch.testing.assert_close(model.embedding.weight[size:], base.model.embedding.weight.mean(0).expand(more, -1))


def test_a_run_that_training_began_from_must_be_there_to_resume(base, tmp_path, monkeypatch):
    moved = tmp_path / "moved"
    train(SHEEP, model="transformer", size="gpt2-tiny", steps=1, path=moved, **SMALL)

    def stop(self, request, own=trainer.Trainer._stop_if_asked):
        request.signal = 15
        own(self, request)

    with monkeypatch.context() as patched:
        patched.setattr(trainer.Trainer, "_stop_if_asked", stop)
        with pytest.raises(Stopped):
            train(COWS, start=moved, path=tmp_path / "cows", **QUICK)
    moved.rename(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="the run that training began from, .* is gone; restore it"):
        resume(tmp_path / "cows")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"start": "counted"}, "is of kind ngram, which has no weights that learn by gradient; begin from a network"),
        ({"start": "base", "model": "lstm"}, "is of kind transformer, not lstm; leave the model out"),
        ({"start": "base", "size": "small"}, "the model is that of .*, so it takes no size; leave it out"),
        (
            {"start": "base", "tokenizer": "words"},
            "the tokenizer is that of .*; leave out all options of the tokenizer",
        ),
        ({"start": "base", "width": 64}, "width is 32 in .*, and training that begins from it cannot change that"),
        ({"start": "base", "top_layers": 7}, "top_layers must be at most 3, the blocks of the model, got 7"),
        ({"start": "recurrent", "top_layers": 1}, "top_layers is for models of blocks, such as transformers"),
        ({"lora": True}, "lora is for training that begins from a run; name one with --from"),
        ({"start": "base", "lora": True, "lora_rank": 0}, "lora_rank must be"),
        ({"start": "base", "lora": True, "lora_matrices": ["queries"]}, "lora_matrices must be one of"),
        ({"start": "runs/none"}, "run 'runs/none' not found"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(settings, sentence, base, recurrent, tmp_path):
    if settings.get("start") == "counted":
        settings = settings | {"start": train(SHEEP, path=tmp_path / "counted")}
    named = {"base": base, "recurrent": recurrent}
    settings = settings | ({"start": named.get(settings["start"], settings["start"])} if "start" in settings else {})
    with pytest.raises(UserError, match=sentence):
        train(COWS, path=tmp_path / "cows", **(QUICK | settings))
    assert not (tmp_path / "cows").exists()


def test_dropout_may_be_changed(base, tmp_path):
    run = train(COWS, start=base, path=tmp_path / "cows", dropout=0.2, **QUICK)
    assert run.config["model"]["dropout"] == 0.2 and base.config["model"]["dropout"] == 0.0


FARMS = [
    f"the {n} cows of the {farm} farm eat {food} and the {n} sheep of the hill sleep"
    for n in ("two", "three", "four", "six", "ten")
    for farm in ("far", "new", "old", "red", "big")
    for food in ("hay", "corn", "grass")
]


def test_minutes_make_an_ensemble_that_a_network_from_a_run_is_a_part_of(base, tmp_path):
    run = Run(chainrule.train(chainrule.Texts(FARMS), start=base, minutes=0.15, path=tmp_path / "cows").path)
    validation, before = run.trained["validation"], run.trained["before"]
    assert run.architecture == "ensemble"
    assert validation["bits_per_byte"] < before["bits_per_byte"]
    assert before["bits_per_byte"] == pytest.approx(bits_of(base, run), rel=1e-3)
    assert (
        any(part["architecture"] == "tokennetwork" for part in validation["parts"]) or validation["bits_per_byte"] < 0.5
    )


def bits_of(start: Run, run: Run) -> float:
    """What a run predicts of the text that another one kept aside, by its own tokens."""
    shards = run.shards("validation")
    found = [start.model.score(stream_of(start.tokenizer, each)) for each in shards.documents(run.tokenizer)]
    return -float(np.concatenate(found).astype(np.float64).sum()) / np.log(2) / shards.part.text_bytes


def test_minutes_mix_in_what_counting_knows_where_it_pays(recurrent, tmp_path):
    """Of a network that cannot be seen byte by byte, which has hardly begun to learn the text."""
    run = Run(chainrule.train(chainrule.Texts(FARMS), start=recurrent, minutes=0.02, path=tmp_path / "cows").path)
    validation, before = run.trained["validation"], run.trained["before"]
    assert validation["bits_per_byte"] < before["bits_per_byte"]
    assert run.architecture == "mix"
    assert validation["bits_per_byte"] < 1.01 * min(part["bits_per_byte"] for part in validation["parts"])
    assert validation["bits_per_byte"] == pytest.approx(bits_of(run, run), rel=1e-5)


def test_what_training_changed_is_told_side_by_side(base, tmp_path):
    run = train(COWS, start=base, path=tmp_path / "cows", **QUICK)
    neutral = run.trained["neutral"]
    for name, model in (("before", base.model), ("after", run.model)):
        assert neutral[name] == pytest.approx(neutral_bits(model, run.tokenizer), rel=1e-5)
    answers = (run.path / "report" / "answers.md").read_text(encoding="utf-8")
    assert answers.count("- before: ") == answers.count("- after: ") == 3
    assert "<svg" in (run.path / "report" / "before-after.svg").read_text(encoding="utf-8")


def neutral_bits(model, tokenizer):
    """Of the documents in the first 10,000 bytes of Python's documentation."""
    batch = next(Corpus(["builtin:python-docs"]).batches())
    documents = batch.select(np.cumsum(batch.sizes) <= 10_000)
    nats = -float(model.score(stream_of(tokenizer, documents)).astype(np.float64).sum())
    return nats / np.log(2) / documents.sizes.sum()


def test_training_stops_where_it_only_gets_worse(base, tmp_path):
    settings = QUICK | {"steps": 400, "evaluations": 40, "patience": 3, "learning_rate": 1.0}
    run = train(COWS, start=base, path=tmp_path / "cows", **settings)
    evaluations = [event for event in run.metrics if event["event"] == "evaluation"]
    best = min(range(len(evaluations)), key=lambda place: evaluations[place]["loss"])
    assert len(evaluations) == best + 1 + 3
    assert run.trained["steps"] == evaluations[-1]["step"] < 400
