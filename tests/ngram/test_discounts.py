import numpy as np
import pytest

from chainrule.ngram.discounts import FIXED, good_turing, modified, single


def counts(n1: int, n2: int, n3: int, n4: int, more: int = 0) -> np.ndarray:
    return np.repeat([1, 2, 3, 4, 9], [n1, n2, n3, n4, more]).astype(np.uint32)


def test_modified_discounts_by_hand():
    """Y = 100 / 180; D1 = 1 - 2Y 40/100, D2 = 2 - 3Y 20/40, D3 = 3 - 4Y 10/20."""
    found = modified(counts(100, 40, 20, 10), 3)
    y = 100 / 180
    assert (found.one, found.two, found.more) == pytest.approx((1 - 2 * y * 0.4, 2 - 3 * y * 0.5, 3 - 4 * y * 0.5))
    assert found.note == ""


def test_without_fourfold_counts_one_discount_serves_for_all():
    found = modified(counts(10, 5, 0, 0), 2)
    assert found.one == found.two == found.more == pytest.approx(10 / 20)
    assert found.note.startswith("order 2: the three discounts cannot be estimated (n1..n4 = 10, 5, 0, 0)")


def test_without_any_rare_counts_discounts_are_fixed():
    found = modified(counts(0, 0, 0, 0, more=5), 1)
    assert (found.one, found.two, found.more) == FIXED
    assert "fixed discounts 0.5, 1, 1.5" in found.note
    assert single(counts(0, 3, 0, 0), 1).note.startswith("order 1: the discount cannot be estimated (n1, n2 = 0, 3)")


def test_discounts_outside_their_range_are_not_used():
    """n3 far above n2 makes D2 negative."""
    assert "cannot be estimated" in modified(counts(100, 10, 200, 10), 4).note


def test_good_turing_ratios_by_hand():
    table = np.repeat([1, 2, 3, 4, 5, 6], [1000, 300, 150, 90, 60, 30]).astype(np.uint32)
    ratios, note = good_turing(table, 2)
    common = 6 * 30 / 1000
    assert ratios[1] == pytest.approx((2 * 300 / 1000 - common) / (1 - common))
    assert ratios[5] == pytest.approx((6 * 30 / (5 * 60) - common) / (1 - common))
    assert note == ""
