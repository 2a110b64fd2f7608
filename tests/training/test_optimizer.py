"""Each update rule against torch's own, or against its definition worked out by hand."""

import pytest
import torch
from torch import nn

from chainrule.layers.roles import Role, declare
from chainrule.models._neural import NeuralModel
from chainrule.training.adagrad import SparseAdagrad
from chainrule.training.muon import Muon
from chainrule.training.optimizer import MUON_RATE, Optimizer
from chainrule.training.recipe import Recipe
from tests.training.trainings import FAMILIES, build


class Small(NeuralModel):
    """A matrix, a vector and a table of embeddings."""

    def __init__(self) -> None:
        super().__init__(None, 5, 0)
        generator = torch.Generator().manual_seed(0)
        self.embedding = declare(Role.TOKEN_TABLE, nn.Parameter(torch.randn(5, 4, generator=generator)))
        self.hidden = nn.Parameter(torch.randn(6, 4, generator=generator))
        self.gain = nn.Parameter(torch.randn(6, generator=generator))


def set_gradients(model: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def follow(recipe: Recipe, factors: list[float]) -> Small:
    model = Small()
    optimizer = Optimizer(model, recipe)
    for seed, factor in enumerate(factors):
        set_gradients(model, seed)
        optimizer.step(factor)
        assert all(parameter.grad is None for parameter in model.parameters())
    return model


def assert_equal(ours: nn.Module, theirs: nn.Module) -> None:
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-7, msg=name)


FACTORS = [0.1, 0.5, 1.0, 0.7, 0.2]


def test_sgd_takes_the_rate_times_the_gradient_off():
    ours, theirs = follow(Recipe(optimizer="sgd", learning_rate=0.3), FACTORS), Small()
    for seed, factor in enumerate(FACTORS):
        set_gradients(theirs, seed)
        for parameter in theirs.parameters():
            parameter.data -= 0.3 * factor * parameter.grad
    assert_equal(ours, theirs)


def test_momentum_is_a_sum_of_gradients_that_fades():
    ours, theirs = follow(Recipe(optimizer="momentum", learning_rate=0.1, momentum=0.9), FACTORS), Small()
    velocity = [torch.zeros_like(parameter) for parameter in theirs.parameters()]
    for seed, factor in enumerate(FACTORS):
        set_gradients(theirs, seed)
        for parameter, speed in zip(theirs.parameters(), velocity, strict=True):
            speed.mul_(0.9).add_(parameter.grad)
            parameter.data -= 0.1 * factor * speed
    assert_equal(ours, theirs)


def test_adamw_is_that_of_torch_with_weight_decay_on_matrices_only():
    recipe = Recipe(optimizer="adamw", learning_rate=0.02, weight_decay=0.3, beta1=0.8, beta2=0.9)
    ours, theirs = follow(recipe, FACTORS), Small()
    groups = [
        {"params": [theirs.embedding, theirs.hidden], "weight_decay": 0.3},
        {"params": [theirs.gain], "weight_decay": 0.0},
    ]
    reference = torch.optim.AdamW(groups, lr=0.02, betas=(0.8, 0.9), eps=1e-8, foreach=False)
    for seed, factor in enumerate(FACTORS):
        set_gradients(theirs, seed)
        for group in reference.param_groups:
            group["lr"] = 0.02 * factor
        reference.step()
    assert_equal(ours, theirs)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adamw", "muon"])
def test_hidden_matrices_may_have_a_rate_of_their_own(optimizer):
    plain, quick, slow = (
        follow(Recipe(optimizer=optimizer, learning_rate=rate, matrix_learning_rate=own), FACTORS)
        for rate, own in ((0.1, None), (0.1, 0.3), (0.3, 0.1))
    )
    same = follow(Recipe(optimizer=optimizer, learning_rate=0.3, matrix_learning_rate=0.3), FACTORS)
    assert torch.equal(quick.hidden, same.hidden)
    assert torch.equal(slow.embedding, same.embedding)
    assert torch.equal(slow.gain, same.gain)
    for name in ("embedding", "gain"):
        assert torch.equal(getattr(quick, name), getattr(plain, name))
    assert torch.equal(slow.hidden, plain.hidden) is (optimizer != "muon")  # which has a rate by itself


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adamw", "muon"])
def test_weight_decay_changes_matrices_only(optimizer):
    recipe = Recipe(optimizer=optimizer, learning_rate=0.1)
    without, with_decay = (
        follow(recipe, [1.0]),
        follow(Recipe(optimizer=optimizer, learning_rate=0.1, weight_decay=0.5), [1.0]),
    )
    rate = MUON_RATE if optimizer == "muon" else 0.1
    torch.testing.assert_close(with_decay.hidden, without.hidden - rate * 0.5 * Small().hidden)
    torch.testing.assert_close(with_decay.embedding, without.embedding - 0.1 * 0.5 * Small().embedding)
    assert torch.equal(with_decay.gain, without.gain)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # of the one in torch
def test_sparse_adagrad_is_that_of_torch():
    torch.manual_seed(0)
    start = torch.randn(8, 3)
    ours, theirs = (nn.Embedding.from_pretrained(start.clone(), freeze=False, sparse=True) for _ in range(2))
    mine, reference = SparseAdagrad(ours.parameters(), lr=0.3), torch.optim.Adagrad(theirs.parameters(), lr=0.3)
    for step in range(6):
        ids = torch.tensor([[1, 4, 4], [6, 1, step]])
        for model, optimizer in ((ours, mine), (theirs, reference)):
            optimizer.zero_grad()
            (model(ids) * torch.arange(1.0, 10).reshape(3, 3)).pow(2).sum().backward()
            optimizer.step()
        torch.testing.assert_close(ours.weight, theirs.weight)
    assert torch.equal(ours.weight[7], start[7])  # a row that was never seen
    torch.testing.assert_close(mine.state[ours.weight]["sum"], reference.state[theirs.weight]["sum"])


def test_muon_has_the_hidden_matrices_adamw_the_rest_and_adagrad_the_tables():
    model = build("transformer")
    parts = Optimizer(model, Recipe(optimizer="muon"))._parts
    names = {parameter: name for name, parameter in model.named_parameters()}
    owned = {
        type(part): {names[parameter] for group in part.param_groups for parameter in group["params"]} for part in parts
    }
    assert set(owned) == {SparseAdagrad, Muon, torch.optim.AdamW}
    assert owned[SparseAdagrad] == {"ngrams.weight"}
    assert all(name.startswith("blocks.") and dict(model.named_parameters())[name].ndim == 2 for name in owned[Muon])
    assert "embedding.weight" in owned[torch.optim.AdamW]
    assert sum(map(len, owned.values())) == len(names)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adamw", "muon"])
@pytest.mark.parametrize("architecture", FAMILIES)
def test_every_parameter_has_one_update_rule(architecture, optimizer):
    model = build(architecture)
    parts = Optimizer(model, Recipe(optimizer=optimizer))._parts
    owned = [parameter for part in parts for group in part.param_groups for parameter in group["params"]]
    assert len(owned) == len({id(each) for each in owned}) == len(list(model.parameters()))


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adamw", "muon"])
def test_a_stored_state_goes_on_as_if_nothing_had_happened(optimizer):
    recipe = Recipe(optimizer=optimizer, weight_decay=0.1)
    whole, model = follow(recipe, FACTORS), Small()
    before = Optimizer(model, recipe)
    for seed in range(3):
        set_gradients(model, seed)
        before.step(FACTORS[seed])
    after = Optimizer(model, recipe)
    after.load({name: tensor.clone() for name, tensor in before.state().items()})
    for seed in (3, 4):
        set_gradients(model, seed)
        after.step(FACTORS[seed])
    for mine, other in zip(model.parameters(), whole.parameters(), strict=True):
        assert torch.equal(mine, other)
