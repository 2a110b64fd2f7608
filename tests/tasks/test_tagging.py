"""Tagging as a task: what is prepared, batched and measured."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from chainrule.data import conllu
from chainrule.data.split import Splitting
from chainrule.errors import UserError
from chainrule.models import tagger
from chainrule.tasks.base import Material
from chainrule.tasks.tagging import Settings, Task
from chainrule.text.choice import Tokenization
from tests.tagging.treebank import row, write

RECIPE = SimpleNamespace(batch_size=4, window=16, seed=0)


@pytest.fixture
def texts(tmp_path: Path) -> tuple[str, str]:
    for name, count, seed in (("train", 60, 0), ("dev", 10, 1)):
        (tmp_path / f"{name}.conllu").write_text(write(count, seed))
    return str(tmp_path / "train.conllu"), str(tmp_path / "dev.conllu")


def make(folder: Path, material: Material, settings: Settings | None = None) -> Task:
    folder.mkdir(parents=True)
    settings = settings or Settings()
    Task.prepare(material, settings, Task.open_data(material, settings), folder)
    return Task(folder)


@pytest.fixture
def task(texts, tmp_path: Path) -> Task:
    return make(tmp_path / "run", Material(texts[:1], texts[1:]))


def test_what_was_read_is_kept_word_for_word(task: Task, texts):
    assert conllu.write(task.train) == Path(texts[0]).read_text()
    assert conllu.write(task.held_out) == Path(texts[1]).read_text()
    assert task.tagset.purpose == ("upos", "xpos")


def test_words_seen_once_are_unknown(tmp_path: Path):
    text = "\n".join([row(1, "twice", "X", "_"), row(2, "twice", "X", "_"), row(3, "once", "X", "_"), "", ""])
    (tmp_path / "a.conllu").write_text(text)
    path = (str(tmp_path / "a.conllu"),)
    task = make(tmp_path / "run", Material(path, path))
    unknown = task.tokenizer.unknown
    assert task.vocabulary.ids(["once", "never"]).tolist() == [unknown, unknown]
    assert task.vocabulary.ids(["twice"])[0] not in (unknown, task.tokenizer.eos)


def test_an_epoch_reads_every_word_with_its_tags_once(task: Task):
    batches = task.batches(RECIPE)
    seen = []
    for step in range(len(batches.buckets)):
        window = batches.batch(step)
        for tags, length in zip(window.targets, window.condition["lengths"], strict=True):
            assert (tags[length:] == -100).all()
            seen.append(tuple(map(tuple, tags[:length])))
    assert sorted(seen) == sorted(tuple(map(tuple, task.tagset.numbers(each))) for each in task.train)
    assert batches.epochs(len(batches.buckets)) == [1.0]
    assert batches.tokens_per_epoch == sum(len(each.words) for each in task.train)


def test_words_are_dropped_as_often_as_they_are_rare(texts, tmp_path: Path):
    """α / (α + c), over many epochs, and the same words in the same step whenever it is asked for."""
    task = make(tmp_path / "run", Material(texts[:1], texts[1:]), Settings(unknown_words=20.0))
    batches = task.batches(RECIPE)
    word = "we"
    count = sum(each.words.count(word) for each in task.train)
    epochs = 40
    found = sum(
        int((batches.batch(step).inputs == task.vocabulary.ids([word])[0]).sum())
        for step in range(epochs * len(batches.buckets))
    )
    assert found / (epochs * count) == pytest.approx(count / (20 + count), abs=0.05)
    assert np.array_equal(batches.batch(3).inputs, batches.batch(3).inputs)


def test_without_a_validation_file_sentences_are_kept_aside(texts, tmp_path: Path):
    by_hash = make(tmp_path / "a", Material(texts[:1], splitting=Splitting(0.3)))
    tail = make(tmp_path / "b", Material(texts[:1], splitting=Splitting(0.25, "tail")))
    for task in (by_hash, tail):
        assert len(task.train) + len(task.held_out) == 60
    assert len(tail.held_out) == 15
    kept = {each.words for each in by_hash.held_out}
    assert kept
    assert not kept & {each.words for each in by_hash.train}  # equal sentences are never parted


def test_the_accuracy_that_chooses_weights_is_that_of_the_tags_given(task: Task):
    model = task.build(tagger, task.complete(tagger.SIZES["tiny"]), 0)
    found = task.validation(RECIPE)(model)
    given = task.tagger(model).tag([each.words for each in task.held_out])
    pairs = [
        (a, b) for each, tags in zip(task.held_out, given, strict=True)
        for a, b in zip(each.column("upos"), tags["upos"], strict=True)
    ]  # fmt: skip
    accuracy = 100 * sum(a == b for a, b in pairs) / len(pairs)
    assert found.figures["UPOS accuracy"] == pytest.approx(accuracy)
    assert found.rank == pytest.approx(100 - accuracy)
    final = task.evaluate(model, RECIPE)
    assert final["figures"]["UPOS accuracy"] == pytest.approx(accuracy)
    assert final["figures"]["UPOS by hidden Markov"] == 100.0


def test_the_validation_loss_is_the_models_own(task: Task):
    model = task.build(tagger, task.complete(tagger.SIZES["tiny"]), 0).eval()
    batches = task.batches(SimpleNamespace(batch_size=1000, window=1000, seed=0))
    batches.dropped[:] = 0
    task.held_out = task.train
    window = batches.batch(0)
    condition = {name: torch.from_numpy(each) for name, each in window.condition.items()}
    from chainrule.models.contract import Batch

    loss = model.loss(Batch(torch.from_numpy(window.inputs), torch.from_numpy(window.targets), condition))
    assert task.validation(RECIPE)(model).figures["loss"] == pytest.approx(float(loss.mean.detach()), rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"columns": "upos colour"}, "columns must be among lemma, upos, xpos, feats, head, deprel, got 'colour'"),
        ({"unknown_words": -1.0}, "unknown_words must be a number of at least 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        Settings(**settings)


def test_other_tokenizers_are_refused(texts, tmp_path: Path):
    with pytest.raises(UserError, match="so it takes no tokenizer such as bpe"):
        make(tmp_path / "run", Material(texts[:1], tokenization=Tokenization("bpe")))


def test_a_word_of_spaces_alone_is_a_word(tmp_path: Path):
    text = "".join(row(1, word, "X", "Y") + "\n\n" for word in ["\u00a0", "a", "b", "a", "c", "b"])
    (tmp_path / "a.conllu").write_text(text)
    task = make(tmp_path / "run", Material((str(tmp_path / "a.conllu"),), splitting=Splitting(0.5, "tail")))
    assert (len(task.train), len(task.held_out)) == (3, 3)
    assert task.vocabulary.ids(["\u00a0"]).tolist() == [task.tokenizer.unknown]


def test_a_column_is_learned_once(texts, tmp_path: Path):
    task = make(tmp_path / "run", Material(texts[:1], texts[1:]), Settings(columns="upos, upos"))
    assert task.tagset.columns == ("upos",)
