"""Characters: one token each, of those that were seen."""

from hypothesis import given
from hypothesis import strategies as st

from tests.text.samples import LINES, SEEDED, train, trained

SEEN = sorted(set("".join(LINES)))


@SEEDED
@given(text=st.text(alphabet=SEEN))
def test_seen_characters_are_one_token_each(text: str) -> None:
    for name in ("characters", "closed characters"):
        tokenizer = trained(name)
        assert [tokenizer.token_text(id) for id in tokenizer.encode(text)] == list(text)


def test_ascii_is_its_byte_and_others_follow_by_frequency() -> None:
    tokenizer = train("characters", ["aéé中", "éß中"])
    assert tokenizer.encode("a~").tolist() == [ord("a"), ord("~")]
    assert tokenizer.encode("é中ß").tolist() == [256, 257, 258]
    assert (tokenizer.vocabulary_size, tokenizer.eos) == (260, 259)


def test_a_closed_vocabulary_holds_the_characters_seen_unknown_and_the_end() -> None:
    tokenizer = train("closed characters", ["hello"])
    shown = [tokenizer.token_text(id) for id in range(tokenizer.vocabulary_size)]
    assert shown == ["<unk>", "l", "h", "e", "o", "<eos>"]


def test_size_and_min_count_keep_the_most_frequent_characters() -> None:
    texts = ["ééé中中ßß☃"]
    small = train("characters", texts, size=2)
    assert small.vocabulary_size == 256 + 2 + 1
    assert small.encode("é中").tolist() == [256, 257]
    assert small.encode("ß☃").tolist() == list("ß☃".encode())
    frequent = train("characters", texts, min_count=3)
    assert frequent.vocabulary_size == 256 + 1 + 1
    closed = train("closed characters", texts, min_count=2, size=3)
    assert [closed.token_text(id) for id in closed.encode("é中ß☃")] == ["é", "中", "ß", "<unk>"]
