"""Numbers as people write and read them."""

import pytest

from chainrule.analysis.plan.quantities import (
    bytes_text,
    count_text,
    duration_text,
    flops_text,
    parse_count,
    significant,
    speed_text,
)
from chainrule.errors import UserError


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("300B", 300 * 10**9),
        ("1.4t", 14 * 10**11),
        ("500K", 500_000),
        ("1.5 M", 1_500_000),
        ("3e11", 300 * 10**9),
        ("300,000", 300_000),
        ("300_000", 300_000),
        (" 7 ", 7),
    ],
)
def test_counts_are_read_as_people_write_them(text: str, count: int):
    assert parse_count(text, "--tokens") == count


@pytest.mark.parametrize(
    "text", ["", "B", "300X", "300BB", "-5", "0", "0.2", "nan", "inf", "1e999", "1e19", "9999999T", "1e", "0x10"]
)
def test_nonsense_is_refused_and_repeated(text: str):
    with pytest.raises(UserError, match="--tokens must be") as refusal:
        parse_count(text, "--tokens")
    assert f"got '{text}'" in str(refusal.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [(174_604_259_328, "174.6B"), (999, "999"), (999_960, "1M"), (300e9, "300B"), (3.2e6, "3.2M"), (2e16, "20,000T")],
)
def test_counts_are_short(value: float, text: str):
    assert count_text(value) == text


def test_units_are_those_people_use():
    assert bytes_text(2_793_668_149_248) == "2.79 TB"
    assert bytes_text(640) == "640 bytes"
    assert speed_text(3.12e14) == "312 teraflop/s"
    assert flops_text(3.1428e23) == "3.14e23"
    assert flops_text(4.2e6) == "4.20e6"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.25 seconds"),
        (1, "1 second"),
        (90, "1.5 minutes"),
        (86_400 * 29.3, "29.3 days"),
        (81 * 365.25 * 86_400, "81 years"),
        (917_649 * 365.25 * 86_400, "917,649 years"),
        (1.9e6 * 365.25 * 86_400, "1.9 million years"),
        (5e13 * 365.25 * 86_400, "50,000 billion years"),
    ],
)
def test_durations_are_told_in_the_unit_that_fits(seconds: float, text: str):
    assert duration_text(seconds) == text


def test_significant_digits_are_those_of_printed_tables():
    assert significant(3637.06, 3) == 3640
    assert significant(2.6042, 3) == 2.6
    assert significant(0, 3) == 0
