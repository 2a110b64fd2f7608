"""Positions equal the formulas and the tables of the papers they come from."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from chainrule.layers.positions import (
    DistanceBias,
    LearnedPositions,
    alibi_slopes,
    buckets,
    distances,
    halved_sinusoids,
    rotary_angles,
    rotate,
    sinusoids,
)

CPU = torch.device("cpu")


@pytest.mark.parametrize("width", [1, 2, 5, 8, 64])
def test_sinusoids_are_the_papers_formula(width: int):
    """PE(t, 2i) = sin(t / 10000^(2i/d)), PE(t, 2i + 1) = cos(t / 10000^(2i/d))."""
    found = sinusoids(3, 40, width)
    for t in range(40):
        for column in range(width):
            angle = (t + 3) / 10000 ** ((column - column % 2) / width)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert float(found[t, column]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("width", [2, 6, 64])
def test_halved_sinusoids_have_all_sines_first(width: int):
    found = halved_sinusoids(3, 40, width)
    for t in range(40):
        angles = [(t + 3) / 10000 ** (2 * i / width) for i in range(width // 2)]
        expected = [*map(math.sin, angles), *map(math.cos, angles)]
        assert found[t].tolist() == pytest.approx(expected, abs=1e-5)
    rows = halved_sinusoids(torch.tensor([0, 3]), 40, width)
    assert torch.equal(rows[1], found)


def test_sinusoids_at_points_that_are_known():
    assert sinusoids(0, 1, 6).tolist() == [[0, 1, 0, 1, 0, 1]]
    # width 4: rates 1 and 1/100
    expected = [[math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]]
    torch.testing.assert_close(sinusoids(1, 1, 4), torch.tensor(expected))
    expected = [[math.sin(100), math.cos(100), math.sin(1), math.cos(1)]]
    torch.testing.assert_close(sinusoids(100, 1, 4), torch.tensor(expected))


def test_a_shift_turns_every_pair_of_sinusoids_by_the_same_angle():
    """The paper's reason for them: PE(t + k) is a linear function of PE(t), the same for all t."""
    early, late = sinusoids(0, 30, 8).double(), sinusoids(7, 30, 8).double()
    for pair in range(4):
        angle = 7 / 10000 ** (2 * pair / 8)
        turn = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]).double()
        place = slice(2 * pair, 2 * pair + 2)
        torch.testing.assert_close(early[:, place] @ turn.T, late[:, place], rtol=0, atol=1e-5)


def test_learned_positions_are_rows_of_a_table():
    table = LearnedPositions(6, 3)
    torch.testing.assert_close(table(2, 3), table.weight[[2, 3, 4]])
    table(2, 3).sum().backward()
    assert table.weight.grad.tolist() == [[0] * 3] * 2 + [[1] * 3] * 3 + [[0] * 3]


def rotated(vectors: Tensor, first: int, base: float = 10000.0) -> Tensor:
    return rotate(vectors, *rotary_angles(first, vectors.shape[-2], vectors.shape[-1], base, CPU))


def test_rotation_multiplies_complex_numbers_by_the_angle_of_their_position():
    """x_i + i x_{i + d/2} times e^(i t base^(-2i/d)), for halves side by side as in Llama."""
    vectors = torch.randn(2, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for base in (10000.0, 500.0):
        times = torch.arange(4, 9, dtype=torch.float64)[:, None]
        angles = times * torch.tensor([base ** (-2 * i / 8) for i in range(4)], dtype=torch.float64)
        numbers = torch.complex(vectors[..., :4], vectors[..., 4:]) * torch.polar(torch.ones_like(angles), angles)
        torch.testing.assert_close(
            rotated(vectors, 4, base), torch.cat([numbers.real, numbers.imag], -1), rtol=0, atol=1e-5
        )


def test_scores_of_rotated_vectors_depend_on_the_difference_of_positions_only():
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 1, 16, dtype=torch.float64, generator=generator)

    def score(at: int, of: int) -> float:
        return float(rotated(query[None], at)[0, 0] @ rotated(key[None], of)[0, 0])

    for back in (0, 1, 5, 30):
        scores = [score(first + back, first) for first in (0, 1, 17, 400)]
        assert scores == pytest.approx([scores[0]] * 4, abs=2e-4)
    assert score(5, 5) == pytest.approx(float(query[0] @ key[0]), abs=1e-5)
    assert abs(score(5, 4) - score(4, 5)) > 0.1  # before is not after
    assert abs(score(5, 4) - score(6, 4)) > 0.1


def test_rotations_from_the_middle_are_those_from_the_start():
    for part, whole in zip(rotary_angles(9, 4, 6, 10000.0, CPU), rotary_angles(0, 13, 6, 10000.0, CPU), strict=True):
        torch.testing.assert_close(part, whole[9:], rtol=0, atol=1e-6)


def test_rotations_first_asked_for_in_inference_can_be_trained_with():
    with torch.inference_mode():
        rotary_angles(1234, 3, 4, 10000.0, CPU)
    vectors = torch.ones(3, 4, requires_grad=True)
    rotated(vectors, 1234).square().sum().backward()
    torch.testing.assert_close(vectors.grad, 2 * torch.ones(3, 4))  # turning keeps lengths


def published_slopes(n: int) -> list[float]:
    """As in the authors' repository (ofirpress/attention_with_linear_biases, get_slopes)."""

    def of_a_power_of_two(n: int) -> list[float]:
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(n).is_integer():
        return of_a_power_of_two(n)
    closest = 2 ** math.floor(math.log2(n))
    return of_a_power_of_two(closest) + published_slopes(2 * closest)[0::2][: n - closest]


def test_alibi_slopes_are_the_published_ones():
    """For 8 heads 1/2, 1/4 ... 1/256; 12 heads take four more from the 16 that start at 2^-0.5."""
    eight = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert alibi_slopes(8) == eight
    assert alibi_slopes(12) == pytest.approx([*eight, 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5], rel=1e-12)
    for num_heads in range(1, 70):
        assert alibi_slopes(num_heads) == pytest.approx(published_slopes(num_heads), rel=1e-9)


def test_alibi_takes_the_slope_times_the_distance_from_a_score():
    """Queries 2 and 3 of four tokens, for the two heads of slopes 1/16 and 1/256."""
    infinity = float("inf")
    assert DistanceBias("alibi", 2)(2, 2, CPU).tolist() == [
        [[-2 / 16, -1 / 16, 0, -infinity], [-3 / 16, -2 / 16, -1 / 16, 0]],
        [[-2 / 256, -1 / 256, 0, -infinity], [-3 / 256, -2 / 256, -1 / 256, 0]],
    ]
    assert not list(DistanceBias("alibi", 2).parameters())


def test_distances_are_counted_back_from_the_query():
    assert distances(0, 3).tolist() == [[0, -1, -2], [1, 0, -1], [2, 1, 0]]
    assert distances(2, 2).tolist() == [[2, 1, 0, -1], [3, 2, 1, 0]]
    assert distances(5, 1).tolist() == [[5, 4, 3, 2, 1, 0]]


def test_buckets_of_distance_are_exact_when_near_and_logarithmic_when_far():
    """16 + ⌊16 log(d/16) / log(8)⌋: 16 to 18 share a bucket, 113 and more the last."""
    assert buckets(torch.arange(16)).tolist() == list(range(16))
    assert buckets(torch.tensor([16, 18, 19, 31, 32, 64, 112, 113, 128, 10**6])).tolist() == [
        16, 16, 17, 21, 21, 26, 30, 31, 31, 31,
    ]  # fmt: skip
    assert buckets(torch.tensor([-1, -500])).tolist() == [0, 0]


@pytest.fixture(scope="module")
def t5() -> Any:
    return pytest.importorskip("transformers.models.t5.modeling_t5")


def test_buckets_of_distance_are_those_of_t5(t5: Any):
    distance = torch.arange(-50, 3000)
    theirs = t5.T5Attention._relative_position_bucket(-distance, bidirectional=False, num_buckets=32, max_distance=128)
    assert torch.equal(buckets(distance), theirs)


def test_a_learned_bias_is_looked_up_by_bucket_and_head():
    layer = DistanceBias("relative", 3)
    assert layer.weight.shape == (32, 3)
    assert not layer.weight.any()  # at the start every distance is alike
    layer.weight.data = torch.arange(96.0).view(32, 3)
    found = layer(40, 2, CPU)  # (heads, 2, 42)
    values = found.tolist()
    for head in range(3):
        for query in range(2):
            for key in range(42):
                back = 40 + query - key
                expected = 3 * int(buckets(torch.tensor(back))) + head if back >= 0 else -math.inf
                assert values[head][query][key] == expected
    found.masked_fill(found == -torch.inf, 0).sum().backward()
    assert layer.weight.grad.sum(0).tolist() == [41 + 42] * 3
