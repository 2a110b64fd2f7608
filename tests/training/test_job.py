"""What a training writes down before it starts, and what may not change until it ends."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from chainrule.errors import UserError
from chainrule.models.gru import SIZES
from chainrule.runs.folder import describe_files
from chainrule.training.job import Job, hash_tokens
from chainrule.training.recipe import Recipe


@pytest.fixture
def job() -> Job:
    return Job(
        architecture="gru",
        model=asdict(SIZES["tiny"]),
        recipe=asdict(Recipe(steps=50, tokens=None, learning_rate=0.003)),
        data={"inputs": ["cows.txt"]},
        notes=["one"],
        started_at=12.5,
        overwrite=False,
        files=[],
        tokens={"tokens/index.json": "ab"},
        why=[],
    )


def test_read_is_what_was_written(job, tmp_path):
    job.write(tmp_path)
    assert Job.read(tmp_path) == job
    assert [path.name for path in tmp_path.iterdir()] == ["training.json"]


def test_it_builds_the_same_model_and_recipe(job):
    module, config, recipe = job.build()
    assert module.__name__ == "chainrule.models.gru"
    assert config == SIZES["tiny"]
    assert recipe == Recipe(steps=50, learning_rate=0.003)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"architecture": "gru"}'])
def test_a_damaged_one_is_one_sentence(tmp_path, text):
    (tmp_path / "training.json").write_text(text)
    with pytest.raises(UserError, match="training.json' is missing or damaged .*train again with --overwrite"):
        Job.read(tmp_path)


def test_a_checkpoint_of_the_same_job_belongs(job):
    job.check_belongs(job.fingerprint)
    job.check_belongs(replace(job, started_at=99.0, notes=[], why=["other"]).fingerprint)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"architecture": "lstm"}, "architecture has changed since training began: it is gru .* made with lstm"),
        ({"tokens": {"tokens/index.json": "ab", "tokens/sources.json": "ef"}}, "tokens has changed"),
        ({"tokens": {"tokens/index.json": "cd"}}, "tokens has changed"),
    ],
)
def test_a_checkpoint_of_another_job_is_refused_by_name(job, changes, sentence):
    with pytest.raises(UserError, match=sentence):
        job.check_belongs(replace(job, **changes).fingerprint)


def test_a_setting_that_has_changed_is_named_with_both_values(job):
    other = replace(job, recipe=job.recipe | {"batch_size": 99})
    with pytest.raises(UserError, match="batch_size has changed .*: it is 16 in training.json.* made with 99"):
        job.check_belongs(other.fingerprint)
    newer = replace(job, recipe=job.recipe | {"invented": 1})
    with pytest.raises(UserError, match="invented has changed"):
        job.check_belongs(newer.fingerprint)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"steps": 50},
        {"steps": "50"},
        {"model": "gru"},
        {"learning_rate": "0.0030"},
        {"width": "32"},
        {"tied": "True"},
    ],
)
def test_what_was_asked_for_before_may_be_asked_for_again(job, asked):
    job.check_settings(asked)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"steps": 60}, "steps is 50 in the unfinished training, but 60 was asked for"),
        ({"model": "lstm"}, "model is gru in the unfinished training, but lstm was asked for"),
        ({"minutes": 3.0}, "minutes is None in the unfinished training, but 3.0 was asked for"),
        ({"size": "large"}, "'size' cannot be given when resuming"),
    ],
)
def test_anything_else_is_refused_by_name(job, asked, sentence):
    with pytest.raises(UserError, match=sentence):
        job.check_settings(asked)


def test_every_file_that_training_reads_is_hashed(tmp_path):
    (tmp_path / "tokens").mkdir()
    names = ["tokenizer.json", "tokens/index.json", "tokens/train-00000.bin", "tokens/validation-00000.bin"]
    for name in names:
        (tmp_path / name).write_text(name)
    before = hash_tokens(tmp_path)
    assert sorted(before) == names
    (tmp_path / names[2]).write_text("other")
    after = hash_tokens(tmp_path)
    assert [name for name in names if before[name] != after[name]] == [names[2]]


def test_a_shard_that_is_gone_or_new_is_named(job, tmp_path):
    (tmp_path / "tokens").mkdir()
    (tmp_path / "tokens" / "index.json").write_text("{}")
    (tmp_path / "tokens" / "train-00000.bin").write_text("ab")
    job = replace(job, tokens=hash_tokens(tmp_path))
    job.check_unchanged(tmp_path)
    (tmp_path / "tokens" / "train-00001.bin").write_text("ab")
    with pytest.raises(UserError, match="train-00001.bin' has changed"):
        job.check_unchanged(tmp_path)
    (tmp_path / "tokens" / "train-00001.bin").unlink()
    (tmp_path / "tokens" / "train-00000.bin").unlink()
    with pytest.raises(UserError, match="train-00000.bin' has changed"):
        job.check_unchanged(tmp_path)


def test_the_users_files_are_described_and_compared(job, tmp_path):
    file = tmp_path / "cows.txt"
    file.write_text("moo")
    described = describe_files([str(file), str(tmp_path / "absent")])
    assert [(Path(each["path"]), each["bytes"]) for each in described] == [(file, 3)]
    (tmp_path / "tokens").mkdir()
    job = replace(job, files=described, tokens={})
    job.check_unchanged(tmp_path)
    file.write_text("moa")
    with pytest.raises(UserError, match="cows.txt' has changed since training began"):
        job.check_unchanged(tmp_path)
    file.unlink()
    job.check_unchanged(tmp_path)  # it was read already: the tokens are here
