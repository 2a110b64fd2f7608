"""Softmax over many words: exact in pieces, and from a sample."""

import pytest
import torch
import torch.nn.functional as F

from chainrule.layers import softmax
from chainrule.layers.softmax import Sampler, linear_cross_entropy, sampled_cross_entropy


def make(rows: int = 50, width: int = 8, vocabulary: int = 30, seed: int = 0) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, width, generator=generator, dtype=torch.float64).requires_grad_()
    weight = torch.randn(vocabulary, width, generator=generator, dtype=torch.float64).requires_grad_()
    bias = torch.randn(vocabulary, generator=generator, dtype=torch.float64).requires_grad_()
    targets = torch.randint(vocabulary, (rows,), generator=generator)
    return hidden, weight, bias, targets


def gradients(total: torch.Tensor, *tensors: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(total / 7, tensors))


@pytest.mark.parametrize("at_once", [1, 95, 10**6])
def test_in_pieces_equals_torchs_cross_entropy_and_its_gradients(monkeypatch, at_once):
    monkeypatch.setattr(softmax, "LOGITS_AT_ONCE", at_once)
    hidden, weight, bias, targets = make()
    ours = linear_cross_entropy(hidden, targets, weight, bias)
    theirs = F.cross_entropy(F.linear(hidden, weight, bias), targets, reduction="sum")
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    for mine, reference in zip(
        gradients(ours, hidden, weight, bias), gradients(theirs, hidden, weight, bias), strict=True
    ):
        torch.testing.assert_close(mine, reference, rtol=1e-10, atol=1e-12)


def test_without_a_bias():
    hidden, weight, _, targets = make()
    torch.testing.assert_close(
        linear_cross_entropy(hidden, targets, weight, None),
        F.cross_entropy(F.linear(hidden, weight), targets, reduction="sum"),
    )


def test_a_sample_of_every_word_is_exact():
    hidden, weight, bias, targets = make()
    candidates = Sampler(torch.arange(30), head=30, tail=0).draw()
    theirs = F.cross_entropy(F.linear(hidden, weight, bias), targets, reduction="sum")
    ours = sampled_cross_entropy(hidden, targets, weight, bias, candidates)
    torch.testing.assert_close(ours, theirs)
    for mine, reference in zip(
        gradients(ours, hidden, weight, bias), gradients(theirs, hidden, weight, bias), strict=True
    ):
        torch.testing.assert_close(mine, reference)


def test_the_normaliser_is_right_on_average():
    """Of words that are not the target, the weighted sum over many samples is the sum over all."""
    hidden, weight, bias, _ = make(rows=1)
    targets = torch.tensor([0])
    counts = torch.arange(30, 0, -1)  # word 0 is the most frequent, so it is in the head
    sampler = Sampler(counts, head=5, tail=10)
    torch.manual_seed(0)
    wanted = (hidden @ weight[0] + bias[0]).detach()
    sums = []
    for _ in range(20_000):
        loss = sampled_cross_entropy(hidden.detach(), targets, weight.detach(), bias.detach(), sampler.draw())
        sums.append((loss + wanted).exp())
    exact = (hidden @ weight.t() + bias).exp().sum().detach()
    found = torch.stack(sums)
    error = found.std() / len(found) ** 0.5
    assert abs(float(found.mean() - exact)) < 4 * float(error)
    assert float(found.std()) > 0


def test_chances_add_up_to_the_size_of_the_sample():
    sampler = Sampler(torch.arange(1000), head=100, tail=60)
    assert float(sampler.chances.sum()) == pytest.approx(60, rel=1e-4)
    assert float(sampler.chances.max()) <= 1
    drawn = sampler.draw()
    assert set(drawn.ids[:100].tolist()) == set(range(900, 1000))
    assert all(int(drawn.ids[drawn.place[word]]) == word for word in drawn.ids.tolist())


@pytest.mark.parametrize("smoothing", [0.1, 0.5])
def test_smoothed_targets_equal_torchs(smoothing):
    generator = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(9, 6, generator=generator), torch.randn(40, 6, generator=generator)
    bias, targets = torch.randn(40, generator=generator), torch.arange(9) * 4
    ours = [each.clone().requires_grad_() for each in (hidden, weight, bias)]
    theirs = [each.clone().requires_grad_() for each in (hidden, weight, bias)]
    found = linear_cross_entropy(ours[0], targets, ours[1], ours[2], smoothing)
    logits = torch.nn.functional.linear(*theirs)
    expected = torch.nn.functional.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(found, expected)
    (found * 0.3).backward()
    (expected * 0.3).backward()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, atol=1e-5, rtol=1e-5)
