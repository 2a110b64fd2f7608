"""Keys and values in growing buffers hold what plain lists of them would, whatever is done in whatever order."""

import numpy as np
import pytest
import torch
from torch import Tensor

from chainrule.layers.cache import KeyValues

HEADS, WIDTH, LAYERS = 2, 3, 2
Row = list[Tensor]  # what was read of one row: (layers, keys and values, heads, head_width) for each token


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


def empty(rows: int, limit: int | None = None) -> KeyValues:
    return KeyValues.start(LAYERS, rows, HEADS, torch.empty(WIDTH), limit)


def random_tokens(rows: int, time: int, generator: np.random.Generator) -> Tensor:
    return torch.from_numpy(generator.normal(size=(rows, time, LAYERS, 2, HEADS, WIDTH))).float()


def extended(cache: KeyValues, new: Tensor) -> tuple[KeyValues, list[tuple[Tensor, Tensor]]]:
    """The state after these tokens, and what every layer sees."""
    after = cache.extend(new.shape[1])
    by_layer = new.permute(2, 3, 0, 4, 1, 5)  # (layers, keys and values, rows, heads, time, width)
    return after, [after.write(layer, key, value) for layer, (key, value) in enumerate(by_layer)]


def check(rows: list[Row], seen: list[tuple[Tensor, Tensor]]) -> None:
    """Every layer sees the tokens of every row, over no more than the longest; what is not a token is a number."""
    longest = max(map(len, rows), default=0)
    for layer, pair in enumerate(seen):
        for kind, found in enumerate(pair):
            assert found.shape == (len(rows), HEADS, longest, WIDTH)
            assert found.isfinite().all()
            for row, tokens in zip(found, rows, strict=True):
                assert all(torch.equal(row[:, place], token[layer, kind]) for place, token in enumerate(tokens))


@pytest.mark.parametrize("seed", range(20))
def test_any_sequence_of_steps_additions_removals_and_selections(seed: int):
    """Against lists; now and then it goes back to an older state, which must be what it was."""
    generator = np.random.default_rng(seed)
    cache, rows = empty(2, limit=200), [[], []]
    older: list[tuple[KeyValues, list[Row]]] = []
    for _ in range(60):
        action = generator.choice(["step", "step", "add", "remove", "select", "back"])
        if action == "add" and len(rows) < 12:
            time = int(generator.integers(0, 9))
            new = random_tokens(int(generator.integers(1, 3)), time, generator)
            added, _ = extended(empty(len(new)), new)
            cache, rows = cache.add_rows(added), [*rows, *(list(row) for row in new)]
        elif action == "remove" and len(rows) > 1:
            row = int(generator.integers(len(rows)))
            cache, rows = cache.remove_row(row), list(rows)
            rows[row] = rows[-1]
            rows.pop()
            older = []  # those were given away
        elif action == "select":
            chosen = generator.integers(0, len(rows), int(generator.integers(1, 8)))
            older.append((cache, rows))
            cache, rows = cache[chosen], [rows[row] for row in chosen]
        elif action == "back" and older:
            cache, rows = older[int(generator.integers(len(older)))]
        older.append((cache, rows))
        new = random_tokens(len(rows), int(generator.integers(0, 4)), generator)
        cache, seen = extended(cache, new)
        rows = [[*row, *tokens] for row, tokens in zip(rows, new, strict=True)]
        check(rows, seen)
        assert cache.lengths.tolist() == list(map(len, rows))
        if max(map(len, rows)) > 190:
            break


def test_a_state_that_was_stepped_from_is_unchanged_and_may_be_stepped_from_again():
    generator = np.random.default_rng(0)
    first, second, third = (random_tokens(2, time, generator) for time in (5, 1, 2))
    begun, _ = extended(empty(2), first)
    before, _ = extended(begun, first[:, :1])  # so that there is room for more
    start = [[*row, row[0]] for row in first]
    for new in (second, third, second):
        _, seen = extended(before, new)
        check([[*row, *tokens] for row, tokens in zip(start, new, strict=True)], seen)


def test_the_newest_state_writes_in_place_and_buffers_double_up_to_the_limit():
    generator = np.random.default_rng(0)
    cache, rooms = empty(1, limit=20), []
    for _ in range(20):
        before = {each.data_ptr() for each in cache._tensors}
        held = cache._tensors[0].shape[2]
        cache, _ = extended(cache, random_tokens(1, 1, generator))
        rooms.append(cache._tensors[0].shape[2])
        assert ({each.data_ptr() for each in cache._tensors} == before) == (rooms[-1] == held)
    assert rooms == [1, 2, 4, 4, 8, 8, 8, 8, *[16] * 8, *[20] * 4]


def test_rows_come_and_go_in_place_where_there_is_room():
    generator = np.random.default_rng(0)
    cache, _ = extended(empty(3), random_tokens(3, 8, generator))
    cache = cache.add_rows(cache[[0]])
    assert cache._tensors[0].shape[0] == 6  # twice three
    before = {each.data_ptr() for each in cache._tensors}
    cache = cache.remove_row(1).add_rows(cache_of_one(generator)).add_rows(cache_of_one(generator)).remove_row(4)
    assert {each.data_ptr() for each in cache._tensors} == before
    assert cache.lengths.tolist() == [8, 8, 8, 3]


def cache_of_one(generator: np.random.Generator) -> KeyValues:
    return extended(empty(1), random_tokens(1, 3, generator))[0]


def test_a_state_whose_row_was_removed_in_place_cannot_be_used():
    cache, _ = extended(empty(3), random_tokens(3, 4, np.random.default_rng(0)))
    cache.remove_row(0)
    with pytest.raises(AssertionError, match="given away"):
        cache.extend(1)


def test_what_a_removed_row_left_behind_does_not_spoil_the_next():
    """Numbers that are not finite cannot be masked: -inf + nan is nan."""
    cache, _ = extended(empty(2), torch.full((2, 6, LAYERS, 2, HEADS, WIDTH), torch.nan))
    long, _ = extended(empty(1), random_tokens(1, 6, np.random.default_rng(0)))
    short = cache_of_one(np.random.default_rng(1))
    cache = cache.remove_row(0).add_rows(long).add_rows(short).remove_row(0)
    _, seen = extended(cache, random_tokens(2, 1, np.random.default_rng(2)))
    assert all(part.isfinite().all() for pair in seen for part in pair)


@torch.enable_grad()
def test_gradients_pass_from_step_to_step_and_through_rows_of_different_lengths():
    """Of the sum of squares of all that a last step sees: twice a token, for every row that it is in."""
    generator = np.random.default_rng(0)
    one, two, both = (random_tokens(1, time, generator).requires_grad_() for time in (4, 2, 1))
    cache = extended(empty(1), one)[0].add_rows(extended(empty(1), two)[0])
    cache, _ = extended(cache[[0, 1, 1]], both.expand(3, -1, -1, -1, -1, -1))
    with torch.no_grad():
        extended(cache, both.expand(3, -1, -1, -1, -1, -1))  # may not write over what gradients need
    _, seen = extended(cache, torch.zeros(3, 1, LAYERS, 2, HEADS, WIDTH))
    sum(part.square().sum() for pair in seen for part in pair).backward()
    torch.testing.assert_close(one.grad, 2 * one.detach())
    torch.testing.assert_close(two.grad, 4 * two.detach())
    torch.testing.assert_close(both.grad, 6 * both.detach())


def test_what_was_read_in_inference_mode_can_be_read_on_without():
    generator = np.random.default_rng(0)
    first, second = random_tokens(2, 3, generator), random_tokens(2, 1, generator)
    with torch.inference_mode():
        cache, _ = extended(empty(2), first)
        cache, _ = extended(cache, second)  # has room for more
    _, seen = extended(cache, second)
    check([[*row, *new, *new] for row, new in zip(first, second, strict=True)], seen)
