"""Beam search of many sources at once equals that of each by itself, and a wide beam finds what brute force finds."""

from itertools import product

import numpy as np
import pytest
import torch

from chainrule.errors import UserError
from chainrule.generation import Beam, beam_search
from chainrule.generation.search import BeamSearchBatch, search
from chainrule.models.conditional import Config, Model
from chainrule.models.contract import log_softmax

from .toys import TableBigram

EOS = 4


class Plain:
    """A tokenizer of ids as they are."""

    eos = EOS

    def encode(self, text):
        return np.zeros(0, np.int64)

    def decode(self, ids):
        return " ".join(map(str, ids))

    def stream(self):
        return self

    def feed(self, id):
        return f"{id} "

    def flush(self):
        return ""


def model(join: str = "additive", decoder: str = "gru") -> Model:
    torch.manual_seed(3)
    built = Model(Config("gru", decoder, join, width=16, encoder_layers=1, decoder_layers=2, num_heads=2), 5, EOS)
    for parameter in built.parameters():
        parameter.data += torch.randn_like(parameter) * 0.3
    return built.eval()


MODELS = [("additive", "gru"), ("context-vector", "lstm"), ("cross", "transformer")]
SOURCES = [[1, 2, 3, EOS], [0, EOS], [2, 2, EOS], [3, 1, 0, 2, 1, EOS]]


def condition(sources):
    longest = max(map(len, sources))
    padded = np.array([[*source, *[EOS] * (longest - len(source))] for source in sources])
    return {"source": padded, "lengths": np.array([len(source) for source in sources])}


@pytest.mark.parametrize(("join", "decoder"), MODELS)
@pytest.mark.parametrize("beam", [Beam(1, 1.0, 9), Beam(3, 1.0, 9, 3), Beam(4, 0.0, 6, 2), Beam(3, -1.0, 5, 1)])
def test_many_at_once_equal_each_by_itself(join, decoder, beam):
    built = model(join, decoder)
    together = search(built, condition(SOURCES), EOS, [beam] * len(SOURCES))
    for source, found in zip(SOURCES, together, strict=True):
        expected = beam_search(built, Plain(), "", beam, condition([source]))
        assert [each.ids for each in found] == [each.ids for each in expected]
        assert [each.score for each in found] == pytest.approx([each.score for each in expected], rel=1e-4)
        assert [each.finish_reason for each in found] == [each.finish_reason for each in expected]


def test_sentences_may_have_limits_of_their_own():
    built = model()
    beams = [Beam(3, 1.0, length, 2) for length in (2, 7, 4, 5)]
    together = search(built, condition(SOURCES), EOS, beams)
    for source, beam, found in zip(SOURCES, beams, together, strict=True):
        alone = search(built, condition([source]), EOS, [beam])[0]
        assert [each.ids for each in found] == [each.ids for each in alone]
        assert all(len(each.ids) <= beam.max_tokens for each in found)


def test_a_wide_beam_finds_the_best_of_all_texts():
    """Every text of up to 3 tokens, scored one by one."""
    built, source, length = model(), condition([SOURCES[0]]), 3
    texts = [(*words, EOS) for size in range(length) for words in product(range(EOS), repeat=size)]
    texts += list(product(range(EOS), repeat=length))

    def total(text):
        logits, _ = built.step(np.array([[EOS, *text[:-1]]]), built.start(1, source))
        return float(log_softmax(logits.detach())[0, range(len(text)), list(text)].sum())

    ranked = sorted(texts, key=lambda text: -total(text) / len(text))
    found = search(built, source, EOS, [Beam(200, 1.0, length, 5)])[0]
    assert [each.ids for each in found] == ranked[:5]
    assert found[0].score == pytest.approx(total(ranked[0]) / len(ranked[0]), rel=1e-4)


def test_the_tree_holds_every_text_that_was_kept():
    built, tree = model(), []
    found = search(built, condition([SOURCES[0]]), EOS, [Beam(3, 1.0, 6, 3)], tree)[0]
    beginnings, ended = [()], set()
    for step in tree[0]:
        longer = [(*beginnings[parent], id) for parent, id in zip(step.parents, step.ids, strict=True)]
        ended |= {text for text, is_ended in zip(longer, step.is_ended, strict=True) if is_ended}
        beginnings = [text for text, is_ended in zip(longer, step.is_ended, strict=True) if not is_ended]
    ended |= set(beginnings)
    assert {each.ids for each in found} <= ended


@pytest.mark.parametrize(("join", "decoder"), MODELS)
def test_sentences_that_join_at_different_times_find_what_each_finds_alone(join, decoder):
    """One joins before each of the first steps, two of them at once; one leaves before its time."""
    built, searches = model(join, decoder), BeamSearchBatch(model(join, decoder), EOS)
    beams = [Beam(3, 1.0, 9, 3), Beam(1, 1.0, 7), Beam(4, 0.0, 8, 2), Beam(2, 1.0, 12, 2)]
    joined = searches.add(condition(SOURCES[:1]), beams[:1])
    left = searches.add(condition([[3, 3, 3, EOS]]), [Beam(5, 1.0, 30)])[0]
    told, step = [], 0
    while searches.rows:
        searches.advance()
        told += searches.emit()
        step += 1
        if step == 1:
            joined += searches.add(condition(SOURCES[1:3]), beams[1:3])
        if step == 2:
            searches.remove(left)
        if step == 3:
            joined += searches.add(condition(SOURCES[3:]), beams[3:])
            assert len(searches.rows) > 1 and searches.size == sum(each.beam.width for each in searches.rows)
    for source, beam, found in zip(SOURCES, beams, joined, strict=True):
        alone = search(built, condition([source]), EOS, [beam])[0]
        assert [each.ids for each in found.finished] == [each.ids for each in alone]
        assert [each.score for each in found.finished] == pytest.approx([each.score for each in alone], abs=1e-5)
        assert [each for sentence, each in told if sentence is found] == found.finished
    assert not any(sentence is left for sentence, _ in told)


def test_a_sentence_whose_probabilities_are_not_finite_ends_alone():
    built, broken = model(), model()
    broken.decoder.bridge.bias.data.fill_(torch.nan)
    searches = BeamSearchBatch(built, EOS)
    good = searches.add(condition(SOURCES[:1]), [Beam(3, 1.0, 9)])[0]
    searches.model = broken
    bad = searches.add(condition(SOURCES[1:2]), [Beam(3, 1.0, 9)])[0]
    searches.model = built
    while searches.rows:
        searches.advance()
        searches.emit()
    assert "not finite" in str(bad.error) and bad.finished == []
    assert good.finished[0].ids == search(built, condition(SOURCES[:1]), EOS, [Beam(3, 1.0, 9)])[0][0].ids
    with pytest.raises(UserError, match="not finite"):
        search(broken, condition(SOURCES[:1]), EOS, [Beam(3, 1.0, 9)])


@pytest.mark.parametrize(("logit", "message"), [(-np.inf, "probability zero"), (np.inf, "finite"), (np.nan, "finite")])
def test_what_cannot_go_on_is_refused(logit: float, message: str):
    with pytest.raises(UserError, match=message):
        search(TableBigram(np.full((5, 5), logit)), None, EOS, [Beam(2)])
