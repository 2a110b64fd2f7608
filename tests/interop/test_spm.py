"""SentencePiece's files as they are read here: the likeliest pieces, as a search through all ways to cut finds them."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from chainrule.errors import UserError
from chainrule.interop._sentencepiece import make_unigram_tokenizer as make_tokenizer
from chainrule.interop._sentencepiece import read_spm
from chainrule.text.base import Tokenizer
from tests.interop.spm_files import USER_DEFINED, field, piece, write_spm

LETTERS = dict.fromkeys("▁abcdel", -8.0)
SCORES = LETTERS | {"▁a": -3.5, "ab": -4.25, "abc": -5.5, "bcd": -4.75, "▁de": -6.125, "al": -7.0, "▁abcd": -9.0}
FOREIGN = ["ü", "für", "abcdü"]
NAMES = ["<unk>", *SCORES, *FOREIGN]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_spm(tmp_path / "source.spm", SCORES)
    return tmp_path / "source.spm"


@pytest.fixture
def tokenizer(path: Path) -> Tokenizer:
    return make_tokenizer(read_spm(path), NAMES, ["</s>", "<pad>"], [">>de<<"], "of a test")


def names(tokenizer: Tokenizer, text: str) -> list[str]:
    return [str(tokenizer.backend.id_to_token(int(id))) for id in tokenizer.encode(text)]


def likeliest(text: str) -> list[str]:
    """Of all ways to cut, the one with the highest sum of scores."""
    ways = []
    for count in range(len(text)):
        for cuts in combinations(range(1, len(text)), count):
            pieces = [text[a:b] for a, b in zip((0, *cuts), (*cuts, len(text)), strict=True)]
            if all(each in SCORES for each in pieces):
                ways.append((sum(SCORES[each] for each in pieces), pieces))
    return max(ways)[1]


def test_pieces_and_scores_are_what_was_written(path):
    found = read_spm(path)
    assert found.scores == SCORES
    assert found.characters == b""


def test_texts_are_cut_into_the_likeliest_pieces(tokenizer):
    random = np.random.default_rng(1)
    texts = ["".join(random.choice(list("abcdel  "), 9)) for _ in range(40)]
    for text in texts:
        words = " ".join(text.split())
        expected = likeliest("▁" + words.replace(" ", "▁")) if words else []
        assert names(tokenizer, text) == expected
        assert tokenizer.decode(tokenizer.encode(text)) == words


def test_what_no_piece_spells_is_unknown_once_and_other_languages_are_spelled_at_worst(tokenizer):
    assert names(tokenizer, "a xyz b") == ["▁a", "▁", "<unk>", "▁", "b"]
    assert names(tokenizer, "abcdü") == ["▁a", "bcd", "ü"]
    assert tokenizer.decode([NAMES.index("für"), NAMES.index("▁de"), NAMES.index("<unk>")]) == "für de"


def test_special_tokens_are_last_and_no_text_spells_them(tokenizer):
    assert [tokenizer.special[each] for each in ("</s>", "<pad>")] == [len(NAMES), len(NAMES) + 1]
    assert tokenizer.eos == len(NAMES)
    assert not {tokenizer.eos, tokenizer.eos + 1} & {*tokenizer.encode("</s> <pad> a</s>").tolist()}


def test_codes_of_languages_stay_whole(tokenizer):
    assert names(tokenizer, " >>de<< a b") == [">>de<<", "▁a", "▁", "b"]


def test_a_tokenizer_that_was_saved_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.fingerprint == tokenizer.fingerprint
    assert (again.eos, names(again, "abcd la")) == (tokenizer.eos, names(tokenizer, "abcd la"))


@pytest.mark.parametrize("score", [-7.9940338134765625, -11.318449020385742, -1.1920928955078125e-07])
def test_scores_with_many_digits_survive_the_file(tmp_path, score):
    write_spm(tmp_path / "a.spm", LETTERS | {"ab": score})
    made = make_tokenizer(read_spm(tmp_path / "a.spm"), ["<unk>", *LETTERS, "ab"], ["</s>"], [], "of a test")
    made.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").fingerprint == made.fingerprint


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (field(2, field(3, 2)), "has the setting model_type=2; only 1 is supported"),
        (field(2, field(24, 1)), "has the setting treat_whitespace_as_suffix=1; only 0 is supported"),
        (field(3, field(3, 0)), "has the setting add_dummy_prefix=0; only 1 is supported"),
        (field(3, field(4, 0)), "has the setting remove_extra_whitespaces=0; only 1 is supported"),
        (piece("<me>", 0.0, USER_DEFINED), "has pieces of kind 4"),
        (piece("b", float("nan")), "is cut off, or is not a model of SentencePiece"),
        (field(1, field(1, 5)), "is cut off, or is not a model of SentencePiece"),
        (field(1, field(1, b"\xff\xfe") + field(2, 0.0)), "is cut off, or is not a model of SentencePiece"),
    ],
)
def test_what_is_not_known_here_is_refused(tmp_path, more, sentence):
    write_spm(tmp_path / "a.spm", SCORES, more)
    with pytest.raises(UserError, match=".*") as told:
        read_spm(tmp_path / "a.spm")
    assert sentence in str(told.value)


def test_files_cut_off_anywhere_are_refused(path):
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match="is cut off, or is not a model of SentencePiece"):
            read_spm(path)


def test_files_changed_anywhere_are_refused_or_hold_pieces_with_finite_scores(path):
    whole = path.read_bytes()
    refused = 0
    for place in range(len(whole)):
        for byte in (0, 127, 255):
            path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
            try:
                assert np.isfinite([*read_spm(path).scores.values()]).all()
            except UserError as error:
                assert "\n" not in str(error)  # noqa: PT017
                refused += 1
    assert refused > len(whole)


def test_a_table_of_characters_that_is_none_is_refused(tmp_path):
    write_spm(tmp_path / "a.spm", SCORES, field(3, field(2, b"no table")))
    pieces = read_spm(tmp_path / "a.spm")
    assert pieces.characters == b"no table"
    with pytest.raises(UserError, match="the tokenizer of a test cannot be read"):
        make_tokenizer(pieces, NAMES, ["</s>"], [], "of a test")


ODD = [
    "Ein Mann schläft.", "  zwei   Leerzeichen  ", "ﬁnde ½ Ⅷ ①", "Straße: 'x' \"y\" — …", "日本語 und Русский",
    "tab\tund\nZeile", "a\u0301 e\u0308 o\u030a", "EIN GROẞES Ä", "1.234,56 €", "\u200bnull\u00a0breit\u3000",
    "▁unter▁strich", "x" * 60, "😀 emoji 😀😀", "ｆｕｌｌ　ｗｉｄｔｈ", "", "한국어 조합", "<s> a</s>",
]  # fmt: skip


def test_texts_are_cut_as_sentencepiece_cuts_them(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    texts = [f"{a} {b} schläft auf der Bank, {c}." for a in ("Ein Mann", "Der Hund") for b in ODD for c in ODD[:3]]
    prefix = str(tmp_path / "a")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_prefix=prefix, vocab_size=150, hard_vocab_limit=False, minloglevel=2
    )
    theirs = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    pieces = read_spm(tmp_path / "a.model")
    assert len(pieces.characters) > 1000
    ours = make_tokenizer(pieces, ["<unk>", *pieces.scores], ["</s>"], [], "of a test")
    for text in ODD:
        expected = [each if each in pieces.scores else "<unk>" for each in theirs.encode(text, out_type=str)]
        assert names(ours, text) == expected, text
