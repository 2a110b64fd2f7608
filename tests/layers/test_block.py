"""A block is attention and a feed-forward network, each beside a residual, normed before or after."""

import pytest
import torch
from torch import Tensor, nn

from chainrule.layers.attention import Attention, Positions
from chainrule.layers.block import Block
from chainrule.layers.feedforward import FeedForward

WIDTH = 6


def make(is_pre: bool, norm: str = "layer", dropout: float = 0.0) -> Block:
    torch.manual_seed(3)
    kinds = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}
    norms = (kinds[norm](WIDTH, eps=1e-5), kinds[norm](WIDTH, eps=1e-5))
    attention = Attention(WIDTH, 2, 2, 3, dropout=dropout)
    block = Block(attention, FeedForward(WIDTH, 8, "gelu"), norms, is_pre, dropout).double()
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.7)
    return block


def normed(x: Tensor, norm: nn.Module) -> Tensor:
    """(x - mean) / σ · gain + bias, or x / root mean square · gain."""
    if isinstance(norm, nn.LayerNorm):
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight


def by_hand(block: Block, x: Tensor) -> Tensor:
    def attend(x: Tensor) -> Tensor:
        return block.attention(x, Positions())

    first, second = block.attention_norm, block.feedforward_norm
    if block.is_pre:
        x = x + attend(normed(x, first))
        return x + block.feedforward(normed(x, second))
    x = normed(x + attend(x), first)
    return normed(x + block.feedforward(x), second)


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 5, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("is_pre", [True, False], ids=["pre", "post"])
def test_norms_stand_where_they_are_said_to_stand(x: Tensor, is_pre: bool, norm: str):
    block = make(is_pre, norm)
    x.requires_grad_()
    found, expected = block(x, Positions()), by_hand(block, x)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    wanted = [x, *block.parameters()]
    for ours, theirs in zip(
        torch.autograd.grad(found.sin().sum(), wanted), torch.autograd.grad(expected.sin().sum(), wanted), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("is_pre", [True, False], ids=["pre", "post"])
@torch.no_grad()
def test_keys_and_values_are_handed_to_the_cache_and_what_it_gives_is_attended_to(x: Tensor, is_pre: bool):
    """Attention to values of zero gives the output's bias."""
    block, handed = make(is_pre), []

    def update_cache(key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        handed.extend([key, value])
        return torch.zeros_like(key), torch.zeros_like(value)

    found = block(x, Positions(), update_cache)
    before = block.attention_norm(x) if is_pre else x
    torch.testing.assert_close(handed, list(block.attention.project(before, Positions())[1:]), rtol=0, atol=0)
    block.attention.output.weight.zero_()
    torch.testing.assert_close(found, block(x, Positions()), rtol=0, atol=1e-12)


def test_a_block_whose_projections_are_zero_does_nothing(x: Tensor):
    """pre: the identity; post: its two norms."""
    for is_pre in (True, False):
        block = make(is_pre)
        for layer in (block.attention.output, block.feedforward.output):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        nothing = x if is_pre else normed(normed(x, block.attention_norm), block.feedforward_norm)
        torch.testing.assert_close(block(x, Positions()), nothing, rtol=0, atol=0 if is_pre else 1e-10)


@pytest.mark.parametrize("is_pre", [True, False], ids=["pre", "post"])
def test_dropout_is_on_while_training_and_off_after(x: Tensor, is_pre: bool):
    plain, block = make(is_pre).eval(), make(is_pre, dropout=0.5)
    assert torch.equal(block.eval()(x, Positions()), plain(x, Positions()))
    block.train()
    assert not torch.equal(block(x, Positions()), block(x, Positions()))
    torch.manual_seed(7)
    first = block(x, Positions())
    torch.manual_seed(7)
    assert torch.equal(first, block(x, Positions()))


def test_dropout_spares_the_residual(x: Tensor):
    """With all but nothing kept, a pre-norm block is the identity, not zero."""
    block = make(True, dropout=1 - 1e-12).train()
    torch.testing.assert_close(block(x, Positions()), x, rtol=0, atol=0)
