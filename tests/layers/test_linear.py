"""Products of few rows are torch's, by one thread and by several, in 32 bits and in eight."""

import os
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from chainrule.kernels import thread_pool
from chainrule.kernels.int8 import Int8, round_to_int8
from chainrule.kernels.matvec import FEW
from chainrule.layers import linear


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, FEW])
@pytest.mark.parametrize("has_bias", [False, True])
@torch.no_grad()
def test_the_product_is_the_one_in_double_precision(threads: int, rows: int, has_bias: bool, monkeypatch):
    monkeypatch.setattr(linear, "LARGE", 0)
    generator = torch.Generator().manual_seed(rows)
    x, weight = (torch.randn(size, 301, generator=generator) for size in (rows, 997))
    bias = torch.randn(997, generator=generator) if has_bias else None
    monkeypatch.setattr(F, "linear", None)  # it must not be asked
    found = linear.linear(x.view(1, rows, 301), weight, bias)
    expected = x.double() @ weight.double().t() + (0 if bias is None else bias.double())
    torch.testing.assert_close(found[0].double(), expected, rtol=0, atol=1e-4)


@torch.no_grad()
def test_threads_give_the_same_bits(use_threads, monkeypatch):
    monkeypatch.setattr(linear, "LARGE", 0)
    x, weight = torch.randn(5, 640), torch.randn(3001, 640)
    found = []
    for count in (1, 2, 4):
        use_threads(count)
        found.append(linear.linear(x, weight))
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


@torch.no_grad()
def test_eight_bits_are_read_as_what_they_stand_for(threads: int, monkeypatch):
    monkeypatch.setattr(linear, "LARGE", 0)
    weight = torch.nn.Parameter(torch.randn(500, 200) * torch.rand(500, 1))
    weight[7] = 0
    before = weight.clone()
    round_to_int8(weight)
    assert weight.int8.codes.dtype == np.int8 and (np.abs(weight.int8.codes).max(1)[:7] == 127).all()
    assert not weight[7].any()
    half = before.abs().max(1, keepdim=True).values / 254  # half of a step, the farthest that rounding goes
    assert ((weight - before).abs() <= half * 1.0001).all()
    x = torch.randn(3, 200)
    torch.testing.assert_close(linear.linear(x, weight), F.linear(x, weight), rtol=0, atol=1e-4)


def test_codes_are_the_nearest_whole_numbers():
    found = Int8.of(torch.tensor([[1.27, -0.634, 0.006], [0.0, 0.0, 0.0]]))
    assert found.codes.tolist() == [[127, -63, 1], [0, 0, 0]]
    np.testing.assert_allclose(found.scales, [0.01, 0.0], atol=1e-8)
    np.testing.assert_allclose(found.to_float().numpy()[0], [1.27, -0.63, 0.01], atol=1e-6)


def test_gradients_and_many_rows_are_torchs_business(monkeypatch):
    monkeypatch.setattr(linear, "LARGE", 0)
    monkeypatch.setattr(linear, "multiply", None)  # it must not be asked
    weight = torch.randn(8, 4, requires_grad=True)
    linear.linear(torch.ones(1, 4), weight).sum().backward()
    assert weight.grad is not None and torch.equal(weight.grad, torch.ones(8, 4))
    with torch.no_grad():
        x = torch.randn(FEW + 1, 4)
        assert torch.equal(linear.linear(x, weight), F.linear(x, weight))
        assert torch.equal(linear.linear(x[:1].double(), weight.double()), F.linear(x[:1].double(), weight.double()))


def test_threads_that_call_at_the_same_time_do_not_meet(use_threads, monkeypatch):
    monkeypatch.setattr(linear, "LARGE", 0)
    use_threads(2)
    weight = torch.randn(2000, 300)
    wrong = []

    def work(seed: int) -> None:
        x = torch.randn(2, 300, generator=torch.Generator().manual_seed(seed))
        expected = F.linear(x, weight)
        for _ in range(50):
            with torch.no_grad():
                if not torch.allclose(linear.linear(x, weight), expected, atol=1e-4):
                    wrong.append(seed)

    callers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_works_alone(monkeypatch):
    monkeypatch.setattr(linear, "LARGE", 0)
    x, weight = torch.randn(1, 300), torch.randn(2000, 300)
    with torch.no_grad():
        expected = linear.linear(x, weight)
        child = os.fork()
        if child == 0:
            is_same = thread_pool.THREAD_POOL._most == 1 and torch.equal(linear.linear(x, weight), expected)
            os._exit(0 if is_same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
