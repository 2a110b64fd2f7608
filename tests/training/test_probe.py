"""What a model in training expects now and then, against its own scores, and the same after an interruption."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import chainrule
from chainrule.api import resume
from chainrule.errors import Stopped
from chainrule.tasks._probe import CONTEXT_TOKENS, TOP, Contexts
from chainrule.training.journal import events
from chainrule.training.trainer import PROBES, probes_due
from tests.training.trainings import EOS, FAMILIES, HARD, StopAt, build, go_on, stream, train_with_stops, without_times


class Letters:
    """A tokenizer of eleven tokens: a to j, and the end."""

    eos = EOS

    def decode(self, ids):
        return "".join("abcdefghij"[id] for id in ids)

    def token_text(self, id):
        return "<eos>" if id == EOS else "abcdefghij"[id]


def test_moments_are_dense_in_the_beginning_and_end_at_the_end():
    assert [probes_due((n / PROBES) ** 2) for n in range(PROBES + 1)] == list(range(PROBES + 1))
    assert probes_due(0.25) == PROBES // 2
    assert probes_due(1.7) == PROBES


@pytest.mark.parametrize("architecture", FAMILIES)
def test_a_look_is_what_the_model_gives_after_that_context(architecture):
    text, model = stream(3, 40), build(architecture)
    model.train()
    chosen = Contexts.choose(text, EOS)
    looks = chosen.look(model, Letters())
    assert model.training
    model.eval()
    assert len(looks) == 4
    for ids, following, look in zip(chosen.ids, chosen.following, looks, strict=True):
        assert ids.shape == (CONTEXT_TOKENS,)
        with torch.no_grad():
            logits, _ = model.step(ids[None], model.start(1))
        p = np.exp(logits[0, -1].double().numpy())
        p /= p.sum()
        assert look["probability"] == pytest.approx(p[following], rel=1e-3)
        assert look["token"] == Letters().token_text(int(following))
        likeliest = sorted(range(len(p)), key=lambda id: -p[id])[:TOP]
        assert look["top"] == [[Letters().token_text(id), pytest.approx(p[id], rel=1e-3)] for id in likeliest]
        shown = "".join(Letters().token_text(int(id)) for id in ids).rpartition("<eos>")[2]
        assert look["context"] == shown


def test_contexts_stand_before_what_follows_them_and_inside_of_documents():
    text = stream(3, 40)
    chosen = Contexts.choose(text, EOS)
    written = " ".join(map(str, text))
    for ids, following in zip(chosen.ids, chosen.following, strict=True):
        assert " ".join(map(str, [*ids, following])) in written
        assert following != EOS
        assert ids[-1] != EOS


def test_short_texts_have_few_contexts_or_none():
    assert Contexts.choose(np.array([EOS], np.uint16), EOS) is None
    short = Contexts.choose(np.array([EOS, 3, EOS], np.uint16), EOS)
    assert (short.ids.tolist(), short.following.tolist()) == ([[EOS, 3]], [EOS])


def looking(folder, stops=()):
    """The steps at which a training looks; what it sees does not matter here."""
    train_with_stops(folder, "lstm", HARD, stops, lambda: {"probe": list})
    return [event["step"] for event in events(folder / "metrics.jsonl") if event["event"] == "probe"]


def test_looks_come_before_the_first_step_and_with_the_last(tmp_path):
    due = [math.floor(PROBES * math.sqrt((step - 0.5) / HARD.steps)) for step in range(1, HARD.steps)] + [PROBES]
    expected = [0] + [step for step, (before, now) in enumerate(pairwise([0, *due]), 1) if now > before]
    assert looking(tmp_path / "whole") == expected == looking(tmp_path / "pieces", stops=(1, 5, 6, 13))


@pytest.mark.parametrize("architecture", ["gru", "transformer"])
def test_a_resumed_training_has_the_looks_of_one_without_interruption(architecture, tmp_path, text, monkeypatch):
    """In whole runs: the weights looked at are those of the moment, so any difference would be seen."""
    settings = {"size": "tiny", "tokenizer": "characters", "steps": 12, "checkpoint_seconds": 0.0, "ema": 0.9}
    whole = chainrule.train(text, model=architecture, path="runs/whole", **settings)
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr("chainrule.training.learn.View", lambda: StopAt(5))
        chainrule.train(text, model=architecture, path="runs/pieces", **settings)
    pieces = resume("runs/pieces")
    ours, theirs = (
        [each for each in without_times(run.metrics) if each["event"] == "probe"] for run in (pieces, whole)
    )
    assert ours == theirs
    assert [each["step"] for each in ours][:2] == [0, 1]
    assert ours[-1]["step"] == 12
    first, last = ours[0]["contexts"], ours[-1]["contexts"]
    assert [each["context"] for each in first] == [each["context"] for each in last]
    assert [each["probability"] for each in first] != [each["probability"] for each in last]


def test_what_is_expected_becomes_sharp(text):
    run = chainrule.train(text, model="gru", size="tiny", tokenizer="characters", steps=150, path="runs/cows")
    looks = [each["contexts"] for each in run.metrics if each["event"] == "probe"]
    surprise = [np.mean([-math.log2(each["probability"]) for each in contexts]) for contexts in looks]
    assert surprise[-1] < surprise[0] / 2


def test_without_validation_text_the_training_text_is_looked_at(tmp_path):
    text = tmp_path / "one.txt"
    text.write_text("only one document, and all that is in it is there to train on")
    run = chainrule.train(
        text, model="bow", size="tiny", tokenizer="characters", steps=2, path="runs/one", validation_fraction=0
    )
    look = next(each for each in run.metrics if each["event"] == "probe")["contexts"][0]
    assert look["context"] + look["token"] in text.read_text()


def test_looking_changes_nothing_of_the_training(tmp_path):
    """Neither the weights nor the random numbers of what comes after."""
    recipe = replace(HARD, ema=0.0)
    model = build("lstm", 0.1)
    contexts = Contexts.choose(stream(3, 40), EOS)
    plain, _ = go_on(tmp_path / "plain", "lstm", recipe)
    looked, _ = go_on(tmp_path / "looked", "lstm", recipe, probe=lambda: contexts.look(model, Letters()))
    for name, tensor in plain.model.state_dict().items():
        assert torch.equal(tensor, looked.model.state_dict()[name])
