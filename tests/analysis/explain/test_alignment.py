"""What is said of a translation is so: attributions add up, words are linked, the tree holds the text."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from chainrule.analysis.explain.alignment import EXACT, _tree, _words, attribute
from chainrule.generation.beam import Beam
from chainrule.generation.search import search
from chainrule.models.conditional import Config, Model

EOS = 8
CONDITION = {"source": np.array([[1, 2, 3, EOS]]), "lengths": np.array([4])}


def model(**settings: str) -> Model:
    torch.manual_seed(1)
    built = Model(Config(**settings, width=16, encoder_layers=1, decoder_layers=1, num_heads=2), 9, EOS)
    for parameter in built.parameters():
        parameter.data += torch.randn_like(parameter) * 0.3
    return built.eval()


@pytest.mark.parametrize("settings", [{}, {"encoder": "gru", "decoder": "gru", "join": "context-vector"}])
def test_attributions_add_up_to_what_the_source_does(settings):
    """Σ over the source = log p with it - log p with average words in its place (integrated gradients)."""
    built, read, wanted = model(**settings), np.array([[EOS, 3, 5]]), np.array([3, 5, EOS])

    def chances(vectors):
        state = built.begin_from(vectors, torch.tensor([4]), is_continued=False)
        hidden, _ = built.read(torch.from_numpy(read), state)
        return built.output(hidden).log_softmax(-1)[0, range(3), wanted.tolist()].detach().numpy()

    vectors, _ = built.source_vectors(CONDITION)
    average = built.source_table.weight.mean(0).expand_as(vectors)
    found = attribute(built, CONDITION, read, wanted)
    np.testing.assert_allclose(found.sum(1), chances(vectors) - chances(average), atol=EXACT)
    assert np.abs(found).max() > EXACT


def test_the_tree_leads_to_the_text_that_was_chosen():
    built, steps = model(), []
    found = search(built, CONDITION, EOS, [Beam(3, 1.0, 6, 3)], steps)[0]
    tree = _tree(steps[0], found[0].ids, str)
    best = [branch for step in tree for branch in step if branch.is_best]
    assert [branch.token for branch in best] == [str(id) for id in found[0].ids]
    for before, after in pairwise(best):
        step = next(step for step in tree if any(each is after for each in step))
        assert tree[tree.index(step) - 1][after.parent] is before
    assert best[-1].total == pytest.approx(sum(found[0].log_probabilities), rel=1e-5)


def test_tokens_belong_to_the_word_that_a_space_begins():
    class Pieces:
        token_bytes = (b" wal", b"king", b" dog", b".")
        joins_with_spaces = False

    assert _words(np.array([0, 1, 2, 3]), Pieces()) == [0, 0, 1, 1]
