"""The recurrent language models: settings, tied embeddings, states that carry on, dropout, training on one text."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from chainrule import config
from chainrule.errors import UserError
from chainrule.models import elman, gru, lstm, ugrnn
from chainrule.models.contract import Batch

VOCABULARY, EOS = 11, 10
ARCHITECTURES = [elman, ugrnn, gru, lstm]
every_architecture = pytest.mark.parametrize("module", ARCHITECTURES, ids=lambda module: module.__name__[17:])


def build(module: Any, **settings: Any) -> Any:
    torch.manual_seed(0)
    return module.Model(replace(module.SIZES["tiny"], **settings), VOCABULARY, EOS).eval()


@pytest.fixture
def batch() -> Batch:
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, VOCABULARY, (3, 13)))
    return Batch(ids[:, :-1], ids[:, 1:])


@every_architecture
def test_windows_that_carry_the_state_on_lose_what_one_long_window_loses(module, batch):
    model = build(module)
    whole, after = model.advance(batch, model.start(3))
    state, total = model.start(3), 0.0
    for begin in range(0, 12, 4):
        window = slice(begin, begin + 4)
        loss, state = model.advance(Batch(batch.inputs[:, window], batch.targets[:, window]), state)
        total += loss.total.item()
    assert total == pytest.approx(whole.total.item(), rel=1e-6)
    torch.testing.assert_close(state, after, rtol=0, atol=1e-6)


@every_architecture
def test_no_state_is_a_fresh_one(module, batch):
    model = build(module)
    torch.testing.assert_close(model.read(batch.inputs, None), model.read(batch.inputs, model.start(3)), rtol=0, atol=0)


@every_architecture
def test_tied_logits_are_products_with_the_embeddings(module, batch):
    """softmax over e(w) · h, whose gradient reaches the embeddings from both ends."""
    tied, untied = build(module), build(module, tied=False)
    untied.load_state_dict(tied.state_dict() | {"unembedding": tied.embedding.weight.detach().clone()})
    hidden, _ = tied.read(batch.inputs, None)
    expected = torch.einsum("vi,bti->btv", tied.embedding.weight, hidden) + tied.output_bias
    torch.testing.assert_close(tied.output(hidden), expected, rtol=0, atol=1e-6)
    assert untied.num_parameters - tied.num_parameters == VOCABULARY * tied.config.width
    for model in (tied, untied):
        model.loss(batch).total.backward()
    both = untied.embedding.weight.grad + untied.unembedding.grad
    torch.testing.assert_close(tied.embedding.weight.grad, both, rtol=0, atol=1e-5)


@every_architecture
def test_dropout_of_every_kind_is_off_outside_training_and_follows_the_seed(module, batch):
    for kind in ("input_dropout", "dropout", "recurrent_dropout"):
        plain, dropped = build(module), build(module, **{kind: 0.5})
        assert torch.equal(plain.loss(batch).total, dropped.loss(batch).total)
        dropped.train()
        losses = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            losses.append(dropped.loss(batch).total.item())
        assert losses[0] == losses[1] != losses[2]


@every_architecture
def test_embeddings_may_have_a_width_of_their_own(module, batch):
    model = build(module, tied=False, embedding_width=5)
    assert model.embedding.weight.shape == (VOCABULARY, 5)
    changed = batch.inputs.clone()
    changed[:, 0] = (changed[:, 0] + 1) % VOCABULARY
    assert not torch.equal(model.loss(batch).total, model.loss(Batch(changed, batch.targets)).total)


@every_architecture
def test_residual_layers_that_say_nothing_change_nothing(module, batch):
    """Row by row: with the second layer's output zero, a residual stack is its first layer."""
    deep, shallow = build(module, residual=True), build(module, num_layers=1)
    weights = deep.state_dict()
    shallow.load_state_dict({name: weights[name] for name in shallow.state_dict()})
    with torch.no_grad():
        for parameter in deep.recurrent.cells[1].parameters():
            parameter.zero_()
    torch.testing.assert_close(deep.loss(batch).total, shallow.loss(batch).total, rtol=1e-6, atol=0)


@every_architecture
def test_one_sentence_is_learned_by_heart(module):
    model = build(module).train()
    ids = torch.tensor([[EOS, 3, 1, 4, 1, 5, 9, 2, 6, 5, EOS]])  # 1 and 5 come twice: the last word is not enough
    batch = Batch(ids[:, :-1], ids[:, 1:])
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(100):
        optimizer.zero_grad()
        model.loss(batch).mean.backward()
        optimizer.step()
    assert model.loss(batch).mean.item() < 0.05


@pytest.mark.parametrize("nonlinearity", ["logistic", "tanh", "relu"])
def test_elman_squashes_as_told(nonlinearity, batch):
    model = build(elman, nonlinearity=nonlinearity, num_layers=1)
    cell = model.recurrent.cells[0]
    squash = {"logistic": torch.sigmoid, "tanh": torch.tanh, "relu": torch.relu}[nonlinearity]
    first = squash(F.linear(model.embedding(batch.inputs[:, 0]), cell.input_weight, cell.bias))
    torch.testing.assert_close(model.read(batch.inputs, None)[0][:, 0], first, rtol=0, atol=1e-6)


def count(width: int, vocabulary: int, gates: int, extra: int = 0) -> int:
    """Two layers, each gate with W_x, W_h and b; tied embeddings and the output's bias."""
    return 2 * (gates * (2 * width * width + width) + extra) + vocabulary * width + vocabulary


@pytest.mark.parametrize(("size", "width"), [("small", 200), ("medium", 650), ("large", 1500)])
@pytest.mark.parametrize(("module", "gates"), list(zip(ARCHITECTURES, [1, 2, 3, 4], strict=True)))
def test_sizes_have_the_parameters_they_should(module, gates, size, width):
    with torch.device("meta"):
        model = module.Model(module.SIZES[size], 10000, 0)
    assert model.num_parameters == count(width, 10000, gates, width if module is gru else 0)


def test_gates_are_matrices_of_their_own_to_an_optimizer():
    model = build(lstm, tied=False)
    parts = {name: model.matrix_parts(name) for name, each in model.named_parameters() if each.ndim == 2}
    assert parts == {
        "embedding.weight": 1,
        "unembedding": 1,
        **{f"recurrent.cells.{i}.{kind}_weight": 4 for i in (0, 1) for kind in ("input", "recurrent")},
    }


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"num_layers": -1}, "num_layers must be at least 1, got -1"),
        ({"embedding_width": 0, "tied": False}, "embedding_width must be at least 1, got 0"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"recurrent_dropout": float("nan")}, "recurrent_dropout must be at least 0 and below 1, got nan"),
        ({"input_dropout": -0.1}, "input_dropout must be at least 0 and below 1, got -0.1"),
        ({"embedding_width": 9}, "embedding_width must be the width, 32, where embeddings are tied, got 9"),
        ({"nonlinearity": "tan"}, "nonlinearity must be one of logistic, tanh, relu, got 'tan'; did you mean 'tanh'?"),
    ],
)
def test_bad_settings_are_refused_with_a_sentence(settings, sentence):
    with pytest.raises(UserError) as refusal:
        replace(elman.SIZES["tiny"], **settings)
    assert str(refusal.value).startswith(sentence)


@every_architecture
def test_settings_can_come_from_the_command_line(module):
    changes = {"width": "64", "embedding_width": "16", "tied": "false", "dropout": "0.2"}
    found = config.override(module.Config(), changes, "--set")
    assert (found.width, found.embedding_width, found.tied, found.dropout) == (64, 16, False, 0.2)
