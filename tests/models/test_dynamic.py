"""Dynamic evaluation against torch's own gradient descent; nothing is learned from before it is scored."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from chainrule.errors import UserError
from chainrule.models import _dynamic, lstm, transformer
from chainrule.models._dynamic import score_and_learn
from chainrule.models._neural import NeuralModel

VOCABULARY, EOS = 9, 8
RATE = 0.3


def make(kind: str) -> NeuralModel:
    torch.manual_seed(1)
    if kind == "lstm":
        return lstm.Model(lstm.Config(width=8, num_layers=2, dropout=0.5), VOCABULARY, EOS).eval()
    config = transformer.Config(
        width=8, num_layers=1, num_heads=2, hidden_width=8, context_length=12, ngram_order=3, ngram_rows=16
    )
    model = transformer.Model(config, VOCABULARY, EOS).eval()
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape) * 0.5
    return model


def stream(length: int = 107) -> np.ndarray:
    ids = np.cumsum(np.random.default_rng(0).integers(0, 3, length)) % VOCABULARY
    return ids.astype(np.uint32)


def reference(model: NeuralModel, ids: np.ndarray, segment: int) -> tuple[list[float], list[float]]:
    """Scores and entropies, one segment after the other, by torch's SGD, clipping and cross-entropy."""
    model = copy.deepcopy(model)
    dense = [p for name, p in model.named_parameters() if not name.startswith("ngrams")]
    sparse = [p for name, p in model.named_parameters() if name.startswith("ngrams")]
    scores: list[float] = []
    entropies: list[float] = []
    tokens = torch.from_numpy(ids.astype(np.int64))
    state: Any = model.start(1)
    for begin in range(0, len(ids) - 1, segment):
        end = min(begin + segment, len(ids) - 1)
        if model.context_length is None:
            logits, state = model.step(tokens[None, begin:end], state)
            state = tuple(tuple(part.detach() for part in layer) for layer in state)
        else:
            logits, _ = model.step(tokens[None, max(0, end - 12) : end], model.start(1))
        logits = logits[0, -(end - begin) :]
        each = torch.nn.functional.cross_entropy(logits, tokens[begin + 1 : end + 1], reduction="none")
        scores += (-each).tolist()
        entropies += torch.distributions.Categorical(logits=logits).entropy().tolist()
        model.zero_grad()
        each.mean().backward()
        for parameter in sparse:
            parameter.grad = parameter.grad.to_dense()
        torch.nn.utils.clip_grad_norm_([*dense, *sparse], _dynamic.CLIP)
        torch.optim.SGD([*dense, *sparse], lr=RATE).step()
    return scores, entropies


@pytest.mark.parametrize(("kind", "segment"), [("lstm", _dynamic.SEGMENT), ("transformer", 12)])
def test_scores_are_those_of_torchs_own_gradient_descent(kind: str, segment: int) -> None:
    model, ids = make(kind), stream()
    scores, entropies = score_and_learn(model, ids, RATE)
    expected_scores, expected_entropies = reference(model, ids, min(segment, _dynamic.SEGMENT))
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(entropies, expected_entropies, rtol=1e-3, atol=1e-4)
    assert np.abs(scores - model.score(ids)).max() > 0.1  # it did learn


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_no_token_is_learned_from_before_it_is_scored(kind: str) -> None:
    """Changing a token changes its own score and later ones, never an earlier one, wherever in a segment it is."""
    model, ids = make(kind), stream()
    scores, entropies = score_and_learn(model, ids, RATE)
    for place in (1, 7, 12, 19, 20, 21, 45, 106):
        changed = ids.copy()
        changed[place] = (changed[place] + 1) % VOCABULARY
        others, other_entropies = score_and_learn(model, changed, RATE)
        np.testing.assert_array_equal(others[: place - 1], scores[: place - 1])
        np.testing.assert_array_equal(other_entropies[:place], entropies[:place])
        assert others[place - 1] != scores[place - 1]
        assert place == 106 or (others[place:] != scores[place:]).any()


def test_the_first_segment_is_scored_by_the_model_as_it_was() -> None:
    model, ids = make("lstm"), stream()
    scores, _ = score_and_learn(model, ids, RATE)
    np.testing.assert_allclose(scores[: _dynamic.SEGMENT], model.score(ids)[: _dynamic.SEGMENT], rtol=1e-5)


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_weights_are_put_back_bit_for_bit_even_after_an_error(kind: str) -> None:
    model = make(kind)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    score_and_learn(model, stream(), RATE)

    def interrupt(tokens: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_and_learn(model, stream(), RATE, interrupt)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not model.training


def test_a_text_that_repeats_itself_is_learned() -> None:
    model = make("lstm")
    ids = np.concatenate([[EOS], np.tile([0, 3, 1, 5, 2, EOS], 100)]).astype(np.uint32)
    scores, _ = score_and_learn(model, ids, 1.0)
    assert -scores[-60:].mean() < 0.9 < 1.8 < -model.score(ids)[-60:].mean()


def test_progress_adds_up_to_the_tokens_scored() -> None:
    told: list[int] = []
    score_and_learn(make("lstm"), stream(), RATE, told.append)
    assert sum(told) == 106
    assert len(told) > 1


def test_a_rate_that_goes_astray_is_refused() -> None:
    model = make("lstm")
    with pytest.raises(UserError, match="went astray; choose a lower --dynamic"):
        score_and_learn(model, stream(), 1e38)
    assert np.isfinite(model.score(stream())).all()
