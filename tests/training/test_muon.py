"""Muon's update is the polar factor of its momentum: U Vᵀ of the singular value decomposition."""

import pytest
import torch
from torch import Tensor, nn

from chainrule.training.muon import POLYNOMIALS, Muon, orthogonalise


def random_matrices(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def polar(matrix: Tensor) -> Tensor:
    left, _, right = torch.linalg.svd(matrix.double(), full_matrices=False)
    return (left @ right).float()


def cosine(ours: Tensor, theirs: Tensor) -> float:
    return float(torch.cosine_similarity(ours.flatten(), theirs.flatten(), dim=0))


@pytest.mark.parametrize("shape", [(16, 16), (8, 32), (32, 8), (64, 48)])
def test_orthogonalise_is_near_the_polar_factor(shape):
    for matrix, found in zip(random_matrices(3, *shape), orthogonalise(random_matrices(3, *shape)), strict=True):
        values = torch.linalg.svdvals(found)
        is_square = shape[0] == shape[1]  # whose smallest singular values may be as good as zero
        assert values.max() < 1.2
        assert values.median() > 0.8
        if not is_square:
            assert values.min() > 0.7
            assert (found - polar(matrix)).norm() < 0.25 * polar(matrix).norm()
        assert cosine(found, polar(matrix)) > 0.97


def test_more_rounds_come_nearer():
    matrix = random_matrices(1, 24, 60)
    away = [float((orthogonalise(matrix, rounds)[0] - polar(matrix[0])).norm()) for rounds in (1, 3, 5, 9)]
    assert away == sorted(away, reverse=True)
    assert away[-1] < 1e-4


def test_singular_vectors_stay_and_only_values_change():
    matrix = random_matrices(1, 6, 10)
    left, _, right = torch.linalg.svd(matrix[0], full_matrices=False)
    inside = left.T @ orthogonalise(matrix)[0] @ right.T
    torch.testing.assert_close(inside, torch.diag(inside.diagonal()), atol=2e-5, rtol=0)


def test_size_does_not_matter_and_zero_stays_zero():
    matrix = random_matrices(2, 5, 9)
    torch.testing.assert_close(orthogonalise(matrix * 1000), orthogonalise(matrix), rtol=1e-3, atol=1e-4)
    assert torch.equal(orthogonalise(torch.zeros(1, 4, 4)), torch.zeros(1, 4, 4))


@pytest.mark.parametrize("rounds", [1, 3, 5, 8, 12])
@pytest.mark.parametrize("rank", [1, 5, 24])
def test_rounds_on_the_gram_matrix_are_those_on_the_matrix_itself(rank: int, rounds: int):
    """Also where many singular values are zero, which rounding makes slightly positive or negative."""
    long = random_matrices(2, 24, rank) @ random_matrices(2, rank, 96, seed=1)
    x = long.double() / (long.double().norm(dim=(-2, -1), keepdim=True) * 1.01)
    for index in range(rounds):
        a, b, c = POLYNOMIALS[min(index, len(POLYNOMIALS) - 1)]
        gram = x @ x.mT
        x = a * x + b * gram @ x + c * gram @ gram @ x
    for found in (orthogonalise(long, rounds), orthogonalise(long.mT, rounds).mT):
        torch.testing.assert_close(found.double(), x, rtol=0, atol=5e-3)


def test_a_matrix_does_not_depend_on_those_beside_it():
    together = random_matrices(4, 7, 12)
    alone = torch.cat([orthogonalise(each[None]) for each in together])
    torch.testing.assert_close(orthogonalise(together), alone, rtol=1e-4, atol=1e-5)


def updates(optimizer_of, shape: tuple[int, int], gradients: list[Tensor]) -> list[Tensor]:
    parameter = nn.Parameter(random_matrices(*shape, seed=9))
    optimizer = optimizer_of([parameter])
    found = []
    for gradient in gradients:
        before = parameter.detach().clone()
        parameter.grad = gradient.clone()
        optimizer.step()
        found.append(parameter.detach() - before)
    return found


@pytest.mark.parametrize("shape", [(16, 40), (40, 16)])
def test_its_direction_is_that_of_torch(shape):
    """Torch's computes in bfloat16 with other polynomials, which leave singular values of 0.7 to 1.2."""
    gradients = [random_matrices(*shape, seed=seed) for seed in range(4)]
    ours = updates(lambda each: Muon(each, lr=0.1), shape, gradients)
    theirs = updates(
        lambda each: torch.optim.Muon(each, lr=0.1, weight_decay=0.0, adjust_lr_fn="original"), shape, gradients
    )
    momentum = torch.zeros(shape)
    for mine, other, gradient in zip(ours, theirs, gradients, strict=True):
        momentum = 0.95 * momentum + 0.05 * gradient
        exact = -polar(0.05 * gradient + 0.95 * momentum)
        assert cosine(mine, other) > 0.97
        assert cosine(mine, exact) > max(cosine(other, exact), 0.99)
        assert float(mine.norm() / other.norm()) == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize(("shape", "scale"), [((8, 32), 1.0), ((32, 8), 2.0)])
def test_an_update_is_rate_times_the_polar_factor_of_nesterovs_momentum(shape, scale):
    gradients = [random_matrices(*shape, seed=seed) for seed in range(3)]
    ours = updates(lambda each: Muon(each, lr=0.1, momentum=0.9, rounds=9), shape, gradients)
    momentum = torch.zeros(shape)
    for mine, gradient in zip(ours, gradients, strict=True):
        momentum = 0.9 * momentum + 0.1 * gradient
        expected = -0.1 * scale * polar(0.1 * gradient + 0.9 * momentum)
        assert (mine - expected).norm() < 1e-3 * expected.norm()


def test_stacked_parts_are_matrices_of_their_own():
    gradients = [random_matrices(24, 16, seed=seed) for seed in range(2)]
    stacked = updates(lambda each: Muon([{"params": each, "parts": 3}], lr=0.1), (24, 16), gradients)
    for part in range(3):
        rows = slice(8 * part, 8 * part + 8)
        single = nn.Parameter(random_matrices(24, 16, seed=9)[rows].clone())
        optimizer = Muon([single], lr=0.1)
        for gradient, change in zip(gradients, stacked, strict=True):
            before = single.detach().clone()
            single.grad = gradient[rows].clone()
            optimizer.step()
            torch.testing.assert_close(single.detach() - before, change[rows], rtol=1e-4, atol=1e-5)
    whole = updates(lambda each: Muon(each, lr=0.1), (24, 16), gradients)
    assert not torch.allclose(whole[0], stacked[0], atol=1e-3)


def test_weight_decay_is_apart_from_the_gradient():
    gradient = [random_matrices(6, 8, seed=1)]
    plain = updates(lambda each: Muon(each, lr=0.1), (6, 8), gradient)[0]
    decayed = updates(lambda each: Muon(each, lr=0.1, weight_decay=0.5), (6, 8), gradient)[0]
    torch.testing.assert_close(decayed - plain, -0.05 * random_matrices(6, 8, seed=9))


@pytest.mark.parametrize("rank", [1, 5, 20, 64])
@pytest.mark.parametrize("rounds", [3, 5, 9])
def test_in_bfloat16_no_direction_grows_without_end(rank, rounds):
    """Without a margin, rounding carries single values to some hundreds."""
    for shape in ((8, 32), (32, 8), (64, 48)):
        matrices = random_matrices(3, shape[0], rank) @ random_matrices(3, rank, shape[1], seed=1)
        found = orthogonalise(matrices, rounds, torch.bfloat16)
        assert found.dtype == torch.bfloat16
        assert torch.linalg.svdvals(found.float()).max() < 2


@pytest.mark.parametrize("shape", [(8, 32), (32, 8)])
def test_in_bfloat16_it_is_near_the_polar_factor(shape):
    matrices = random_matrices(3, *shape)
    for matrix, found in zip(matrices, orthogonalise(matrices, dtype=torch.bfloat16).float(), strict=True):
        assert cosine(found, polar(matrix)) > 0.97
