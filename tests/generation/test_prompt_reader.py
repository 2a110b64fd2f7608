"""A prompt that goes on from the last one is read from there; any other, from its beginning."""

import numpy as np
import pytest

from chainrule.generation.decoder import PREFILL_CHUNK
from chainrule.generation.prompt import Prompt
from chainrule.generation.prompt_reader import PromptReader

from .toys import LimitedContext, TableBigram, Total, random_table

TABLE = random_table(6, seed=3)


def read(reader: PromptReader, ids: list[int]) -> np.ndarray:
    for _ in reader.read(Prompt(np.array(ids, np.int64), "")):
        pass
    assert reader.decoder is not None
    return reader.decoder.logits


def anew(model: TableBigram, ids: list[int]) -> np.ndarray:
    return read(PromptReader(model), ids)


@pytest.mark.parametrize(
    ("after", "tokens"),
    [
        ([1, 2, 3, 4, 5, 0], 1),  # the prompt with its whole continuation
        ([1, 2, 3, 5, 5], 2),  # the prompt with another
        ([1, 2, 3], 0),  # the same prompt
        ([1, 2], 2),
        ([2, 2, 3, 4, 5], 5),
    ],
)
def test_only_what_is_new_is_read(after: list[int], tokens: int):
    model = Total(TABLE)
    reader = PromptReader(model)
    read(reader, [1, 2, 3])
    assert reader.decoder is not None
    for id in (4, 5):
        reader.decoder.append(np.array([id]))
    before = model.tokens_read
    logits = read(reader, after)
    assert (model.tokens_read - before, reader.tokens_read) == (tokens, tokens)
    np.testing.assert_array_equal(logits, anew(Total(TABLE), after))


def test_a_context_that_started_again_is_not_gone_on_from():
    model = LimitedContext(TABLE, 4)
    reader = PromptReader(model)
    read(reader, [1, 2, 3])
    assert reader.decoder is not None
    for id in (4, 5):
        reader.decoder.append(np.array([id]))
    np.testing.assert_array_equal(read(reader, [1, 2, 3, 4]), anew(LimitedContext(TABLE, 4), [1, 2, 3, 4]))


def test_a_reading_that_is_given_up_leaves_nothing_behind():
    model = Total(TABLE)
    reader = PromptReader(model)
    ids = [1, 2, 3, 4] * 400
    reading = reader.read(Prompt(np.array(ids), ""))
    next(reading)
    next(reading)
    assert model.tokens_read == PREFILL_CHUNK
    reading.close()
    assert reader.decoder is None
    np.testing.assert_array_equal(read(reader, ids), anew(Total(TABLE), ids))
