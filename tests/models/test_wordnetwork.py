"""A network of words seen byte by byte: with an n-gram of words in its place, it is the wordgram; saved = loaded."""

from pathlib import Path

import numpy as np
import pytest
import torch

from chainrule.errors import UserError
from chainrule.models import lstm, ngram, wordgram
from chainrule.models._bits import score_bits
from chainrule.models.contract import State
from chainrule.models.wordnetwork import Model
from tests.models.test_ensemble import stream_of

EOS = 256
COWS = "".join(
    f"The {'red' if i % 3 else 'old'} cow,  no. {i % 7}, eats {'hay' if i % 2 else 'grass'}!\n" for i in range(60)
)
TEXT = COWS + "größere Kühe\n老牛 吃草\n a  b\n" * 3
NEW = "The red cow eats grass, a\tcowherd 12 says.\nThe größte of  cows!?\n老草 \n"


class Counted(torch.nn.Module):
    """An n-gram of the wordgram's tokens, as a network would be."""

    def __init__(self, words: wordgram.Model, stream: np.ndarray):
        super().__init__()
        config = ngram.Config(order=words.config.order)
        self.counted = ngram.Model(config, words.num_ids, words.end).fit([words.encode(stream)])

    def start(self, batch_size: int) -> State:
        return self.counted.start(batch_size)

    def step(self, tokens: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        logits, state = self.counted.step(tokens.numpy(), state)
        return torch.from_numpy(np.asarray(logits)), state


@pytest.fixture(scope="module")
def words() -> wordgram.Model:
    return wordgram.Model(wordgram.Config(order=3, spelling_order=4), 257, EOS).fit([stream_of(TEXT)])


@pytest.fixture(scope="module")
def model(words: wordgram.Model) -> Model:
    torch.manual_seed(0)
    network = lstm.Model(lstm.Config(width=8, num_layers=1), words.num_ids, words.end)
    return Model(words, network)


@pytest.mark.parametrize("text", [TEXT, NEW])
def test_with_an_ngram_of_words_in_place_of_the_network_it_is_the_wordgram(words: wordgram.Model, text: str):
    stream = stream_of(text)
    model = Model(words, Counted(words, stream_of(TEXT)))  # type: ignore[arg-type]
    np.testing.assert_allclose(model.score(stream), words.score(stream), rtol=1e-3, atol=2e-4)
    expected = words.bit_probabilities(stream)
    np.testing.assert_allclose(model.bit_probabilities(stream), expected, atol=1e-4)


def test_bits_scores_and_steps_say_the_same(model: Model):
    stream = stream_of(NEW)
    scores = model.score(stream)
    np.testing.assert_allclose(score_bits(model.bit_probabilities(stream), stream, EOS), scores, rtol=1e-3, atol=1e-3)
    logits, _ = model.step(stream[None, :-1], model.start(1))
    np.testing.assert_allclose(np.exp(logits.astype(np.float64)).sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(logits[0][np.arange(len(stream) - 1), stream[1:]], scores, rtol=1e-4, atol=1e-4)


def test_scores_do_not_depend_on_how_many_tokens_are_read_at_once(model: Model, monkeypatch: pytest.MonkeyPatch):
    stream = stream_of(NEW)
    whole = model.score(stream)
    for at_once in (1, 2, 7):
        monkeypatch.setattr("chainrule.models.wordnetwork.AT_ONCE", at_once)
        np.testing.assert_allclose(model.score(stream), whole, rtol=1e-4, atol=1e-5)


def test_a_text_that_does_not_begin_with_the_end_of_another_is_scored_too(model: Model):
    stream = stream_of(NEW)[1:]
    logits, _ = model.step(stream[None, :-1], model.start(1))
    np.testing.assert_allclose(
        logits[0][np.arange(len(stream) - 1), stream[1:]], model.score(stream), rtol=1e-4, atol=1e-4
    )


def test_rows_of_a_batch_are_as_they_are_alone_byte_by_byte(model: Model):
    texts = [stream_of(line)[:12] for line in NEW.splitlines()]
    length = min(map(len, texts))
    batch = np.stack([each[:length] for each in texts])
    state, found = model.start(len(batch)), []
    for t in range(length):
        logits, state = model.step(batch[:, t : t + 1], state)
        found.append(logits[:, 0])
    for row, each in enumerate(batch):
        alone, _ = model.step(each[None], model.start(1))
        np.testing.assert_allclose(np.stack(found)[:, row], alone[0], rtol=1e-4, atol=1e-5)


def test_saved_is_loaded(model: Model, tmp_path: Path):
    model.save(tmp_path / "model.safetensors")
    loaded = Model.load(tmp_path / "model.safetensors")
    stream = stream_of(NEW)
    np.testing.assert_array_equal(loaded.score(stream), model.score(stream))


def test_a_network_of_other_words_is_refused(model: Model, tmp_path: Path):
    model.save(tmp_path / "model.safetensors")
    other = lstm.Model(lstm.Config(width=8, num_layers=1), 30, 29)
    other.save(tmp_path / "model.parts" / "network.safetensors")
    with pytest.raises(UserError, match="not trained on its words"):
        Model.load(tmp_path / "model.safetensors")
