"""Word vectors by counting: words with the same neighbours begin alike, and the settings that ask for it."""

import numpy as np
import pytest
import torch

import chainrule
from chainrule.errors import UserError
from chainrule.tasks._vectors import vectors_by_counting
from chainrule.training.recipe import Recipe

KINDS = {"animals": range(4), "verbs": range(4, 8), "plants": range(8, 12)}  # animal verb plant, over and over
END = 12


def sentences(count: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.concatenate([[*(generator.choice(list(kind)) for kind in KINDS.values()), END] for _ in range(count)])


def likeness(vectors: torch.Tensor) -> torch.Tensor:
    unit = vectors / vectors.norm(dim=1, keepdim=True)
    return unit @ unit.t()


@pytest.mark.parametrize("width", [4, 8, 40])
def test_words_with_the_same_neighbours_begin_alike(width):
    torch.manual_seed(0)
    stream = sentences(2000)
    vectors = vectors_by_counting([stream], np.bincount(stream), width)
    assert vectors.shape == (13, width)
    assert float(vectors.square().mean()) == pytest.approx(1.0, rel=1e-5)
    alike = likeness(vectors)
    for kind in KINDS.values():
        others = [word for word in range(12) if word not in kind]
        within, across = alike[list(kind)][:, list(kind)], alike[list(kind)][:, others]
        assert float(within.mean()) > float(across.mean()) + 0.4


def test_shards_count_like_one_stream_and_a_seed_decides_the_directions():
    stream = sentences(500)
    counts = np.bincount(stream)

    def of(streams: list[np.ndarray]) -> torch.Tensor:
        torch.manual_seed(3)
        return vectors_by_counting(streams, counts, 6)

    whole, again = of([stream]), of([stream])
    assert torch.equal(whole, again)
    parted = of([stream[:1000], stream[1000:]])  # but for the neighbours across the cut
    torch.testing.assert_close(likeness(parted), likeness(whole), rtol=0.05, atol=0.02)


def test_rare_words_begin_shorter_and_unseen_ones_at_zero():
    stream = np.append(sentences(500), [13, END])
    torch.manual_seed(0)
    lengths = vectors_by_counting([stream], np.bincount(stream, minlength=15), 6).norm(dim=1)
    assert lengths[14] == 0
    assert 0 < lengths[13] < 0.6 * lengths[:13].min()


def test_a_training_begins_with_them_where_it_is_told_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = np.array(
        ["cat", "dog", "cow", "fox", "eats", "sees", "likes", "hides", "grass", "corn", "trees", "leaves", "."]
    )
    (tmp_path / "text.txt").write_text(" ".join(words[sentences(3000)]))
    settings = {"model": "lstm", "size": "tiny", "tokenizer": "words", "unit": "file", "split": "tail", "steps": 1}
    runs = {
        start: chainrule.train("text.txt", **settings, learning_rate=1e-9, first_vectors=start, path=f"runs/{start}")
        for start in ("random", "counted")
    }
    for start, run in runs.items():
        vectors = run.model.embedding.weight.detach()
        ids = [run.tokenizer.encode(word)[0] for word in ("cat", "dog")]
        alike = float(likeness(vectors)[ids[0], ids[1]])
        assert (alike > 0.5) is (start == "counted")


def test_any_other_start_is_refused():
    with pytest.raises(UserError, match="first_vectors must be one of random, counted, got 'zero'"):
        Recipe(first_vectors="zero")
