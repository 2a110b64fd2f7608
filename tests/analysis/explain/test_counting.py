"""Explanations of models that count: the ladder adds up, its figures are those of the text, and the lines are found."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import chainrule
from chainrule.analysis.explain.places import occurrences
from chainrule.api import TrainedRun
from chainrule.errors import UserError
from chainrule.models.contract import log_softmax
from chainrule.models.explanation import Ladder
from chainrule.models.ngram import Config, Model
from chainrule.ngram.smoothing import METHODS, Method, katz, kneser_ney
from tests.spec.test_counting import COWS

EOS = 6


def random_text(seed: int, documents: int = 60) -> np.ndarray:
    generator = np.random.default_rng(seed)
    parts = [np.array([EOS])]
    for _ in range(documents):
        parts += [np.cumsum(generator.integers(0, 3, generator.integers(1, 12))) % EOS, np.array([EOS])]
    return np.concatenate(parts).astype(np.uint32)


def ladder_of(model: Model, ids: np.ndarray, token: int) -> Ladder:
    return model.look_inside(ids, token, str)


@pytest.mark.parametrize("prune", [(), (0, 0, 1)])
@pytest.mark.parametrize("smoothing", METHODS)
def test_contributions_add_up_to_the_probability(smoothing: str, prune: tuple[int, ...]):
    ids = random_text(0)
    model = Model(Config(order=4, smoothing=smoothing, prune=prune), 7, EOS).fit([ids], random_text(1, 20))
    generator = np.random.default_rng(2)
    for _ in range(40):
        text = np.append([EOS], generator.integers(0, EOS, generator.integers(0, 6)))
        logits, _ = model.step(text[None], model.start(1))
        for token in range(7):
            ladder = ladder_of(model, text, token)
            expected = np.exp(np.float64(logits[0, -1, token]))
            assert ladder.probability == pytest.approx(expected, abs=1e-6)
            assert ladder.probability == sum(rung.contribution for rung in ladder.rungs)
            assert all(rung.contribution >= -1e-7 for rung in ladder.rungs)


def test_a_smoothing_is_explained_by_what_its_row_says_and_not_by_its_name(monkeypatch: pytest.MonkeyPatch):
    """The same methods under other names have the same ladders; Katz lets one context speak alone."""
    monkeypatch.setitem(METHODS, "good-turing", Method(katz, backs_off=True))
    monkeypatch.setitem(METHODS, "continuations", Method(kneser_ney, counts_continuations=True))
    ids = random_text(0)
    text = np.array([EOS, 1, 2, 3])
    for name, other in (("katz", "good-turing"), ("kneser-ney", "continuations")):
        named, renamed = (Model(Config(order=3, smoothing=each), 7, EOS).fit([ids]) for each in (name, other))
        for token in range(7):
            found = ladder_of(renamed, text, token)
            assert found.rungs == ladder_of(named, text, token).rungs
            assert found.smoothing == other
            if name == "katz":
                assert sum(rung.contribution > 0 for rung in found.rungs) == 1
            else:
                assert found.rungs[-2].counted != found.rungs[-2].count  # after how many words, not how often


def test_whether_counts_can_be_changed_is_told_by_the_row_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(METHODS, "held-out", replace(METHODS["jelinek-mercer"]))
    model = Model(Config(order=2, smoothing="held-out"), 7, EOS).fit([random_text(0)], random_text(1, 20))
    with pytest.raises(UserError, match="held-out weights were fitted on held-out text"):
        model.without(random_text(0, 3))


@pytest.mark.parametrize("smoothing", ["absolute", "kneser-ney", "modified-kneser-ney"])
def test_own_parts_are_the_discounted_counts_of_the_text(smoothing: str):
    """The ladder finds its own part from probabilities; here it is found from the text itself."""
    ids = random_text(3)
    model = Model(Config(order=3, smoothing=smoothing), 7, EOS).fit([ids])
    documents = np.split(ids, np.flatnonzero(ids == EOS) + 1)[1:-1]
    texts = [(EOS, *document.tolist()) for document in documents]
    grams = {n: Counter(text[i : i + n] for text in texts for i in range(len(text) - n + 1)) for n in (1, 2, 3, 4)}
    compared = 0
    for text in ([EOS, 1, 2], [EOS, 0, 1, 3], [EOS, 5, 0], [EOS, 2]):
        for token in range(7):
            for rung in ladder_of(model, np.array(text), token).rungs[:-1]:
                words = tuple(text[len(text) - (rung.order - 1) :]) if rung.order > 1 else ()
                following = {w: grams[rung.order][(*words, w)] for w in range(7)}
                if rung.order == 1:
                    following[EOS] = len(texts)  # the one that begins a text is not predicted
                assert (rung.count, rung.total) == (following[token], sum(following.values()))
                if not rung.total:
                    continue
                if smoothing != "absolute" and rung.order < 3 and words[:1] != (EOS,):
                    following = {w: sum((v, *words, w) in grams[rung.order + 1] for v in range(7)) for w in range(7)}
                assert (rung.counted, rung.counted_total) == (following[token], sum(following.values()))
                assert rung.discount is not None
                own = (following[token] - rung.discount) / sum(following.values()) if following[token] else 0.0
                assert rung.own == pytest.approx(own, abs=1e-6)
                compared += 1
    assert compared > 50


@pytest.fixture(scope="module")
def cows(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    folder = tmp_path_factory.mktemp("cows")
    (folder / "cows.txt").write_text(COWS)
    return chainrule.train(
        folder / "cows.txt", path=folder / "run", unit="line", validation_fraction=0.0, tokenizer="words", min_count=1,
        order=3, smoothing="maximum-likelihood",
    )  # fmt: skip


def test_cows_eat_corn_four_times_in_eleven_and_in_these_lines(cows: TrainedRun):
    found = cows.explain("do cows eat")
    assert found.token == " corn"
    assert found.probability == pytest.approx(4 / 11, abs=1e-7)
    assert isinstance(found.inside, Ladder)
    assert (found.inside.rungs[0].count, found.inside.rungs[0].total) == (4, 11)
    assert found.inside.rungs[0].contribution == pytest.approx(4 / 11, abs=1e-7)
    assert found.evidence is not None
    assert (found.evidence.context, found.evidence.count, found.evidence.followed) == ("cows eat", 11, 4)
    lines = [number for number, line in enumerate(COWS.splitlines(), 1) if "cows eat corn" in line]
    assert [sighting.line for sighting in found.evidence.sightings] == lines == [3, 7, 10, 11]
    assert [s.before + s.found + s.after for s in found.evidence.sightings] == [
        line for line in COWS.splitlines() if "cows eat corn" in line
    ]


def test_evidence_for_a_token_that_never_came_shows_the_context(cows: TrainedRun):
    found = cows.explain("cows eat", token="farm")
    assert (found.token, found.probability) == (" farm", 0.0)
    assert found.evidence is not None
    assert (found.evidence.count, found.evidence.followed, len(found.evidence.sightings)) == (11, 0, 10)


def test_lines_within_a_long_document_are_found(tmp_path: Path):
    (tmp_path / "cows.txt").write_text(COWS)
    run = chainrule.train("cows.txt", unit="file", validation_fraction=0.0, tokenizer="words", min_count=1, order=3)
    evidence = run.explain("all cows eat", token="corn").evidence
    assert evidence is not None
    assert [sighting.line for sighting in evidence.sightings] == [3, 7, 10, 11]


@pytest.mark.parametrize("is_closed", [False, True])
def test_an_infinigram_shows_its_longest_context(tmp_path: Path, is_closed: bool):
    (tmp_path / "cows.txt").write_text(COWS)
    run = chainrule.train(
        "cows.txt", model="infinigram", unit="line", validation_fraction=0.0, tokenizer="words", min_count=1,
        closed_vocabulary=is_closed,
    )  # fmt: skip
    evidence = run.explain("in your cows eat").evidence
    assert evidence is not None
    assert (evidence.context, evidence.count, evidence.followed) == ("your cows eat", 1, 1)
    (sighting,) = evidence.sightings
    assert (sighting.line, sighting.before, sighting.found) == (5, "do", " your cows eat grass")
    assert sighting.after == " or corn?"


def test_occurrences_are_those_of_a_plain_search(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("chainrule.analysis.explain.places.AT_ONCE", 7)
    stream = random_text(5)
    for words in ([1], [1, 2], [EOS, 0], [0, 1, 3]):
        plain = [i for i in range(len(stream) - len(words)) if stream[i : i + len(words)].tolist() == words]
        assert occurrences(stream, words).tolist() == plain
        assert plain
    assert occurrences(stream, []).tolist() == []


def test_the_distribution_and_the_surprise_are_the_models_own(cows: TrainedRun):
    found = cows.explain("when cows eat corn", top=3, top_k=2)
    ids = np.append([cows.tokenizer.eos], cows.tokenizer.encode("when cows eat corn")).astype(np.int64)
    logits, _ = cows.model.step(ids[None], cows.model.start(1))
    chances = np.exp(log_softmax(logits[0]))
    assert found.surprise == pytest.approx([-np.log2(chances[i, ids[i + 1]]) for i in range(len(ids) - 1)], abs=1e-5)
    last = chances[-1]
    assert [each.probability for each in found.distribution.top] == pytest.approx(sorted(last)[::-1][:3])
    assert [each.filtered > 0 for each in found.distribution.top] == [True, True, False]
    assert sum(each.filtered for each in found.distribution.top) == pytest.approx(1.0)
    assert found.distribution.others_probability + sum(
        each.probability for each in found.distribution.top
    ) == pytest.approx(1.0)
    assert found.distribution.cut == (last > 0).sum() - 2
    assert found.distribution.entropy_bits == pytest.approx(-sum(p * np.log2(p) for p in last if p > 0))
