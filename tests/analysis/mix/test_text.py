"""What parts predict of a text, kept: the same figures as evaluating each of them."""

import numpy as np

from chainrule.evaluation.score import score
from chainrule.models import cache
from chainrule.models.mix import Model
from tests.analysis.mix.toys import TOKENIZER, bigrams, text_of


def test_scores_of_parts_and_mix_are_those_of_evaluating_them() -> None:
    model = bigrams(1, 2)
    model = Model(model.config, model.parts, model.names, np.array([[0.2, 0.8]]))
    text = text_of(model)
    batches = [batch.documents for batch in text.batches]
    for found, part in [
        (text.scores_of_part(0), model.parts[0]),
        (text.scores_of_part(1), model.parts[1]),
        (text.scores_of_mix(model), model),
    ]:
        expected = score(part, TOKENIZER, batches)
        for column in ("tokens", "nats", "eos_nats", "impossible", "text_bytes", "lines"):
            np.testing.assert_allclose(getattr(found, column), getattr(expected, column), rtol=1e-5)


def test_one_more_part_is_read_as_if_it_had_been_there_before() -> None:
    model = bigrams(1, 2)
    part = cache.Model(cache.Config(0.9), model.vocabulary_size, model.eos)
    later = text_of(model).with_part(part)
    before = text_of(Model(model.config, (*model.parts, part), (*model.names, "cache")))
    np.testing.assert_array_equal(later.log_p, before.log_p)
    np.testing.assert_array_equal(later.signal, before.signal)
