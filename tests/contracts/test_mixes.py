"""The contract of every architecture, held by mixes of an n-gram, an LSTM and a cache, whatever their weights go by."""

import numpy as np
import pytest

from chainrule.models import cache, mix
from chainrule.models.contract import log_softmax
from tests.contracts import test_models as contract
from tests.contracts.test_models import EOS, VOCABULARY, fit, logits_of, run, stream, tokens

# What every architecture must hold, but for how it is trained.
test_probabilities_sum_to_one = contract.test_probabilities_sum_to_one
test_one_step_over_time_equals_single_steps = contract.test_one_step_over_time_equals_single_steps
test_a_later_token_never_changes_an_earlier_prediction = contract.test_a_later_token_never_changes_an_earlier_prediction
test_earlier_tokens_do_change_a_prediction = contract.test_earlier_tokens_do_change_a_prediction
test_select_rows_agrees_with_recomputation = contract.test_select_rows_agrees_with_recomputation
test_a_row_does_not_depend_on_its_batch_mates = contract.test_a_row_does_not_depend_on_its_batch_mates
test_rows_come_and_go = contract.test_rows_that_come_and_go_at_any_length_are_as_if_alone
test_a_state_may_be_stepped_from_more_than_once = contract.test_a_state_may_be_stepped_from_more_than_once
test_padding_does_not_change_the_loss = contract.test_padding_does_not_change_the_loss
test_losses_of_parts_add_up_to_the_loss_of_the_whole = contract.test_losses_of_parts_add_up_to_the_loss_of_the_whole
test_the_models_own_loss_equals_the_default = contract.test_the_models_own_loss_equals_the_default
test_scores_of_a_stream_equal_the_default_by_steps = contract.test_scores_of_a_stream_equal_the_default_by_steps
test_ids_beyond_the_vocabulary_are_refused = contract.test_ids_beyond_the_vocabulary_are_refused
test_saved_equals_loaded = contract.test_saved_equals_loaded

__all__ = ["tokens"]  # a fixture


@pytest.fixture(scope="module")
def architecture() -> str:
    return "mix"


@pytest.fixture(scope="module", params=mix.BY)
def model(request: pytest.FixtureRequest) -> mix.Model:
    parts = [fit("ngram", stream(0)), fit("lstm", stream(0)), cache.Model(cache.Config(0.8), VOCABULARY, EOS)]
    parts[1].eval()
    entropies = parts[1].entropies(stream(5))
    edges = {"all": np.zeros(0), "order": np.array([1.5]), "entropy": np.quantile(entropies, [0.3, 0.6])}[request.param]
    weights = np.random.default_rng(0).dirichlet(np.ones(3), len(edges) + 1)
    return mix.Model(mix.Config(request.param), parts, ["ngram", "lstm", "cache"], weights, edges)


def test_rows_of_a_mix_with_a_transformer_come_and_go():
    """Its cache is a leaf of the mix's state, beside arrays of NumPy."""
    parts = [fit("ngram", stream(0)), fit("transformer", stream(0)).eval()]
    contract.test_rows_that_come_and_go_at_any_length_are_as_if_alone(mix.Model(mix.Config(), parts, ["a", "b"]))


def test_logits_are_log_probabilities(model, tokens):
    np.testing.assert_allclose(np.exp(run(model, tokens).astype(np.float64)).sum(-1), 1, atol=1e-5)


def test_every_bucket_is_met(model):
    """So that the tests here are of all weights, not of some."""
    assert set(model.buckets(model.read(stream(5))[1])) == set(range(len(model.weights)))


def test_a_step_is_the_weighted_sum_of_the_parts_steps(model, tokens):
    found = np.exp(run(model, tokens).astype(np.float64))
    parts = np.stack([np.exp(log_softmax(logits_of(part, tokens, part.start(3))[0])) for part in model.parts])
    if model.config.by == "all":
        np.testing.assert_allclose(found, np.einsum("p,pbtv->btv", model.weights[0], parts), rtol=1e-4)
    for bucket_weights in model.weights:  # each position has the weights of one bucket, for all words alike
        is_this = np.isclose(found, np.einsum("p,pbtv->btv", bucket_weights, parts), rtol=1e-4).all(-1)
        found[is_this] = np.nan
    assert np.isnan(found).all()
