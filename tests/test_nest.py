"""Nests of arrays: mapped, flattened and back, and changed row by row."""

from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.utils._pytree

from chainrule.nest import (
    add_rows,
    flatten,
    map_arrays,
    num_rows,
    put_rows,
    remove_row,
    select_rows,
    unflatten,
)


class Pair(NamedTuple):
    first: object
    second: object


class Log:
    """A leaf with rows of its own, as a key-value cache is."""

    def __init__(self, *rows: int):
        self.rows = list(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: np.ndarray) -> "Log":
        return Log(*(self.rows[row] for row in rows))

    def add_rows(self, others: "Log") -> "Log":
        self.rows += others.rows
        return self

    def remove_row(self, row: int) -> "Log":
        self.rows[row] = self.rows[-1]
        del self.rows[-1]
        return self


def make(start: int = 0, rows: int = 3) -> dict[str, object]:
    numbers = np.arange(start, start + rows)
    return {
        "ids": numbers[:, None] * [1, 10],
        "layers": (torch.from_numpy(numbers), [None, Pair(torch.from_numpy(numbers * 2.0), None)]),
        "log": Log(*numbers.tolist()),
        "nothing": {},
    }


def values(nest: object) -> dict[str, list]:
    return {path: each.rows if isinstance(each, Log) else each.tolist() for path, each in flatten(nest).items()}


def test_paths_name_every_array_and_lead_back():
    nest = make()
    flat = flatten(nest)
    assert list(flat) == ["ids", "layers.0", "layers.1.1.0", "log"]
    again = unflatten(make(7), flat)
    assert values(again) == values(nest)
    assert isinstance(again["layers"][1][1], Pair)
    assert again["layers"][1][0] is None and again["nothing"] == {}
    with pytest.raises(KeyError, match="log"):
        unflatten(nest, {path: each for path, each in flat.items() if path != "log"})
    assert flatten(np.arange(2)).keys() == {""}
    assert flatten(None) == {}


def test_arrays_meet_their_counterparts():
    a, b = {"x": [np.arange(3), None], "y": np.ones(2)}, {"y": np.ones(2) * 5, "x": [np.arange(3) * 10, None]}
    assert values(map_arrays(np.add, a, b)) == {"x.0": [0, 11, 22], "y": [6, 6]}
    with pytest.raises(ValueError, match="shorter"):
        map_arrays(np.add, [a, a], [b])
    with pytest.raises(KeyError):
        map_arrays(np.add, a, {"x": [np.arange(3), None]})


def test_it_agrees_with_torch_on_nests_of_tensors():
    nest = {"a": torch.arange(3), "b": (torch.ones(2), [torch.zeros(1)])}
    ours, theirs = map_arrays(lambda x: x + 1, nest), torch.utils._pytree.tree_map(lambda x: x + 1, nest)
    assert values(ours) == values(theirs)
    for mine, other in zip(flatten(nest).values(), torch.utils._pytree.tree_leaves(nest), strict=True):
        assert mine is other


def test_rows_are_selected_added_and_removed():
    chosen = select_rows(make(), np.array([2, 0, 0]))
    assert values(chosen)["ids"] == [[2, 20], [0, 0], [0, 0]]
    assert values(chosen)["layers.1.1.0"] == [4, 0, 0]
    assert values(chosen)["log"] == [2, 0, 0]
    assert values(add_rows(make(0, 2), make(2, 3))) == values(make(0, 5))
    for row in range(4):
        order = [*range(row), 3, *range(row + 1, 3)][:3]
        assert values(remove_row(make(0, 4), row, 4)) == values(select_rows(make(0, 4), np.array(order)))


def test_rows_are_written_into_a_larger_batch_without_gradients():
    whole = {"h": torch.zeros(4, 2), "c": (torch.zeros(4), None)}
    part = {"h": torch.ones(2, 2, requires_grad=True), "c": (torch.tensor([5.0, 6.0]), None)}
    put_rows(whole, torch.tensor([3, 1]), part)
    assert values(whole) == {"h": [[0, 0], [1, 1], [0, 0], [1, 1]], "c.0": [0, 6, 0, 5]}
    assert not whole["h"].requires_grad


def test_the_number_of_rows_must_be_one():
    assert num_rows(make()) == 3
    with pytest.raises(ValueError, match=r"the same number of rows, got \[2, 3\]"):
        num_rows([np.arange(2), np.arange(3)])
    with pytest.raises(ValueError, match=r"got \[\]"):
        num_rows(None)
