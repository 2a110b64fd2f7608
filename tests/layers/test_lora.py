"""LoRA: an update is what its formula says, alone or folded, in training, in decoding and beside kernels."""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from chainrule.errors import UserError
from chainrule.kernels.int8 import round_to_int8
from chainrule.layers import block_step, product
from chainrule.layers.linear import Linear
from chainrule.layers.lora import (
    LoRA,
    add_lora,
    fold_lora,
    load_lora,
    lora_parameters,
    stacked_matrices,
    without_lora,
)
from chainrule.layers.softmax import Sampler, linear_cross_entropy, sampled_cross_entropy
from chainrule.models import lstm, mlp
from chainrule.models.contract import Batch
from chainrule.models.transformer import FAST, GPT2, LLAMA, Config, Model
from chainrule.training.optimizer import Optimizer
from chainrule.training.recipe import Recipe

SHAPE: dict[str, Any] = {"width": 48, "num_layers": 3, "num_heads": 4, "context_length": 64}
KINDS = {
    "gpt2": GPT2(**SHAPE),
    "llama": LLAMA(**SHAPE, num_key_value_heads=2),
    "fast": FAST(**SHAPE, ngram_order=3, ngram_rows=64),
    "neox": Config(**SHAPE, norm="layer", activation="gelu", parallel=True, bias=True, rotary_fraction=0.5),
}
SMALL = LoRA(rank=4, alpha=8.0)
IDS = torch.randint(31, (2, 30), generator=torch.Generator().manual_seed(2))
of_every_kind = pytest.mark.parametrize("kind", KINDS)


def build(kind: str = "llama") -> Model:
    torch.manual_seed(1)
    model = Model(KINDS[kind], 31, 0).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 1.0 if parameter.dim() == 1 else 0.0, 0.2)
    return model


def randomise(model: torch.nn.Module) -> None:
    """Give the updates something to say."""
    for each in lora_parameters(model).values():
        torch.nn.init.normal_(each, std=0.2)


def adapted(kind: str = "llama", settings: LoRA = SMALL) -> Model:
    model = build(kind)
    add_lora(model, settings)
    randomise(model)
    return model


@of_every_kind
def test_a_new_update_leaves_the_model_exactly_as_it_was(kind: str):
    model = build(kind)
    before = model(IDS)
    add_lora(model, SMALL)
    assert torch.equal(model(IDS), before)
    randomise(model)
    assert not torch.allclose(model(IDS), before, atol=1e-2)
    with without_lora(model):
        assert torch.equal(model(IDS), before)


@of_every_kind
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_folded_is_unfolded(kind: str, precision: torch.dtype):
    """In bfloat16 as close as rounding lets it be: as close as either is to float32."""
    model = adapted(kind)
    exact = model(IDS)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
        unfolded = model(IDS)
        fold_lora(model)
        folded = model(IDS)
    if precision == torch.float32:
        torch.testing.assert_close(folded, unfolded, rtol=1e-4, atol=1e-4)
        return
    rounding = (folded.float() - exact).norm() / exact.norm()
    assert (unfolded.float() - exact).norm() / exact.norm() < 1.5 * rounding < 0.05


@of_every_kind
def test_a_folded_model_is_an_ordinary_one(kind: str, tmp_path):
    model, ordinary = adapted(kind), build(kind)
    expected = model(IDS)
    fold_lora(model)
    assert model.state_dict().keys() == ordinary.state_dict().keys()
    assert all(each.requires_grad for each in model.parameters())
    model.save(tmp_path / "model.safetensors")
    torch.testing.assert_close(Model.load(tmp_path / "model.safetensors")(IDS), expected, rtol=1e-4, atol=1e-4)


def test_what_was_frozen_before_stays_frozen_after():
    model = build()
    model.embedding.weight.requires_grad_(False)
    add_lora(model, SMALL)
    assert {name for name, each in model.named_parameters() if each.requires_grad} == lora_parameters(model).keys()
    fold_lora(model)
    assert [name for name, each in model.named_parameters() if not each.requires_grad] == ["embedding.weight"]


@pytest.mark.parametrize("library", ["torch", "onednn"])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("has_bias", [False, True])
def test_values_and_gradients_are_those_of_the_formula(
    has_bias: bool, precision: torch.dtype, library: str, monkeypatch: pytest.MonkeyPatch
):
    """y = W x + b + (α / r) B A x for queries and values; a stacked layer whose keys have no update."""
    if library == "onednn" and not torch.backends.mkldnn.is_available():
        pytest.skip("torch was built without oneDNN")
    monkeypatch.setattr(product, "SMALL", 1)
    monkeypatch.setattr(product, "onednn_speedup", lambda: 2.0 if library == "onednn" else 0.0)
    attention = build("gpt2" if has_bias else "llama").blocks[0].attention
    add_lora(attention, LoRA(rank=3, alpha=6.0, matrices=("query", "value")))
    randomise(attention)
    layer = attention.query_key_value
    x, upstream = torch.randn(2, 7, 48, requires_grad=True), torch.randn(2, 7, layer.out_features)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
        y = layer(x)
    y.backward(upstream.to(y.dtype))
    found = [x.grad, *(each.grad for each in lora_parameters(attention).values())]

    with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
        inputs = x.detach().clone().requires_grad_()
        given = {name: each.detach().clone().requires_grad_() for name, each in lora_parameters(attention).items()}
        a_query, b_query, a_value, b_value = given.values()
        keys = attention.num_key_value_heads * attention.head_width
        query, key, value = F.linear(inputs, layer.weight, layer.bias).split([48, keys, keys], -1)
        query = query + 2.0 * F.linear(F.linear(inputs, a_query), b_query)
        value = value + 2.0 * F.linear(F.linear(inputs, a_value), b_value)
        expected = torch.cat([query, key, value], -1)
    expected.backward(upstream.to(expected.dtype))
    tolerance = 1e-5 if precision == torch.float32 else 0.06
    torch.testing.assert_close(y, expected, rtol=tolerance, atol=tolerance)
    for ours, theirs in zip(found, [inputs.grad, *(each.grad for each in given.values())], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance * float(theirs.abs().max()))


@of_every_kind
@torch.no_grad()
def test_decoding_with_a_cache_is_reading_the_whole(kind: str):
    """The compiled step reads W alone, so it must not be taken, though it was before, and may be again after."""
    model = build(kind)
    pieces = [(0, 18), (18, 19), (19, 22), (22, 30)]

    def decode() -> Tensor:
        state, found = model.start(len(IDS)), []
        for begin, end in pieces:
            logits, state = model.step(IDS[:, begin:end], state)
            found.append(logits)
        return torch.cat(found, 1)

    torch.testing.assert_close(decode(), model(IDS), rtol=1e-4, atol=1e-4)
    assert block_step.BlockSteps(model.blocks, model.norm).can_read
    add_lora(model, SMALL)
    randomise(model)
    torch.testing.assert_close(decode(), model(IDS), rtol=1e-4, atol=1e-4)
    assert not block_step.BlockSteps(model.blocks, model.norm).can_read
    expected = model(IDS)
    fold_lora(model)
    torch.testing.assert_close(decode(), expected, rtol=1e-4, atol=1e-4)
    assert block_step.BlockSteps(model.blocks, model.norm).can_read


def test_what_is_stored_is_what_is_loaded():
    model, other = adapted(), build()
    stored = {name: each.detach().numpy().copy() for name, each in lora_parameters(model).items()}
    assert list(stored)[:2] == [
        "blocks.0.attention.query_key_value.lora.query.A",
        "blocks.0.attention.query_key_value.lora.query.B",
    ]
    add_lora(other, SMALL)
    load_lora(other, stored)
    assert torch.equal(other(IDS), model(IDS))


@pytest.mark.parametrize(
    ("settings", "kind", "reason"),
    [
        (LoRA(rank=2), "llama", r"is 4 x 48, and this model needs 2 x 48"),
        (LoRA(rank=4, matrices=("query",)), "llama", r"the adapter has 'blocks\.\d\..*, unlike the model"),
        (SMALL, "gpt2", r"the adapter has 'blocks\.\d\.feedforward\.input\.lora\.gate\.[AB]'"),
    ],
)
def test_the_adapter_of_another_model_is_refused(settings: LoRA, kind: str, reason: str):
    stored = lora_parameters(adapted())
    model = build(kind)
    add_lora(model, settings)
    with pytest.raises(UserError, match=reason):
        load_lora(model, stored)


def test_only_the_chosen_matrices_of_the_topmost_blocks_have_updates():
    model = build()
    add_lora(model, LoRA(rank=2, matrices=("value", "down"), layers=2))
    assert [name.removeprefix("blocks.") for name in lora_parameters(model) if name.endswith("A")] == [
        "1.attention.query_key_value.lora.value.A",
        "1.feedforward.output.lora.down.A",
        "2.attention.query_key_value.lora.value.A",
        "2.feedforward.output.lora.down.A",
    ]


def test_any_model_with_linear_layers_can_have_updates():
    torch.manual_seed(0)
    model = mlp.Model(mlp.SIZES["tiny"], 31, 0).eval()
    before = model(IDS.numpy())
    add_lora(model, LoRA(rank=2))
    assert list(lora_parameters(model)) == ["hidden.lora.other.A", "hidden.lora.other.B"]
    randomise(model)
    unfolded = model(IDS.numpy())
    assert not torch.allclose(unfolded, before, atol=1e-3)
    fold_lora(model)
    torch.testing.assert_close(model(IDS.numpy()), unfolded, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "settings", "reason"),
    [
        (
            lambda: lstm.Model(lstm.SIZES["tiny"], 31, 0),
            SMALL,
            r"no matrix that is one of query.*it has none that LoRA",
        ),
        (lambda: build("gpt2"), LoRA(matrices=("gate",)), r"no matrix that is one of gate \(it has: query, key, value"),
        (build, LoRA(layers=4), "layers must be at most 3, the blocks that the model has, got 4"),
    ],
)
def test_a_model_without_the_matrices_is_refused(make, settings: LoRA, reason: str):
    model = make()
    with pytest.raises(UserError, match=reason):
        add_lora(model, settings)
    assert all(each.requires_grad for each in model.parameters())


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"rank": 0}, "rank must be a whole number of at least 1, got 0"),
        ({"alpha": 0}, "alpha must be above 0"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"matrices": ()}, "got none"),
        ({"matrices": ("q_proj",)}, "matrices must be one of query, key, value"),
        ({"layers": 0}, "layers must be at least 1, got 0"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], reason: str):
    with pytest.raises(UserError, match=reason):
        LoRA(**settings)


def test_dropout_is_of_what_a_reads_and_of_training_alone():
    model = adapted(settings=LoRA(rank=4, alpha=8.0, dropout=0.5))
    expected = adapted()(IDS)
    assert torch.equal(model(IDS), expected)
    model.train()
    dropped = torch.stack([model.blocks[0].feedforward.output(torch.ones(1, 128)) for _ in range(400)])
    model.eval()
    kept = model.blocks[0].feedforward.output(torch.ones(1, 128))
    assert dropped.std(0).min() > 0
    torch.testing.assert_close(dropped.mean(0), kept, rtol=0, atol=0.8)


def test_rounded_weights_with_updates_folded_in_are_read_in_full():
    model = build()
    for each in model.matrices():
        round_to_int8(each)
    add_lora(model, LoRA(rank=4, alpha=8.0, matrices=("down",)))
    randomise(model)
    expected = model(IDS)
    fold_lora(model)
    feedforward = model.blocks[0].feedforward
    assert [hasattr(each.weight, "int8") for each in (feedforward.input, feedforward.output)] == [True, False]
    torch.testing.assert_close(model(IDS), expected, rtol=1e-4, atol=1e-4)


def test_a_model_with_updates_can_be_copied():
    model = adapted()
    twin = copy.deepcopy(model)
    for each in lora_parameters(twin).values():
        each.data.zero_()
    with without_lora(model):
        base = model(IDS)
    assert torch.equal(twin(IDS), base)
    fold_lora(twin)
    assert lora_parameters(model) and not lora_parameters(twin)


def test_muon_leaves_factors_to_adamw():
    model = adapted()
    optimizer = Optimizer(model, Recipe(optimizer="muon"))
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    model(IDS).square().sum().backward()
    optimizer.step(1.0)
    assert {name.rpartition("/")[2] for name in optimizer.state()} == {"step", "exp_avg", "exp_avg_sq"}
    changed = {name for name, each in model.named_parameters() if not torch.equal(each, before[name])}
    assert changed == lora_parameters(model).keys()


def test_frozen_weights_cost_no_gradient_of_their_own(monkeypatch):
    """A product with a frozen weight is computed ahead and back to x, and no third time."""
    monkeypatch.setattr(product, "onednn_speedup", lambda: 2.0)
    calls = []
    multiply = product.multiply
    monkeypatch.setattr(product, "multiply", lambda *all: calls.append(1) or multiply(*all))
    layer, x = Linear(256, 256), torch.randn(64, 256, requires_grad=True)
    layer(x).sum().backward()
    assert len(calls) == 3
    layer.requires_grad_(False)
    calls.clear()
    layer(x).sum().backward()
    assert len(calls) == 2


def test_losses_of_a_frozen_output_layer_give_hidden_vectors_their_gradient_alone():
    hidden, weight = torch.randn(20, 8, requires_grad=True), torch.randn(30, 8)
    bias, targets = torch.randn(30), torch.randint(30, (20,))
    candidates = Sampler(torch.arange(30), head=30, tail=0).draw()
    expected = torch.autograd.grad(F.cross_entropy(F.linear(hidden, weight, bias), targets, reduction="sum"), hidden)
    for total in (
        linear_cross_entropy(hidden, targets, weight, bias),
        sampled_cross_entropy(hidden, targets, weight, bias, candidates),
    ):
        torch.testing.assert_close(torch.autograd.grad(total, hidden), expected, rtol=1e-4, atol=1e-5)


def test_full_rank_of_all_matrices_learns_as_the_matrices_themselves_do():
    """With AᵀA = I, a step of B is a step of W, and one of A is of second order: losses of 40 steps agree to 1 %."""
    texts = torch.randint(7, (40, 4, 13), generator=torch.Generator().manual_seed(0)).sort(-1).values
    curves = []
    for is_lora in (False, True):
        model = build().train()
        matrices = [model.get_submodule(name).weight for name in stacked_matrices(model)]
        rank = max(max(each.shape) for each in matrices)
        if is_lora:
            add_lora(model, LoRA(rank=rank, alpha=float(rank)))
            for name, each in lora_parameters(model).items():
                if name.endswith(".A"):
                    torch.nn.init.orthogonal_(each)
        else:
            model.requires_grad_(False)
            for each in matrices:
                each.requires_grad_(True)
        optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], 0.05)
        losses = []
        for text in texts:
            loss = model.loss(Batch(text[:, :-1], text[:, 1:]))
            optimizer.zero_grad()
            (loss.total / loss.count).backward()
            optimizer.step()
            losses.append(float(loss.total.detach()) / loss.count)
        curves.append(losses)
    full, low_rank = curves
    assert full[-1] < 0.9 * full[0]
    for one, other in zip(full, low_rank, strict=True):
        assert other == pytest.approx(one, rel=0.01)
