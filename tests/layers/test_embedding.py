"""Hashed n-grams equal a hash in plain Python, in one go and step by step."""

from collections import Counter
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from chainrule.layers.embedding import NONE, HashedNgrams, ngram_hashes


def wrap(value: int) -> int:
    """To 64 bits with a sign, as machines do."""
    return (value + 2**63) % 2**64 - 2**63


def bucket(ngram: list[int], rows: int) -> int:
    """Of an n-gram in reading order, -1 for what comes before a text: the latest token first, then back."""
    value = ngram[-1] + 2
    for token in reversed(ngram[:-1]):
        value = wrap(value * 0x9E3779B1 + token + 2)
    mixed = wrap((value ^ (value >> 29)) * 0x9E3779B1)
    return (mixed ^ (mixed >> 32)) % rows


def make(largest: int, rows: int = 64, width: int = 3) -> HashedNgrams:
    torch.manual_seed(0)
    layer = HashedNgrams(largest, rows, width).double()
    torch.nn.init.normal_(layer.weight)
    return layer


def texts(vocabulary_size: int = 50_000, batch: int = 3, time: int = 11) -> Tensor:
    return torch.randint(vocabulary_size, (batch, time), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("rows", [1, 2, 64, 2**20])
@pytest.mark.parametrize("largest", [2, 3, 6])
def test_buckets_are_those_of_plain_python(largest: int, rows: int):
    """Long n-grams of large ids overflow 64 bits many times over."""
    tokens = texts()
    found = ngram_hashes(tokens, torch.full((3, largest - 1), NONE), largest, rows)
    assert len(found) == largest - 1
    for n, each in enumerate(found, 2):
        for row, words in enumerate(tokens.tolist()):
            padded = [-1] * (n - 1) + words
            assert each[row].tolist() == [bucket(padded[t : t + n], rows) for t in range(len(words))]


@pytest.mark.parametrize("largest", [2, 3, 6])
def test_vectors_are_summed_over_orders_that_do_not_share_rows(largest: int):
    layer, tokens = make(largest), texts()
    found, _ = layer(tokens, layer.start(3))
    for row, words in enumerate(tokens.tolist()):
        padded = [-1] * (largest - 1) + words
        for t in range(len(words)):
            rows = [
                64 * (n - 2) + bucket(padded[t + largest - n : t + largest], 64) for n in range(2, largest + 1)
            ]  # order n has the rows from 64 (n - 2) on
            torch.testing.assert_close(found[row, t], layer.weight[rows].sum(0), rtol=0, atol=1e-12)


def test_each_order_learns_rows_of_its_own():
    layer, tokens = make(4), texts()
    layer(tokens, layer.start(3))[0].sum().backward()
    uses = layer.weight.grad.to_dense()[:, 0].view(3, 64)  # how often each row was read
    assert uses.sum(1).tolist() == [33, 33, 33]


@pytest.mark.parametrize("pieces", [[1] * 11, [4, 7], [1, 8, 2], [10, 1], [0, 3, 0, 8]], ids=str)
@pytest.mark.parametrize("largest", [2, 3, 6])
def test_reading_in_pieces_is_reading_at_once(largest: int, pieces: list[int]):
    """Also in pieces shorter than what is remembered."""
    layer, tokens = make(largest), texts()
    whole, after = layer(tokens, layer.start(3))
    recent, found = layer.start(3), []
    for part in tokens.split(pieces, 1):
        vectors, recent = layer(part, recent)
        found.append(vectors)
        assert recent.shape == (3, largest - 1)
    assert torch.equal(torch.cat(found, 1), whole)
    assert torch.equal(recent, after)
    assert torch.equal(after, tokens[:, -(largest - 1) :])


def test_what_is_remembered_of_a_short_text_says_that_there_was_nothing_before():
    layer = make(4)
    _, recent = layer(torch.tensor([[7]]), layer.start(1))
    assert recent.tolist() == [[NONE, NONE, 7]]


def test_the_sparse_gradient_is_the_dense_one():
    """Of a table so small that rows meet within an order; each is counted as often as it is read."""
    layer, tokens = make(3, rows=4), texts()
    target = torch.randn(3, 11, 3, dtype=torch.float64)
    (layer(tokens, layer.start(3))[0] * target).sum().backward()
    assert layer.weight.grad.is_sparse
    dense = layer.weight.detach().clone().requires_grad_()
    hashes = ngram_hashes(tokens, layer.start(3), 3, 4)
    vectors = F.embedding(hashes[0], dense) + F.embedding(hashes[1] + 4, dense)
    (vectors * target).sum().backward()
    torch.testing.assert_close(layer.weight.grad.to_dense(), dense.grad, rtol=0, atol=1e-12)


def test_a_row_does_not_depend_on_its_batch_mates():
    layer, tokens = make(3), texts()
    together, _ = layer(tokens, layer.start(3))
    for row in range(3):
        assert torch.equal(layer(tokens[row : row + 1], layer.start(1))[0][0], together[row])


def test_only_the_last_tokens_matter():
    layer, tokens = make(3), texts()
    changed = tokens.clone()
    changed[:, 4] += 1
    differs = (layer(tokens, layer.start(3))[0] != layer(changed, layer.start(3))[0]).any(-1)
    assert differs.tolist() == [[t in (4, 5, 6) for t in range(11)]] * 3


@pytest.mark.parametrize("n", [2, 3])
def test_ngrams_spread_over_their_buckets(n: int):
    """4,096 n-grams in 4,096 rows: about 1/e of the rows stay empty, as by pure chance, whatever their order."""
    side = 64 if n == 2 else 16
    tokens = torch.tensor(list(product(range(side), repeat=n)))
    found = ngram_hashes(tokens, torch.full((len(tokens), n - 1), NONE), n, 4096)[-1][:, -1]
    counts = Counter(found.tolist())
    assert 1 - len(counts) / 4096 == pytest.approx(1 / 2.718282, abs=0.03)
    assert max(counts.values()) < 12


def test_order_and_place_of_tokens_matter():
    """ab is not ba, and a text that begins with a is not one where a follows b."""
    rows = 2**30
    found = ngram_hashes(torch.tensor([[1, 2], [2, 1]]), torch.full((2, 1), NONE), 2, rows)[0]
    assert len(set(found.flatten().tolist())) == 4


def test_dropout_is_on_while_training_and_off_after():
    tokens = texts()
    plain, layer = make(3), make(3)
    layer.dropout = 0.5
    assert torch.equal(layer.eval()(tokens, layer.start(3))[0], plain(tokens, plain.start(3))[0])
    layer.train()
    assert not torch.equal(layer(tokens, layer.start(3))[0], layer(tokens, layer.start(3))[0])
