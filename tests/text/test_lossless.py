"""Bits per byte are only given where tokens hide nothing of the text."""

import json

import pytest

import chainrule
from chainrule.text.base import Tokenizer

LINES = "\n".join(f"The Red cow number {i} eats hay" for i in range(60))


@pytest.mark.parametrize(
    ("kind", "closed", "expected"),
    [
        ("words", False, True),
        ("bpe", False, True),
        ("characters", False, True),
        ("bytes", False, True),
        ("words", True, False),
        ("characters", True, False),
    ],
)
def test_open_vocabularies_are_lossless_and_closed_ones_are_not(tmp_path, kind, closed, expected):
    (tmp_path / "cows.txt").write_text(LINES)
    run = chainrule.train("cows.txt", tokenizer=kind, closed_vocabulary=closed)
    assert run.tokenizer.is_lossless is expected
    assert (run.evaluate("cows.txt")["bits_per_byte"] is not None) is expected
    assert (run.metrics[-1]["validation"]["bits_per_byte"] is not None) is expected


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "Lowercase"}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}},
    ],
)
def test_a_tokenizer_that_changes_the_text_is_not_lossless(tmp_path, change):
    (tmp_path / "cows.txt").write_text(LINES)
    settings = json.loads(chainrule.train("cows.txt", tokenizer="bpe").tokenizer.json) | change
    (tmp_path / "changed.json").write_text(json.dumps(settings))
    assert not Tokenizer.load(tmp_path / "changed.json").is_lossless
    run = chainrule.train("cows.txt", tokenizer=str(tmp_path / "changed.json"))
    assert run.metrics[-1]["validation"]["bits_per_byte"] is None


def test_a_vocabulary_that_lacks_a_byte_is_not_lossless(tmp_path):
    (tmp_path / "cows.txt").write_text(LINES)
    settings = json.loads(chainrule.train("cows.txt", tokenizer="bytes").tokenizer.json)
    last = settings["model"]["vocab"].pop("z")
    for symbol, id in settings["model"]["vocab"].items():
        settings["model"]["vocab"][symbol] = id - (id > last)
    settings["added_tokens"][0]["id"] -= 1
    (tmp_path / "lacks.json").write_text(json.dumps(settings))
    assert not Tokenizer.load(tmp_path / "lacks.json").is_lossless
