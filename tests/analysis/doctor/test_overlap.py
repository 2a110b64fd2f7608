"""Shared passages, beside a search that compares every window with every other."""

import numpy as np
import pytest

from chainrule.analysis.doctor.overlap import Overlap, find_overlap, window_hashes


def by_comparing(text: np.ndarray, other: np.ndarray, length: int) -> Overlap:
    theirs = {tuple(other[i : i + length]) for i in range(len(other) - length + 1)}
    covered = np.zeros(len(text), bool)
    for i in range(len(text) - length + 1):
        if tuple(text[i : i + length]) in theirs:
            covered[i : i + length] = True
    best = start = run = 0
    for i, each in enumerate([*covered, False]):
        if each:
            run += 1
        else:
            best, start = (run, i - run) if run > best else (best, start)
            run = 0
    return Overlap(float(covered.mean()), start, best)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 8, 13])
def test_the_overlap_is_that_of_comparing_all_windows(length):
    generator = np.random.default_rng(length)
    for _ in range(20):
        text, other = (generator.integers(0, 3, generator.integers(1, 80)).astype(np.uint16) for _ in range(2))
        found, expected = find_overlap(text, other, length), by_comparing(text, other, length)
        assert found.share == pytest.approx(expected.share)
        assert (found.start, found.length) == (expected.start, expected.length)


@pytest.mark.parametrize("length", [1, 3, 6, 8])
def test_windows_have_equal_hashes_if_and_only_if_they_are_equal(length):
    stream = np.random.default_rng(0).integers(0, 4, 3000).astype(np.uint32)
    windows = [tuple(stream[i : i + length]) for i in range(len(stream) - length + 1)]
    hashes = window_hashes(stream, length).tolist()
    assert len(hashes) == len(windows)
    assert len(set(windows)) == len(set(hashes)) == len(set(zip(windows, hashes, strict=True)))
