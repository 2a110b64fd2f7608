"""Attention over a source, computed a second time by hand in NumPy."""

import numpy as np
import pytest
import torch

from chainrule.layers.encoder_output import EncoderOutput
from chainrule.layers.joins import AdditiveAttention, CrossAttention, DotAttention

ROWS, TIME, PLACES, WIDTH = 2, 3, 5, 8
LENGTHS = torch.tensor([5, 2])


@pytest.fixture
def tensors():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(ROWS, TIME, WIDTH, generator=generator), torch.randn(ROWS, PLACES, WIDTH, generator=generator)


def softmax(scores):
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def weigh(scores_of, query, outputs):
    """α row by row and word by word, over the places that a row has."""
    found = np.zeros((ROWS, TIME, PLACES))
    for row in range(ROWS):
        for time in range(TIME):
            length = int(LENGTHS[row])
            scores = [scores_of(query[row, time].numpy(), outputs[row, place].numpy()) for place in range(length)]
            found[row, time, :length] = softmax(np.array(scores))
    return found


def test_additive(tensors):
    query, outputs = tensors
    torch.manual_seed(1)
    attention = AdditiveAttention(WIDTH, WIDTH, 6)
    w, b = attention.query.weight.detach().numpy(), attention.query.bias.detach().numpy()
    u, v = attention.key.weight.detach().numpy(), attention.score.detach().numpy()
    expected = weigh(lambda q, m: v @ np.tanh(w @ q + b + u @ m), query, outputs)
    source = EncoderOutput(attention.project_source(outputs), LENGTHS)
    np.testing.assert_allclose(attention.weights(query, source).detach(), expected, atol=1e-6)
    np.testing.assert_allclose(attention(query, source).detach(), expected @ outputs.numpy(), atol=1e-5)


def test_additive_in_pieces_is_the_same(tensors, monkeypatch):
    query, outputs = tensors
    attention = AdditiveAttention(WIDTH, WIDTH, 6)
    source = EncoderOutput(attention.project_source(outputs), LENGTHS)
    whole = attention.weights(query, source)
    monkeypatch.setattr("chainrule.layers.joins.PLACES_AT_ONCE", 1)
    torch.testing.assert_close(attention.weights(query, source), whole, rtol=0, atol=1e-6)


def test_dot(tensors):
    query, outputs = tensors
    attention = DotAttention(WIDTH, WIDTH)
    w = attention.query.weight.detach().numpy()
    expected = weigh(lambda q, m: (w @ q) @ m, query, outputs)
    source = EncoderOutput(attention.project_source(outputs), LENGTHS)
    np.testing.assert_allclose(attention(query, source).detach(), expected @ outputs.numpy(), atol=1e-5)


def test_cross_equals_torchs_own(tensors):
    query, outputs = tensors
    ours = CrossAttention(WIDTH, 2, WIDTH)
    theirs = torch.nn.MultiheadAttention(WIDTH, 2, bias=False, batch_first=True)
    theirs.in_proj_weight.data = torch.cat([ours.query.weight, ours.key_value.weight]).detach()
    theirs.out_proj.weight.data = ours.output.weight.detach()
    padding = torch.arange(PLACES) >= LENGTHS[:, None]
    expected, weights = theirs(query, outputs, outputs, key_padding_mask=padding)
    source = EncoderOutput(ours.project_source(outputs), LENGTHS)
    bias = source.bias[:, None]
    torch.testing.assert_close(ours(query, *source.tensors, bias), expected, atol=1e-5, rtol=1e-5)
    mine = ours.weights(query, source.tensors[0], bias).mean(1)
    torch.testing.assert_close(mine, weights, atol=1e-5, rtol=1e-5)


def test_rows_of_an_encoder_output_come_and_go():
    first, second = torch.arange(12.0).view(2, 3, 2), torch.arange(4.0).view(1, 2, 2)
    outputs = EncoderOutput([first], torch.tensor([3, 1])).add_rows(EncoderOutput([second], torch.tensor([2])))
    assert outputs.lengths.tolist() == [3, 1, 2]
    torch.testing.assert_close(outputs.tensors[0][2, :2], second[0])
    assert outputs[np.array([2, 1])].places == 2
    left = outputs.remove_row(0)
    assert left.lengths.tolist() == [2, 1]
    torch.testing.assert_close(left.tensors[0][0], second[0])
