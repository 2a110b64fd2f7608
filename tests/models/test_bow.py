import numpy as np
import pytest
import torch

from chainrule.errors import UserError
from chainrule.models.bow import Config, Model
from chainrule.nest import select_rows

VOCABULARY, EOS = 9, 8


def make(**settings) -> Model:
    torch.manual_seed(0)
    return Model(Config(**{"width": 16, "hidden_width": 8, **settings}), VOCABULARY, EOS).eval()


@torch.no_grad()
def test_a_long_text_keeps_its_mean():
    """Read in uneven pieces, 300 000 words leave the mean that adding them up in double precision gives."""
    model = make()
    words = np.random.default_rng(0).integers(0, VOCABULARY, 300_000)
    words[::2] = 3  # far from a mean of zero
    state, start = model.start(1), 0
    for size in np.random.default_rng(1).integers(1, 2000, 1000):
        _, state = model.read(torch.from_numpy(words[None, start : start + size]), state)
        start += size
        if start >= len(words):
            break
    total, count = state
    assert float(count) == len(words)
    weight = model.embedding.weight.numpy().astype(np.float64)
    expected = np.bincount(words, minlength=VOCABULARY) @ weight / len(words)
    np.testing.assert_allclose((total / count[:, None])[0].numpy(), expected, atol=1e-5 * np.abs(expected).max())


@torch.no_grad()
def test_rows_of_different_lengths_keep_their_own_counts():
    """Two bags that were filled apart are read on together."""
    model = make()
    _, short = model.step(np.array([[1, 2]]), model.start(1))
    _, long = model.step(np.array([[3, 4, 5, 6, 7]]), model.start(1))
    joined = tuple(torch.cat(parts) for parts in zip(short, long, strict=True))
    together, _ = model.step(np.array([[0, 1], [0, 1]]), joined)
    alone = [model.step(np.array([[0, 1]]), state)[0] for state in (short, long)]
    np.testing.assert_allclose(together.numpy(), torch.cat(alone).numpy(), atol=1e-6)
    swapped, _ = model.step(np.array([[0, 1], [0, 1]]), select_rows(joined, np.array([1, 0])))
    np.testing.assert_allclose(swapped.numpy(), torch.cat(alone[::-1]).numpy(), atol=1e-6)


@torch.no_grad()
def test_a_stream_is_scored_in_bags_of_the_context_length():
    """Past the first bag, each token is predicted from at least half of a context."""
    model = make(context_length=4)
    stream = np.random.default_rng(2).integers(0, VOCABULARY, 12).astype(np.uint32)
    found = model.score(stream)
    for target, start in ((1, 0), (4, 0), (5, 2), (6, 2), (7, 4), (10, 6), (11, 7)):
        bag = stream[None, start:target].astype(np.int64)
        expected = model.step(bag, model.start(1))[0][0, -1].log_softmax(-1)[int(stream[target])]
        assert found[target - 1] == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"hidden_width": 0}, "hidden_width must be at least 1, got 0"),
        ({"context_length": 0}, "context_length must be at least 1, got 0"),
        ({"dropout": -0.1}, "dropout must be at least 0 and below 1, got -0.1"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(settings, sentence):
    with pytest.raises(UserError, match=f"^{sentence}$"):
        Config(**settings)
