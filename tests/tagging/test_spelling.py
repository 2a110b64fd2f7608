"""The parts of words, by hand."""

from zlib import crc32

import numpy as np

from chainrule.tagging.case import Sightings
from chainrule.tagging.spelling import NONE, PARTS, hashes, parts, rarities, rarity_of, spell


def test_parts_of_a_word():
    ends = ["w…", "wa…", "wal…", "walk…", "…k", "…lk", "…alk", "…walk"]
    assert parts("Walk") == [*ends, "<walk>=", "<wa", "wal", "alk", "lk>", "<wal", "walk", "alk>"]
    assert parts("A") == ["a…", "…a", "<a>=", "<a>"]


def test_long_words_keep_their_ends():
    found = parts("antidisestablishmentarianism")
    assert len(found) == PARTS
    assert {"antid…", "…anism"} <= set(found)


def test_rows_have_the_hashes_of_their_words_and_nothing_after_them():
    spelled = spell([["A", "Walk"], ["A"]], 3, Sightings())
    found, cases = spelled["parts"], spelled["cases"]
    assert found.shape == (2, 3, PARTS)
    assert found[0, 1, :16].tolist() == [1 + crc32(part.encode()) for part in parts("Walk")]
    assert found[0, 0].tolist() == found[1, 0].tolist() == [*(1 + crc32(p.encode()) for p in parts("A")), *[NONE] * 27]
    assert cases[0, 0].tolist()[:2] == [1 + crc32(name.encode()) for name in ("=X", "X…")]
    for each in (found, cases):
        assert (each[0, 2] == NONE).all() and (each[1, 1:] == NONE).all()


def test_a_part_is_left_out_the_more_often_the_fewer_words_have_it():
    """w… is of two words, walk and wade; …k of one, though it is written in two ways."""
    found = rarities([["Walk", "wade"], ["walk"]], 1.0)
    by_part = dict(zip(parts("Walk"), found["Walk"].tolist(), strict=False))
    assert by_part["w…"] == np.float32(1 / 3) and by_part["…k"] == 1 / 2
    assert (found["Walk"][len(parts("Walk")) :] == 0).all()
    rows = rarity_of([["Walk"], ["wade", "walk"]], found, (2, 2, PARTS))
    assert (rows[1, 1] == found["walk"]).all() and (rows[0, 1] == 0).all()
    assert not rarities([["Walk"]], 0.0)["Walk"].any()
    assert len(hashes("Walk")) == PARTS
