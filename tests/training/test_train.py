"""From text to a run, as a person would ask for it."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import chainrule
from chainrule.data.documents import cut
from chainrule.data.shards import ShardWriter
from chainrule.errors import UserError
from chainrule.training.pipeline import train
from chainrule.training.request import Request

LINES = [f"line {i}: the {'red' if i % 3 else 'old'} cow eats {'hay' if i % 2 else 'grass'} today" for i in range(200)]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "cows.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


def test_three_lines_of_python(text):
    run = chainrule.train(text)
    assert run.path == Path("runs/cows")
    assert run.sample("the", seed=0, max_tokens=5).startswith("the")
    assert 0 < run.evaluate(text)["bits_per_byte"] < 2
    assert chainrule.load(run.path).sample("the", seed=0) == run.sample("the", seed=0)


@pytest.mark.parametrize("tokenizer", ["bytes", "characters", "words", "bpe"])
@pytest.mark.parametrize("model", ["ngram", "infinigram"])
def test_every_tokenizer_with_every_model_of_this_kind(text, tokenizer, model):
    run = chainrule.train(text, model=model, tokenizer=tokenizer)
    assert run.config["tokenizer"]["kind"] == tokenizer
    assert run.samples("the", seed=1, samples=3, max_tokens=8)


def test_validation_documents_are_never_trained_on(text):
    run = chainrule.train(text, tokenizer="characters", unit="line")
    train = run.tokenizer.decode(run.shards("train").tokens(0))
    validation = run.shards("validation")
    documents = [line for line in LINES if line not in train]
    assert len(documents) == validation.part.documents > 0
    assert "".join(documents) == run.tokenizer.decode(validation.tokens(0))


def test_the_tokenizer_is_trained_without_the_validation_text(text):
    run = chainrule.train(text, tokenizer="words", min_count=1, unit="line")
    kept = {line.split()[1] for line in LINES if line in run.tokenizer.decode(run.shards("validation").tokens(0))}
    known = {run.tokenizer.token_text(id).strip() for id in range(run.tokenizer.vocabulary_size)}
    assert kept
    assert not {number.rstrip(":") for number in kept if len(number) > 3} & known


def test_a_tokenizer_of_another_run_can_be_used_again(text):
    first = chainrule.train(text, tokenizer="bpe", vocabulary_size=300)
    second = chainrule.train(text, tokenizer=str(first.path), order=2)
    assert second.tokenizer.fingerprint == first.tokenizer.fingerprint


def test_several_shards_give_the_same_model_as_one(text, monkeypatch):
    whole = chainrule.train(text)
    monkeypatch.setattr("chainrule.data.prepare.ShardWriter", partial(ShardWriter, tokens_per_shard=100))
    monkeypatch.setattr("chainrule.data.corpus.Corpus.batches", _a_few_at_a_time)
    parts = chainrule.train(text)
    assert len(parts.shards("train")) > 10
    np.testing.assert_array_equal(parts.model.estimates.log_probability, whole.model.estimates.log_probability)


def _a_few_at_a_time(corpus, progress=None):
    """Batches of a few documents each, in place of the usual 16 MB."""
    data = np.frombuffer(Path(corpus.files[0].path).read_bytes(), np.uint8)
    documents = cut(data, corpus.unit, corpus.files[0].name)
    for start in range(0, len(documents), 7):
        yield documents.select(np.arange(start, min(start + 7, len(documents))))


def test_an_infinigram_tells_where_a_context_was_seen(text):
    run = chainrule.train(text, model="infinigram", unit="line", validation_fraction=0.0)
    found = run.evidence("in the barn the old cow eats hay", most=1000)
    assert found == run.evidence("in the barn the old cow eats hay ", most=1000)
    assert found["text"] == "the old cow eats hay"
    lines = [i + 1 for i, line in enumerate(LINES) if "the old cow eats hay" in line]
    assert [place["line"] for place in found["places"]] == lines
    assert found["count"] == len(lines)
    assert {place["path"] for place in found["places"]} == {str(text)}
    with pytest.raises(UserError, match="only an infinigram keeps its corpus"):
        chainrule.train(text).evidence("the")


def test_places_are_found_in_every_shard(text, monkeypatch):
    monkeypatch.setattr("chainrule.data.prepare.ShardWriter", partial(ShardWriter, tokens_per_shard=100))
    monkeypatch.setattr("chainrule.data.corpus.Corpus.batches", _a_few_at_a_time)
    run = chainrule.train(text, model="infinigram", unit="line", validation_fraction=0.0)
    assert len(run.shards()) > 10
    lines = [i + 1 for i, line in enumerate(LINES) if "the old cow eats hay" in line]
    assert [place["line"] for place in run.evidence(" the old cow eats hay", most=1000)["places"]] == lines


def test_weights_mix_corpora_by_their_share(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(f"alpha {i} one two three" for i in range(1000)))
    (tmp_path / "b.txt").write_text("\n".join(f"beta {i} four five six seven" for i in range(1000)))
    run = chainrule.train(["a.txt=3", "b.txt=1"], unit="line")
    shares = {source["name"]: source for source in run.config["data"]["mixture"]}
    assert shares["a.txt"]["weight"] == 0.75
    assert shares["a.txt"]["epochs"] == pytest.approx(1)
    shards = run.shards("train")
    text = "".join(run.tokenizer.decode(shards.tokens(shard)) for shard in range(len(shards)))
    a, b = (
        text.count("alpha") * len("alpha 500 one two three"),
        text.count("beta") * len("beta 500 four five six seven"),
    )
    assert a / (a + b) == pytest.approx(0.75, abs=0.05)


def test_a_text_shorter_than_the_order_still_makes_a_model(tmp_path):
    (tmp_path / "short.txt").write_text("hi")
    run = chainrule.train("short.txt", validation_fraction=0.0, order=7)
    assert run.sample("h", seed=0, max_tokens=3)
    assert run.metrics[-1]["validation"] is None


def test_one_document_is_cut_so_that_something_is_left_to_measure_on(tmp_path):
    (tmp_path / "one.txt").write_text("a long single line " * 200)
    run = chainrule.train("one.txt")
    assert run.metrics[-1]["validation"]["documents"] == 1
    assert any("only 1 document" in note for note in run.config["notes"])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"model": "ngrm"}, "unknown model 'ngrm'; did you mean 'ngram'"),
        ({"tokenizer": "word"}, "unknown tokenizer 'word'; did you mean 'words'"),
        ({"smoothing": "kneser"}, "unknown smoothing 'kneser'"),
        ({"order": 0}, "the order must be between 1 and 200, got 0"),
        ({"order": "five"}, "order in the settings of ngram must be of type int"),
        ({"ordr": 3}, "unknown setting 'ordr' in the settings of ngram; did you mean 'order'"),
        ({"size": "huge"}, "unknown size 'huge'"),
        ({"validation_fraction": 1.0}, "the validation fraction must be at least 0 and below 1"),
        ({"split": "random"}, "split must be one of"),
        ({"unit": "word"}, "unit 'word' is not known"),
        ({"tokenizer": "bpe", "vocabulary_size": 100}, "at least 257 tokens, for 256 bytes and <eos>; got 100"),
        ({"tokenizer": "bytes", "closed_vocabulary": True}, "leave out closed_vocabulary"),
        ({"smoothing": "imported"}, "is for models read from a file"),
    ],
)
def test_wrong_settings_are_one_sentence_and_make_nothing(text, settings, sentence):
    with pytest.raises(UserError, match=sentence):
        chainrule.train(text, **settings)
    assert not list(Path("runs").glob("*")) if Path("runs").exists() else True


def test_a_typo_in_a_name_does_not_cost_an_older_training(tmp_path, monkeypatch):
    """Even with overwrite: files are looked for before anything of that name is touched."""
    monkeypatch.chdir(tmp_path)
    unfinished = tmp_path / "runs" / ".poems.unfinished"
    unfinished.mkdir(parents=True)
    (unfinished / "training.json").write_text("{}")
    for task, settings in (("language", {"model": "lstm", "steps": 5}), ("translation", {}), ("tagging", {})):
        with pytest.raises(UserError, match="nofile"):
            train(
                Request(
                    inputs=("nofile.txt",),
                    task=task,
                    path=Path("runs/poems"),
                    overwrite=True,
                    model=settings.pop("model", None),
                    settings=settings,
                )
            )
        assert (unfinished / "training.json").read_text() == "{}"
