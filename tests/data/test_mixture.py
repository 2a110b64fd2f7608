"""Mixtures: GPT-3's diet, shares that come out as asked, and weights as people write them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.data.mixture import Mixture, Source, parse_inputs, parse_weighted
from chainrule.errors import UserError

# Brown et al. (2020), table 2.2: tokens, weight, epochs elapsed after 300 billion tokens.
GPT3 = {
    "Common Crawl": (410e9, 0.60, 0.44),
    "WebText2": (19e9, 0.22, 2.9),
    "Books1": (12e9, 0.08, 1.9),
    "Books2": (55e9, 0.08, 0.43),
    "Wikipedia": (3e9, 0.03, 3.4),
}
GPT3_MIXTURE = Mixture(tuple(Source(name, int(size), weight) for name, (size, weight, _) in GPT3.items()))
sources = st.lists(
    st.builds(Source, st.just("x"), st.integers(1, 10**12), st.floats(1e-3, 1e3)), min_size=1, max_size=6
).map(tuple)


@pytest.mark.parametrize("name", ["Common Crawl", "Books1", "Books2", "Wikipedia"])
def test_epochs_are_those_of_gpt3_within_the_rounding_of_its_table(name: str) -> None:
    size, weight, published = GPT3[name]
    found = GPT3_MIXTURE.epochs(300e9)[name]
    half = 0.005 if published < 1 else 0.05
    # Weights are printed to 0.01 and sizes to a billion tokens, so a row stands for a range of epochs.
    lowest = (weight - 0.005) * 300e9 / (size + 0.5e9) / 1.01
    highest = (weight + 0.005) * 300e9 / (size - 0.5e9) / 1.01
    assert lowest <= found <= highest
    assert lowest <= published + half
    assert published - half <= highest
    assert found == pytest.approx(weight / 1.01 * 300e9 / size)


def test_gpt3_s_epochs_follow_from_its_weights_and_sizes() -> None:
    """As the paper's 0.44, 2.9, 1.9, 0.43 and 3.4 do, but for WebText2: no rounding of 0.22 * 300 / 19 gives 2.9."""
    found = GPT3_MIXTURE.epochs(300e9)
    assert list(found.values()) == pytest.approx([0.435, 3.439, 1.980, 0.432, 2.970], abs=0.001)


def test_shares_sum_to_one_though_the_printed_weights_sum_to_1_01() -> None:
    assert sum(weight for _, weight, _ in GPT3.values()) == pytest.approx(1.01)
    assert sum(GPT3_MIXTURE.shares) == pytest.approx(1.0, abs=1e-15)
    assert GPT3_MIXTURE.shares[0] == pytest.approx(0.60 / 1.01)


def test_the_scarcest_source_of_gpt3_is_webtext2() -> None:
    assert GPT3_MIXTURE.tokens_without_repeats == pytest.approx(19e9 * 1.01 / 0.22)
    assert GPT3_MIXTURE.kept()[1] == 1.0


@given(sources=sources)
def test_what_is_kept_has_exactly_the_shares_asked_for(sources: tuple[Source, ...]) -> None:
    mixture = Mixture(sources)
    kept = mixture.kept()
    sizes = [fraction * source.size for fraction, source in zip(kept, sources, strict=True)]
    total_weight = sum(source.weight for source in sources)
    for size, source in zip(sizes, sources, strict=True):
        assert size / sum(sizes) == pytest.approx(source.weight / total_weight, rel=1e-9)
    assert all(0 < fraction <= 1 for fraction in kept)
    assert max(kept) == pytest.approx(1.0), "the scarcest source is read whole, so nothing larger has these shares"
    assert sum(sizes) == pytest.approx(mixture.tokens_without_repeats)


@given(sources=sources, tokens=st.floats(1.0, 1e15))
def test_epochs_times_sizes_are_the_tokens_seen(sources: tuple[Source, ...], tokens: float) -> None:
    named = tuple(Source(str(number), source.size, source.weight) for number, source in enumerate(sources))
    epochs = Mixture(named).epochs(tokens)
    assert sum(epochs[source.name] * source.size for source in named) == pytest.approx(tokens)
    at_most = Mixture(named).epochs(Mixture(named).tokens_without_repeats)
    assert max(at_most.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan")])
def test_a_weight_must_be_above_zero(weight: float) -> None:
    with pytest.raises(UserError, match="must be above zero"):
        Mixture((Source("a", 1, 1.0), Source("b", 1, weight)))


@pytest.mark.parametrize(
    ("argument", "parsed"),
    [
        ("web.txt=0.6", ("web.txt", 0.6)),
        ("web.txt=2", ("web.txt", 2.0)),
        ("web.txt=1e-3", ("web.txt", 0.001)),
        ("a=b.txt=.5", ("a=b.txt", 0.5)),
        ("web.txt", ("web.txt", None)),
        ("a=b.txt", ("a=b.txt", None)),
        ("web.txt=", ("web.txt=", None)),
        ("=0.5", ("=0.5", None)),
        ("", ("", None)),
    ],
)
def test_a_weight_follows_the_last_equals_sign(argument: str, parsed: tuple[str, float | None]) -> None:
    assert parse_weighted(argument) == parsed


def test_a_path_that_exists_is_a_path(tmp_path: Path) -> None:
    path = tmp_path / "chapter=3"
    path.write_text("text")
    assert parse_weighted(str(path)) == (str(path), None)
    assert parse_weighted(f"{path}=0.5") == (str(path), 0.5)


@pytest.mark.parametrize("number", ["0", "-1", "nan", "inf", "-inf", "1e999", "0.0"])
def test_a_weight_that_is_no_share_is_refused(number: str) -> None:
    with pytest.raises(UserError, match=f"the weight of 'web.txt' must be a number above zero, got {number}"):
        parse_weighted(f"web.txt={number}")


def test_all_inputs_have_weights_or_none_has() -> None:
    assert parse_inputs(["a=1", "b=2"]) == [("a", 1.0), ("b", 2.0)]
    assert parse_inputs(["a", "b"]) == [("a", None), ("b", None)]
    assert parse_inputs([]) == []
    with pytest.raises(UserError, match="'b' has no weight but other inputs have one; write 'b=WEIGHT'"):
        parse_inputs(["a=1", "b"])
