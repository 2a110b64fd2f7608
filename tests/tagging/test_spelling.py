"""The parts of words, by hand."""

from zlib import crc32

from chainrule.tagging.spelling import COUNT, NONE, parts, spell


def test_parts_of_a_word():
    ends = ["w…", "wa…", "wal…", "walk…", "…k", "…lk", "…alk", "…walk"]
    assert parts("Walk") == ["=Xx", *ends, "<walk>=", "<wa", "wal", "alk", "lk>", "<wal", "walk", "alk>"]
    assert parts("A") == ["=X", "a…", "…a", "<a>=", "<a>"]


def test_long_words_keep_their_ends():
    found = parts("antidisestablishmentarianism")
    assert len(found) == COUNT
    assert {"antid…", "…anism", "=x"} <= set(found)


def test_rows_have_the_hashes_of_their_words_and_nothing_after_them():
    found = spell([["A", "Walk"], ["A"]], 3)
    assert found.shape == (2, 3, COUNT)
    assert found[0, 1, :17].tolist() == [1 + crc32(part.encode()) for part in parts("Walk")]
    assert found[0, 0].tolist() == found[1, 0].tolist() == [*(1 + crc32(p.encode()) for p in parts("A")), *[NONE] * 27]
    assert (found[0, 2] == NONE).all()
    assert (found[1, 1:] == NONE).all()
