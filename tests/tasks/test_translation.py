"""Translation from a file of pairs to a run that translates; and tasks as training sees them."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import chainrule
from chainrule.api.pairs import load_pairs_run
from chainrule.errors import UserError
from chainrule.generation.beam import Beam
from chainrule.models.contract import Batch, cross_entropy
from chainrule.runs.folder import Run
from chainrule.tasks._batches import training_batch
from chainrule.text.choice import Tokenization
from chainrule.training.pipeline import train
from chainrule.training.recipe import Recipe
from tests.shared_data import FOLDER, requires
from tests.tasks.toys import request, sentences, translate, write_pairs


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned the toy language."""
    folder = tmp_path_factory.mktemp("translation")
    path = folder / "toy"
    train(request(write_pairs(folder / "pairs.tsv", 800), path, steps=300, lowercase=True))
    return path


def test_what_was_learned_is_said(run):
    loaded = load_pairs_run(run)
    new = sentences(40, seed=9)
    written = loaded.task.write(loaded.model, new, Beam(width=3))
    right = [each.texts[0] == translate(source) for source, each in zip(new, written, strict=True)]
    assert sum(right) >= 32
    assert loaded.task.write(loaded.model, ["ROT Blau"], Beam(width=3))[0].texts[0] == "blue red"


def test_the_same_from_python(run):
    loaded = chainrule.load_pairs(run)
    assert loaded.translate("rot blau") == "blue red"
    assert loaded.translate(["neu", "alt"], width=2) == ["new", "old"]
    with pytest.raises(UserError, match="unknown setting 'widht' in translate; did you mean 'width'"):
        loaded.translate("rot", widht=2)


def test_a_line_is_translated_the_same_alone_and_among_others(run):
    loaded = load_pairs_run(run)
    lines = ["rot", "", "klein gross alt neu", "blau blau"]
    together = loaded.task.write(loaded.model, lines, Beam(width=4, samples=3))
    for line, each in zip(lines, together, strict=True):
        alone = loaded.task.write(loaded.model, [line], Beam(width=4, samples=3))[0]
        assert alone.texts == each.texts
        assert [a.score for a in alone.found] == pytest.approx([b.score for b in each.found], rel=1e-4)
    assert together[1].texts == [""]


def test_a_source_by_itself_has_the_ids_that_it_has_among_others(run):
    task = load_pairs_run(run).task
    texts = ["rot blau", " ROT\n", "", " \t", "é 語 \U0001f600 x", "rot<eos>blau", "rot\nneu", "\u0378 alt"]
    for text, ids in zip(texts, task.encode_sources(texts), strict=True):
        assert task.encode_source(text).tolist() == ids.tolist()
    assert [len(task.encode_source(text)) for text in texts[:4]] == [2, 1, 0, 0]


def test_the_figures_of_a_run_can_be_found_again(run):
    loaded = load_pairs_run(run)
    measured = loaded.run.metrics[-1]["validation"]
    kept = loaded.task.held_out
    assert measured["documents"] == len(kept)
    total = count = 0
    for source, target in zip(kept.sources, kept.targets, strict=True):
        eos = loaded.task.tokenizer.eos
        window = training_batch([loaded.task.encode_source(source)], [loaded.task.encode_target(target)], (eos, eos))
        logits, _ = loaded.model.step(window.inputs, loaded.model.start(1, window.condition))
        loss = cross_entropy(logits.detach(), torch.from_numpy(window.targets))
        total, count = total + float(loss.total), count + loss.count
    assert measured["loss"] == pytest.approx(total / count, rel=1e-4)
    assert measured["tokens"] == count
    assert measured["figures"]["BLEU"] > 80


def test_training_and_validation_share_no_source(run):
    loaded = load_pairs_run(run)
    from chainrule.tasks._pairs import _load

    learned = {tuple(each) for each in _load(run / "tokens" / "train.safetensors")[0]}
    held_out = [tuple(loaded.task.encode_source(text)) for text in loaded.task.held_out.sources]
    assert held_out and not learned & set(held_out)


def test_other_commands_refuse_such_a_run_in_one_sentence(run):
    with pytest.raises(UserError, match="is a run for translation, but a run for language is needed"):
        Run(run)


def test_separate_vocabularies_are_kept_in_the_run(tmp_path):
    path = tmp_path / "apart"
    train(request(write_pairs(tmp_path / "pairs.tsv"), path, steps=3, shared="false"))
    loaded = load_pairs_run(path)
    assert loaded.task.source_tokenizer.vocabulary_size == loaded.model.config.source_vocabulary_size
    assert loaded.task.source_tokenizer.decode(loaded.task.encode_source("rot neu")) == "rot neu"
    assert loaded.task.tokenizer.fingerprint != loaded.task.source_tokenizer.fingerprint
    assert loaded.task.write(loaded.model, ["rot"], Beam(width=2))[0].texts
    loaded.task.source_tokenizer = SimpleNamespace(eos=5000)  # another than the target's
    learned = loaded.task.batches(Recipe()).batch(0)
    assert set(learned.condition["source"][:, -1].tolist()) == {5000}
    assert 5000 not in learned.inputs
    assert loaded.task.condition([np.array([1])])["source"].tolist() == [[1, 5000]]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"model": "lstm"}, "translation cannot be learned by lstm .it can by: conditional"),
        ({"task": "translatoin"}, "unknown task 'translatoin'; did you mean 'translation'"),
        ({"settings": {"lowercas": True}}, "unknown setting 'lowercas'; did you mean 'lowercase'"),
        ({"settings": {"lowercase": "maybe"}}, "lowercase in the settings of translation must be of type bool"),
        ({"settings": {"most_tokens": 0}}, "most_tokens must be at least 1, got 0"),
        ({"settings": {"validated": 0}}, "validated must be at least 1, got 0"),
    ],
)
def test_mistakes_are_told(tmp_path, settings, sentence):
    asked = request(write_pairs(tmp_path / "pairs.tsv", 30), tmp_path / "run", steps=1)
    with pytest.raises(UserError, match=sentence):
        train(replace(asked, **settings))
    assert not (tmp_path / "run").exists()


def test_plain_text_is_not_learned_by_a_conditional_model(tmp_path):
    (tmp_path / "text.txt").write_text("a text\n" * 30)
    asked = request(tmp_path / "text.txt", tmp_path / "run", task="language")
    with pytest.raises(
        UserError, match="conditional is a model for translation, not for plain text; .* --task translation"
    ):
        train(replace(asked, model="conditional", settings={"steps": 1}))


def test_a_source_that_is_too_long_is_refused_by_its_line(run):
    loaded = load_pairs_run(run)
    with pytest.raises(
        UserError, match="line 2 has 300 tokens but this model reads 255; shorten it or pass truncate=True"
    ):
        loaded.task.write(loaded.model, ["rot", "rot " * 300], Beam(width=1))
    assert loaded.task.write(loaded.model, ["rot " * 300], Beam(width=1, max_tokens=5), truncate=True)[0].texts


def test_summaries_are_learned_by_the_same_model(tmp_path):
    path = tmp_path / "short"
    lines = [json.dumps({"article": f"{each} {each}", "summary": translate(each)}) for each in sentences(60)]
    (tmp_path / "news.jsonl").write_text("\n".join(lines))
    asked = request(tmp_path / "news.jsonl", path, "summarisation", steps=2, source="article", target="summary")
    train(asked)
    assert Run(path, task="summarisation").config["data"]["most_tokens"] == 1000
    assert load_pairs_run(path).task.held_out.targets


def test_long_articles_are_read_whole(tmp_path):
    """Up to most_tokens, which a model is made to read; longer ones are left out of both parts, and counted."""
    lengths = [3, 300, 600, 1200]
    rows = [
        json.dumps({"source": "rot " * lengths[i % 4], "target": f"{each} neu"}) for i, each in enumerate("abcdefgh")
    ]
    for name in ("train.jsonl", "dev.jsonl"):
        (tmp_path / name).write_text("\n".join(rows))
    asked = request(tmp_path / "train.jsonl", tmp_path / "run", "summarisation", steps=1)
    trained = train(replace(asked, validation=(str(tmp_path / "dev.jsonl"),)))
    loaded = load_pairs_run(tmp_path / "run")
    assert loaded.task.longest(loaded.model) == 1000
    assert len(loaded.task.held_out) == 6
    left_out = [note for note in trained.config["notes"] if "more than 1000 tokens were left out" in note]
    assert [note.split(" pairs")[0] for note in left_out] == ["2 train", "2 validation"]
    assert loaded.task.write(loaded.model, ["rot " * 900], Beam(width=1, max_tokens=2))[0].texts


def test_bits_per_byte_are_said_only_where_all_text_can_be_written(run, tmp_path):
    closed = replace(request(write_pairs(tmp_path / "pairs.tsv", 60), tmp_path / "closed", steps=1))
    train(replace(closed, tokenization=Tokenization("words", closed_vocabulary=True)))
    ends = [(path / "metrics.jsonl").read_text().splitlines()[-1] for path in (run, closed.path)]
    found = [json.loads(end)["validation"]["bits_per_byte"] for end in ends]
    assert found[0] > 0 and found[1] is None


def test_teacher_forcing_feeds_guesses_in_place_of_words(run):
    """With none of it, all that is read after the first word is what the model would have said."""
    model = load_pairs_run(run).model
    config = model.config
    window = training_batch([np.array([1, 2])], [np.array([3, 4, 5])], (model.eos, model.eos))
    batch = Batch(window.inputs, window.targets, window.condition)
    logits, _ = model.step(window.inputs, model.start(1, window.condition))
    guesses = logits.argmax(-1).numpy()
    read = np.concatenate([window.inputs[:, :1], guesses[:, :-1]], 1)
    expected = model.loss(Batch(read, window.targets, window.condition)).total.item()
    model.config = replace(config, teacher_forcing=0.0)
    model.train()
    try:
        assert model.loss(batch).total.item() == pytest.approx(expected, rel=1e-5)
    finally:
        model.config = config
        model.eval()


@requires("multi30k")
def test_real_pairs_are_read_as_they_are(tmp_path):
    """The aligned lines of Multi30k; a few steps lower the loss from that of chance."""
    raw = FOLDER / "multi30k" / "raw"
    asked = request(raw / "val.de.gz", tmp_path / "run", steps=25, validated=4, evaluations=1, batch_size=32, width=64)
    asked = replace(
        asked,
        inputs=(str(raw / "val.de.gz"), str(raw / "val.en.gz")),
        tokenization=replace(asked.tokenization, tokenizer="bpe", vocabulary_size=1000),
    )
    run = Run(train(asked).path, task=None)
    parts = run.config["data"]["text"]
    assert parts["train"]["documents"] + parts["validation"]["documents"] == 1_014
    losses = [event["loss"] for event in run.metrics if event["event"] == "evaluation"]
    assert losses[-1] < 6.3 < np.log(1000)
