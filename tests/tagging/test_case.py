"""What capitals tell, by hand."""

import pytest

from chainrule.errors import UserError
from chainrule.tagging.case import COUNT, Sightings, cases

NEVER = Sightings()


def test_a_word_is_told_by_its_shape_its_place_and_its_sentence():
    found = cases(["Walk", "on", ",", "John", "U.S.", "3rd"], NEVER)
    assert found[0] == ["=Xx", "Xxxx…", "first Xx", "31 Xx", "seen 00 X"]  # of four words three have a capital
    assert found[2][:4] == ["=,", ",…", "later ,", "31 ,"]
    assert found[5][:4] == ["=dx", "dxx…", "later dx", "31 dx"]
    assert all(len(each) == COUNT for each in found)


def test_sentences_without_letters_have_no_capitals():
    assert cases(["3", "!"], NEVER)[1][:4] == ["=!", "!…", "later !", "00 !"]


def test_headlines_are_told_from_text():
    assert cases(["ALL", "CAPITALS", "HERE"], NEVER)[0][3] == "33 X"
    assert cases(["none", "at", "all"], NEVER)[0][3] == "00 x"


def test_words_are_told_by_how_the_training_text_has_them(tmp_path):
    seen = Sightings([["bill"] * 20 + ["Bill"] * 2, ["BILL", "on"]])
    assert [seen.name(word, False) for word in ("bill", "Bill", "on", "On", "!")] == [
        "42 x",
        "42 X",
        "10 x",
        "10 X",
        "00 x",
    ]
    assert [seen.name(word, True) for word in ("bill", "Bill", "on")] == ["32 x", "42 X", "00 x"]  # the others alone
    seen.save(tmp_path / "seen.json")
    again = Sightings.load(tmp_path / "seen.json")
    assert (again.small, again.capital) == (seen.small, seen.capital)
    (tmp_path / "seen.json").write_text("3")
    with pytest.raises(UserError, match="is missing or damaged"):
        Sightings.load(tmp_path / "seen.json")
