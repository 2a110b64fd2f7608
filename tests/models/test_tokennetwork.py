"""A Transformer of byte pairs seen byte by byte: a distribution that is exact and causal, as the formula says."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from chainrule.errors import UserError
from chainrule.evaluation.score import score_documents
from chainrule.interop.gguf.read import find_smollm2, read_gguf
from chainrule.models import ensemble, lstm, transformer
from chainrule.models._bits import predict_bits, score_bits
from chainrule.models._token_paths import Beginning
from chainrule.models.contract import State
from chainrule.models.tokennetwork import Model, can_be_seen_by_bytes, why_not_by_bytes
from chainrule.nest import add_rows, remove_row, select_rows
from chainrule.text import bpe, bytes, characters, words
from chainrule.text.base import Tokenizer, Vocabulary
from tests.evaluation.toys import as_lines
from tests.shared_data import FOLDER, requires

EOS = 256
VERSES = "the cat sat on the mat\nthe cats ate the rats, and that is that\n" * 4
MIXED = "I'll say:\n\n    größer  12 dogs, 你好 世界 😀!\n\tthey're the cat's\n"


def stream_of(*texts: str) -> np.ndarray:
    return np.array([EOS, *(id for text in texts for id in (*text.encode(), EOS))], np.int64)


def network_for(tokenizer: Tokenizer, **settings: object) -> transformer.Model:
    torch.manual_seed(0)
    config = transformer.LLAMA(**{"width": 16, "num_layers": 2, "num_heads": 2, "context_length": 256, **settings})
    model = transformer.Model(config, tokenizer.vocabulary_size, tokenizer.eos)
    for parameter in model.parameters():
        parameter.data.normal_(std=0.3)
    return model.eval()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return bpe.train([as_lines([VERSES, MIXED])], Vocabulary(size=310))


@pytest.fixture(scope="module")
def model(tokenizer: Tokenizer) -> Model:
    return Model(network_for(tokenizer), tokenizer)


@pytest.fixture
def asks_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network is asked about every hypothesis, however small its share."""
    monkeypatch.setattr("chainrule.models._token_branches.SMALLEST_SHARE", 0)


def one_by_one(model: Model, stream: np.ndarray) -> tuple[np.ndarray, State]:
    state, found = model.start(1), []
    for symbol in stream:
        logits, state = model.step(np.array([[symbol]]), state)
        found.append(logits[0, 0])
    return np.stack(found), state


@pytest.mark.parametrize("text", [VERSES[:80], MIXED, "  \n\n \n  x", ""])
def test_one_step_over_a_text_is_many_single_steps_and_sums_to_one(model: Model, text: str):
    stream = stream_of(text, "and more")
    whole, _ = model.step(stream[None], model.start(1))
    single, _ = one_by_one(model, stream)
    np.testing.assert_allclose(np.exp(whole.astype(np.float64)).sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.exp(whole[0]), np.exp(single), atol=1e-4)


def test_scores_and_bits_say_the_same_as_steps(model: Model):
    stream = stream_of(VERSES[:60], MIXED)
    logits, _ = model.step(stream[None, :-1], model.start(1))
    expected = logits[0, np.arange(len(stream) - 1), stream[1:]]
    np.testing.assert_allclose(model.score(stream), expected, rtol=1e-5)
    np.testing.assert_allclose(score_bits(predict_bits(model, stream), stream, EOS), expected, rtol=1e-3, atol=1e-3)


def test_bytes_that_are_no_text_can_be_read_too(model: Model):
    stream = np.random.default_rng(0).integers(0, 257, 60)
    whole, _ = model.step(stream[None], model.start(1))
    np.testing.assert_allclose(np.exp(whole.astype(np.float64)).sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.exp(whole[0]), np.exp(one_by_one(model, stream)[0]), atol=1e-4)


def test_a_long_text_is_read_in_windows_that_do_not_depend_on_the_steps(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("chainrule.models.tokennetwork.AT_ONCE", 5)
    model = Model(network_for(tokenizer, context_length=32), tokenizer)
    stream = stream_of(VERSES[:200], VERSES[50:120])
    whole, _ = model.step(stream[None], model.start(1))
    np.testing.assert_allclose(np.exp(whole[0]), np.exp(one_by_one(model, stream)[0]), atol=1e-4)


def test_a_piece_without_end_is_read_in_windows_too(model: Model):
    stream = stream_of("catsatthe" * 70)
    whole, _ = model.step(stream[None], model.start(1))
    np.testing.assert_allclose(np.exp(whole[0]), np.exp(one_by_one(model, stream)[0]), atol=1e-4)


def test_rows_of_a_batch_are_as_they_are_alone(model: Model):
    texts = np.stack([stream_of(text)[:20] for text in (VERSES, MIXED, MIXED[5:])])
    state = model.start(3)
    _, state = model.step(texts[:, :9], state)
    state = remove_row(add_rows(select_rows(state, [2, 0]), select_rows(state, [1])), 0, 3)
    after, _ = model.step(texts[[1, 0], 9:], state)
    for row, text in enumerate(texts[[1, 0]]):
        alone, _ = model.step(text[None], model.start(1))
        np.testing.assert_allclose(np.exp(after[row]), np.exp(alone[0, 9:]), atol=1e-4)


def test_later_bytes_change_no_earlier_prediction(model: Model):
    stream = stream_of(MIXED)
    whole, _ = model.step(stream[None], model.start(1))
    for end in (3, 4, 13, 15, 18, 33, 35, 50):
        other = np.concatenate([stream[:end], stream_of("hat, 好'")[1:]])
        found, _ = model.step(other[None], model.start(1))
        np.testing.assert_allclose(np.exp(found[0, :end]), np.exp(whole[0, :end]), atol=1e-5)


@pytest.mark.parametrize("kind", [bytes, characters])
@pytest.mark.parametrize("settings", [{}, {"positions": "learned"}, {"positions": "sinusoidal"}, {"positions": "none"}])
def test_where_tokens_are_bytes_it_is_the_network_itself(kind: object, settings: dict[str, object]):
    tokenizer = kind.train([as_lines([VERSES])], Vocabulary())  # type: ignore[attr-defined]
    network = network_for(tokenizer, **settings)
    text = MIXED if kind is bytes else VERSES[:70]
    stream = stream_of(text, "and more")
    with torch.no_grad():
        ids = np.where(stream == EOS, tokenizer.eos, stream)
        expected = network.step(ids[None], network.start(1))[0].softmax(-1).numpy()[:, :, [*range(256), tokenizer.eos]]
    found = np.exp(Model(network, tokenizer).step(stream[None], None or Model(network, tokenizer).start(1))[0])
    np.testing.assert_allclose(found, expected / expected.sum(-1, keepdims=True), atol=2e-5)


def reference(network: transformer.Model, tokenizer: Tokenizer, text: str) -> np.ndarray:
    """p(symbol) after a text of words and single spaces, by the formula: sums over all tokens, one by one."""
    ask: Callable[[list[int]], np.ndarray] = lambda ids: (  # noqa: E731
        network.step(np.array([[tokenizer.eos, *ids]]), network.start(1))[0][0].softmax(-1).double().numpy()
    )
    piece = re.findall(r" ?\w+| ?[^\w ]+| ", text)[-1] if text else ""
    before = tokenizer.encode(text[: len(text) - len(piece)]).tolist()
    found = np.zeros(257)
    for count in range(len(piece) + 1):
        path, rest = tokenizer.encode(piece[:count]).tolist(), piece[count:].encode()
        chances = ask(before + path)
        weight = np.prod([chances[len(before) + i, token] for i, token in enumerate(path)])
        for token, spelled in enumerate(tokenizer.token_bytes):
            if spelled.startswith(rest) and len(spelled) > len(rest):
                found[spelled[len(rest)]] += weight * chances[-1, token]
        found[EOS] += 0 if rest else weight * chances[-1, tokenizer.eos]
    return found / found.sum()


@pytest.mark.usefixtures("asks_all")
@torch.no_grad()
def test_predictions_are_those_of_the_formula(tokenizer: Tokenizer, model: Model):
    text = "the cats ate that, mats"
    found, _ = model.step(stream_of(text)[None, :-1], model.start(1))
    for end in range(len(text) + 1):
        expected = reference(model.network, tokenizer, text[:end])
        np.testing.assert_allclose(np.exp(found[0, end]), expected, atol=1e-4, err_msg=text[:end])


@pytest.mark.parametrize("text", [VERSES, MIXED, "it's they'll\r\n  \n  x \n\n\nend ?!\n\n"])
def test_the_tokens_of_the_text_are_always_among_the_hypotheses(tokenizer: Tokenizer, model: Model, text: str):
    expected = tuple(tokenizer.encode(text).tolist())
    ends = np.cumsum([len(tokenizer.token_bytes[id]) for id in expected])
    known: list[int] = []
    beginning = Beginning()
    for count, byte in enumerate(text.encode(), 1):
        new, beginning = model.paths.advance(beginning, byte)
        known += new
        read = expected[: int(np.searchsorted(ends, count, side="right"))]
        assert tuple(known) == read[: len(known)]
        spelled = [tokenizer.token_bytes[id] for id in read[len(known) :]]
        assert spelled in [cut[:-1] for cut in model.paths.cuts(beginning)]
    assert [*known, *model.paths.close(beginning)] == list(expected)


def test_hypotheses_of_hardly_any_share_change_little(model: Model, monkeypatch: pytest.MonkeyPatch):
    stream = stream_of(VERSES)
    quick = -model.score(stream).mean()
    monkeypatch.setattr("chainrule.models._token_branches.SMALLEST_SHARE", 0)
    assert abs(quick + model.score(stream).mean()) < 0.003


def test_it_shows_the_ways_to_cut_the_text(model: Model):
    stream = stream_of("the cat")[:-1]
    found = model.look_inside(stream, ord("s"), model.tokenizer.token_text)
    logits, _ = model.step(stream[None], model.start(1))
    assert found.probability == pytest.approx(float(np.exp(logits[0, -1, ord("s")])), abs=1e-4)
    assert sum(share.weight for share in found.shares) == pytest.approx(1)
    assert {" cat...", " cat|..."} <= {share.part for share in found.shares}


def test_saved_is_loaded(model: Model, tmp_path: Path):
    model.save(tmp_path / "model.safetensors")
    loaded = Model.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.score(stream_of(MIXED)), model.score(stream_of(MIXED)))


def test_it_is_a_part_of_an_ensemble(model: Model, tmp_path: Path):
    made = ensemble.Model(ensemble.Config(dynamic=False), [model], ["network"])
    stream = stream_of(MIXED)
    np.testing.assert_allclose(made.score(stream), model.score(stream), rtol=1e-2, atol=1e-2)
    made.save(tmp_path / "model.safetensors")
    loaded = ensemble.Model.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.score(stream), made.score(stream))


def test_what_cannot_be_seen_by_bytes_is_refused(tokenizer: Tokenizer, model: Model):
    assert can_be_seen_by_bytes(model.network, tokenizer)
    assert not can_be_seen_by_bytes(lstm.Model(lstm.Config(width=8), 310, 309), tokenizer)
    for settings in ({"positions": "alibi"}, {"ngram_order": 2}):
        assert "positions" in str(why_not_by_bytes(network_for(tokenizer, **settings), tokenizer))
    of_words = words.train([as_lines([VERSES])], Vocabulary(is_closed=True))
    with pytest.raises(UserError, match="does not spell texts by their bytes"):
        Model(network_for(of_words), of_words)


@pytest.mark.slow
@requires("tinyshakespeare/input.txt")
def test_smollm2_needs_no_more_bits_than_by_tokens():
    try:
        found = read_gguf(find_smollm2())
    except UserError as error:
        pytest.skip(str(error))
    text = (FOLDER / "tinyshakespeare" / "input.txt").read_text()[:3000]
    expected = score_documents(found.model, found.tokenizer, as_lines([text]))[0]
    by_bytes = -Model(found.model, found.tokenizer).score(stream_of(text))[:-1].sum()
    assert by_bytes < 1.01 * float(expected.nats.sum() - expected.eos_nats.sum())
