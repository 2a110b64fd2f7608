"""ARPA files: KenLM and we read each other's files alike, and whatever is wrong with a file is told with its line."""

import gzip
import math
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import tokenizers

from chainrule.data.documents import Documents, cut
from chainrule.errors import UserError
from chainrule.interop.arpa import text as arpa_text
from chainrule.interop.arpa import write as arpa
from chainrule.interop.arpa.read import read_arpa
from chainrule.interop.arpa.write import write_arpa
from chainrule.models.ngram import Config, Model
from chainrule.ngram.query import score_stream
from chainrule.text import bpe, characters, words
from chainrule.text import bytes as byte_tokens
from chainrule.text.base import Tokenizer, Vocabulary, end_with_eos

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
GOOD = ["kenlm_test.arpa", "kenlm_test_nounk.arpa", "kenlm_toy0.arpa", "kenlm_toy1.arpa"]
GOOD += ["sphinx_100.lm.gz", "sphinx_102.lm.gz", "sphinx_turtle.lm", "sphinx_turtle.ug.lm"]
needs_files = pytest.mark.skipif(
    not (DATA / "arpa").is_dir(), reason="needs the ARPA files of KenLM and CMU Sphinx in ../shared/data/arpa"
)
needs_ptb = pytest.mark.skipif(not (DATA / "ptb").is_dir(), reason="needs the Penn Treebank in ../shared/data/ptb")

Scores = tuple[np.ndarray, np.ndarray]  # log10 p and the length of the n-gram found, of every word and end


@pytest.fixture(scope="module")
def kenlm() -> ModuleType:
    return pytest.importorskip("kenlm", reason="needs KenLM's query module (pip install ufal.kenlm)")


def documents(lines: Iterable[str]) -> Documents:
    return cut(np.frombuffer("\n".join(lines).encode(), np.uint8), "line", "-")


def encode(tokenizer: Tokenizer, lines: Iterable[str]) -> np.ndarray:
    return np.concatenate([[tokenizer.eos], tokenizer.encode_documents(documents(lines))]).astype(np.uint32)


def ours(model: Model, tokenizer: Tokenizer, lines: Iterable[str]) -> Scores:
    scores, lengths = score_stream(model.trie, model.estimates, encode(tokenizer, lines))
    return scores.astype(np.float64) / math.log(10), lengths


def kenlms(kenlm: ModuleType, path: Path, lines: Iterable[str], folder: Path) -> Scores:
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    model = kenlm.Model(str(for_kenlm(path, folder)), config)
    found = [score for line in lines for score in model.full_scores(line)]
    return np.array([score[0] for score in found]), np.array([score[1] for score in found])


def sections(path: Path) -> list[list[tuple[str, ...]]]:
    """Per order, (log-probability, word, ..., back-off weight where there is one) of each line."""
    data = path.read_bytes()
    lines = (gzip.decompress(data) if path.suffix == ".gz" else data).decode().split("\n")
    found: list[list[tuple[str, ...]]] = []
    for line in lines[lines.index("\\data\\") + 1 : lines.index("\\end\\")]:
        if re.fullmatch(r"\\\d+-grams:", line):
            found.append([])
        elif found and line.strip():
            found[-1].append(tuple(line.split()))
    return found


def for_kenlm(path: Path, folder: Path) -> Path:
    """KenLM wants no text before the data, no compression, tabs, and two orders at least (the second may be empty)."""
    orders = list(enumerate([*sections(path), []][: max(2, len(sections(path)))], 1))
    text = "\\data\\\n" + "".join(f"ngram {k}={len(rows)}\n" for k, rows in orders)
    for k, rows in orders:
        lines = ["\t".join([row[0], " ".join(row[1 : k + 1]), *row[k + 1 :]]) for row in rows]
        text += f"\n\\{k}-grams:\n" + "".join(line + "\n" for line in lines)
    (folder / "kenlm.arpa").write_text(text + "\n\\end\\\n")
    return folder / "kenlm.arpa"


def by_the_book(path: Path, lines: Iterable[str]) -> Scores:
    """The back-off recursion on the lines of a file, from dictionaries."""
    probability: dict[tuple[str, ...], float] = {("<unk>",): -100.0}
    backoff: dict[tuple[str, ...], float] = {}
    for k, rows in enumerate(sections(path), 1):
        for row in rows:
            ngram = tuple("<unk>" if word == "<UNK>" else word for word in row[1 : k + 1])
            probability[ngram] = float(row[0])
            backoff[ngram] = float(row[k + 1]) if len(row) > k + 1 else 0.0

    def score(context: tuple[str, ...], word: str) -> tuple[float, int]:
        if (*context, word) in probability:
            return probability[*context, word], len(context) + 1
        value, length = score(context[1:], word)
        return backoff.get(context, 0.0) + value, length

    found = []
    for line in lines:
        document = ["<s>", *(w if (w,) in probability else "<unk>" for w in line.split()), "</s>"]
        found += [score(tuple(document[max(0, i - k + 1) : i]), document[i]) for i in range(1, len(document))]
    return np.array([value for value, _ in found]), np.array([length for _, length in found])


def assert_same(ours: Scores, theirs: Scores) -> None:
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6, atol=1e-5)
    np.testing.assert_array_equal(ours[1], theirs[1])


@cache
def made_up(seed: int, count: int) -> tuple[str, ...]:
    """Sentences in which each word makes some others likely."""
    rng = np.random.default_rng(seed)
    names = np.array([f"w{i}" for i in range(60)] + ["Straße", "東京", "\\", "\\2-grams:", "-1.5", "naïve"])
    likely = np.random.default_rng(1).integers(0, len(names), (len(names), 3))
    lines = []
    for _ in range(count):
        word = int(rng.integers(len(names)))
        line = [word]
        while rng.random() < 0.85:
            word = int(rng.choice(likely[word]) if rng.random() < 0.7 else min(rng.zipf(1.4), len(names)) - 1)
            line.append(word)
        lines.append(" ".join(names[line]))
    return tuple(lines)


def unseen() -> list[str]:
    return [f"zzz {line} never-seen" if i % 3 == 0 else line for i, line in enumerate(made_up(seed=2, count=80))]


@cache
def ptb(part: str, count: int) -> tuple[str, ...]:
    return tuple((DATA / "ptb" / f"ptb.{part}.txt").read_text().split("\n")[:count])


@cache
def closed(lines: tuple[str, ...]) -> Tokenizer:
    return words.train([documents(lines)], Vocabulary(is_closed=True))


def fit(tokenizer: Tokenizer, lines: Iterable[str], **settings: object) -> Model:
    model = Model(Config(**settings), tokenizer.vocabulary_size, tokenizer.eos)  # type: ignore[arg-type]
    return model.fit([encode(tokenizer, lines)])


METHODS = ["modified-kneser-ney", "witten-bell", "katz", "absolute"]


@pytest.mark.parametrize("order", range(1, 6))
@pytest.mark.parametrize("smoothing", METHODS)
def test_kenlm_scores_our_file_as_we_do(kenlm: ModuleType, tmp_path: Path, smoothing: str, order: int) -> None:
    text = made_up(seed=3, count=400)
    model = fit(closed(text), text, order=order, smoothing=smoothing)
    assert write_arpa(model, closed(text), tmp_path / "a.arpa") == []
    assert_same(ours(model, closed(text), unseen()), kenlms(kenlm, tmp_path / "a.arpa", unseen(), tmp_path))


@needs_ptb
@pytest.mark.parametrize("order", range(1, 6))
@pytest.mark.parametrize("smoothing", METHODS)
def test_kenlm_scores_a_model_of_news_as_we_do(kenlm: ModuleType, tmp_path: Path, smoothing: str, order: int) -> None:
    text, held_out = ptb("train", 3000), ptb("valid", 300)
    tokenizer = closed(text)
    assert (encode(tokenizer, held_out) == tokenizer.unknown).sum() > 100
    model = fit(tokenizer, text, order=order, smoothing=smoothing)
    write_arpa(model, tokenizer, tmp_path / "a.arpa")
    assert_same(ours(model, tokenizer, held_out), kenlms(kenlm, tmp_path / "a.arpa", held_out, tmp_path))


@pytest.mark.parametrize("smoothing", ["kneser-ney", "add-k", "jelinek-mercer", "modified-kneser-ney"])
def test_pruned_models_are_scored_alike(kenlm: ModuleType, tmp_path: Path, smoothing: str) -> None:
    text = made_up(seed=3, count=400)
    model = fit(closed(text), text, order=4, smoothing=smoothing, prune=(0, 0, 1, 2))
    write_arpa(model, closed(text), tmp_path / "a.arpa")
    theirs = kenlms(kenlm, tmp_path / "a.arpa", unseen(), tmp_path)
    assert_same(ours(model, closed(text), unseen()), theirs)
    assert_same(ours(*read_arpa(tmp_path / "a.arpa"), unseen()), theirs)


@pytest.mark.parametrize(
    ("train", "size"), [(words.train, None), (bpe.train, 320), (characters.train, None), (byte_tokens.train, None)]
)
def test_open_vocabularies_are_read_by_kenlm(kenlm: ModuleType, tmp_path: Path, train, size: int | None) -> None:  # type: ignore[no-untyped-def]
    text = made_up(seed=3, count=150)
    tokenizer = train([documents(text)], Vocabulary(size=size))
    model = fit(tokenizer, text, order=3)
    write_arpa(model, tokenizer, tmp_path / "a.arpa")
    names = [" ".join(tokenizer.backend.id_to_token(int(id)) for id in tokenizer.encode(line)) for line in unseen()]
    theirs = kenlms(kenlm, tmp_path / "a.arpa", names, tmp_path)
    assert_same(ours(model, tokenizer, unseen()), theirs)
    assert_same(ours(*read_arpa(tmp_path / "a.arpa"), names), theirs)


def test_what_is_impossible_is_written_as_minus_99(kenlm: ModuleType, tmp_path: Path) -> None:
    text = made_up(seed=3, count=100)
    model = fit(closed(text), text, order=3, smoothing="maximum-likelihood")
    (note,) = write_arpa(model, closed(text), tmp_path / "a.arpa")
    assert "are zero; ARPA files write their logarithms as -99" in note
    mine, lengths = ours(model, closed(text), unseen())
    theirs = kenlms(kenlm, tmp_path / "a.arpa", unseen(), tmp_path)
    possible = np.isfinite(mine)
    assert 0 < possible.sum() < len(possible)
    assert_same((mine[possible], lengths[possible]), (theirs[0][possible], theirs[1][possible]))
    assert (theirs[0][~possible] < -90).all()
    assert_same(ours(*read_arpa(tmp_path / "a.arpa"), unseen()), theirs)


def test_stupid_backoff_is_written_with_a_note_and_read_as_scores(tmp_path: Path) -> None:
    text = made_up(seed=3, count=400)
    model = fit(closed(text), text, order=3, smoothing="stupid-backoff")
    notes = write_arpa(model, closed(text), tmp_path / "a.arpa")
    assert "scores, not probabilities" in notes[0]
    assert "contexts that never occurred back off with 0.4 here and with 1 in an ARPA file" in notes[1]
    read, tokenizer = read_arpa(tmp_path / "a.arpa")
    model.estimates.unseen_backoff = 0.0  # the one thing that the file cannot say
    assert_same(ours(read, tokenizer, unseen()), ours(model, closed(text), unseen()))
    assert not read.is_normalised
    assert "add up to more than one" in read.notes()[0]


@needs_files
@pytest.mark.parametrize("name", GOOD)
def test_we_score_their_files_as_kenlm_and_the_definition_do(kenlm: ModuleType, tmp_path: Path, name: str) -> None:
    path = DATA / "arpa" / name
    model, tokenizer = read_arpa(path)
    lines = random_sentences(tokenizer, 400)
    mine = ours(model, tokenizer, lines)
    np.testing.assert_allclose(mine[0], by_the_book(path, lines)[0], rtol=1e-6, atol=1e-5)
    assert_same(mine, kenlms(kenlm, path, lines, tmp_path))


def random_sentences(tokenizer: Tokenizer, count: int) -> list[str]:
    """Random words, a fifth of them unknown, after sentences whose n-grams one file or the other holds."""
    rng = np.random.default_rng(5)
    names = np.array([tokenizer.backend.id_to_token(id) for id in range(tokenizer.eos)])
    probable = [
        "looking on a little more loin .",
        "also would consider higher looking",
        "to look a little",
        "xx however xx foo bar",
    ]
    sentences = [*probable, "a a b b b", "b a b a a", "GO FORWARD TEN METERS", "c"]
    for _ in range(count):
        known = rng.choice(names, rng.integers(0, 12))
        sentences.append(" ".join(np.where(rng.random(len(known)) < 0.2, "zzzunknown", known)))
    return [sentence for sentence in sentences if sentence]


@needs_files
def test_published_probability_of_looking_at_the_start() -> None:
    model, tokenizer = read_arpa(DATA / "arpa" / "kenlm_test.arpa")
    scores, lengths = ours(model, tokenizer, ["looking"])
    assert scores[0] == pytest.approx(-0.4846522, abs=1e-6)
    assert lengths[0] == 2
    assert (model.config.order, model.config.smoothing) == (5, "imported")


@needs_files
@pytest.mark.parametrize("name", GOOD)
def test_reading_what_we_wrote_of_their_files_changes_nothing(tmp_path: Path, name: str) -> None:
    model, tokenizer = read_arpa(DATA / "arpa" / name)
    write_arpa(model, tokenizer, tmp_path / "a.arpa")
    again, same = read_arpa(tmp_path / "a.arpa")
    assert same.json == tokenizer.json
    for array, expected in again.trie.arrays().items():
        np.testing.assert_array_equal(model.trie.arrays()[array], expected)
    np.testing.assert_allclose(again.estimates.log_probability, model.estimates.log_probability, rtol=1e-6)
    np.testing.assert_allclose(again.estimates.backoff, model.estimates.backoff, rtol=1e-6)


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize("name", ["a.arpa", "a.arpa.gz"])
def test_what_is_written_and_read_scores_the_same(tmp_path: Path, order: int, name: str) -> None:
    text = made_up(seed=3, count=400)
    model = fit(closed(text), text, order=order)
    write_arpa(model, closed(text), tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")
    read, tokenizer = read_arpa(tmp_path / name)
    assert read.notes() == []
    assert read.is_normalised
    assert not read.trie.count.any()
    assert_same(ours(read, tokenizer, unseen()), ours(model, closed(text), unseen()))
    # Whole distributions, too; both tokenizers number the words alike.
    state = np.array([[tokenizer.eos, 3, 4, 5]])
    np.testing.assert_allclose(read.step(state, read.start(1))[0], model.step(state, model.start(1))[0], atol=2e-5)


def test_a_model_that_was_read_is_saved_and_loaded_like_any_other(tmp_path: Path) -> None:
    model, tokenizer = read_arpa(small(tmp_path))
    model.save(tmp_path / "model.safetensors")
    loaded = Model.load(tmp_path / "model.safetensors")
    assert loaded.config == model.config
    assert_same(ours(loaded, tokenizer, LINES), ours(model, tokenizer, LINES))


def test_words_that_no_text_can_contain_are_kept_with_a_note(tmp_path: Path) -> None:
    path = small(tmp_path, ("ngram 1=5", "ngram 1=6"), ("-0.8\tb", "-1.2\tNew\u00a0York\n-0.8\tb"))
    model, tokenizer = read_arpa(path)
    assert "words contain white space" in model.notes()[0]
    assert tokenizer.backend.token_to_id("New\u00a0York") == 2


def test_long_levels_are_written_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = made_up(seed=3, count=50)
    model = fit(closed(text), text, order=3)
    write_arpa(model, closed(text), tmp_path / "whole.arpa")
    monkeypatch.setattr(arpa, "CHUNK", 7)
    write_arpa(model, closed(text), tmp_path / "chunks.arpa")
    assert (tmp_path / "chunks.arpa").read_bytes() == (tmp_path / "whole.arpa").read_bytes()


SMALL = """\
words of the maker
\\data\\
ngram 1=5
ngram 2=4
ngram 3=1

\\1-grams:
-1.5	<unk>
-99	<s>	-0.5
-0.5	</s>
-0.75	a	-0.25
-0.8	b	-0.3

\\2-grams:
-0.2	<s> a	-0.1
-0.3	a b	-0.15
-0.4	b </s>
-0.6	b b

\\3-grams:
-0.2	<s> a b

\\end\\
"""


def small(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    text = SMALL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / "small.arpa"
    path.write_text(text, newline="")
    return path


LINES = ["a b b", "b a a b", "a x b", "b", "x x", "a b"]


@pytest.mark.parametrize(
    "change",
    [
        ("words of the maker\n", ""),
        ("words of the maker\n", "\ufeff"),
        ("words of the maker\n", "see \\data\\\n\\1-grams:\n ngram 1=7\n"),
        ("-0.3\ta b\t-0.15", "  -0.3   a  b \t -0.15  "),
        ("-0.3\ta b\t-0.15", "-.3e0 a b -1.5E-1"),
        ("-0.3\ta b\t-0.15", "-0.300000000000000000000000 a b -000.15"),
        ("-0.3\ta b\t-0.15\n", "\n\n-0.3\ta b\t-0.15\n \t\n"),
        ("\\end\\\n", "\\end\\"),
        ("\\end\\\n", "\\end\\\nmore words\n"),
        ("ngram 1=5", " ngram  1 = 5 "),
        ("<s> a b\n", "<s> a b\t0\n"),
        ("-99\t<s>", "0.5\t<s>"),
        ("<unk>", "<UNK>"),
    ],
)
def test_other_ways_to_write_the_same_are_understood(tmp_path: Path, change: tuple[str, str]) -> None:
    expected = ours(*read_arpa(small(tmp_path)), LINES)
    assert_same(ours(*read_arpa(small(tmp_path, change)), LINES), expected)


def test_line_ends_of_windows_are_understood(tmp_path: Path) -> None:
    expected = ours(*read_arpa(small(tmp_path)), LINES)
    (tmp_path / "b.arpa").write_text(SMALL, newline="\r\n")
    assert_same(ours(*read_arpa(tmp_path / "b.arpa"), LINES), expected)


def test_compression_is_known_by_content(tmp_path: Path) -> None:
    expected = ours(*read_arpa(small(tmp_path)), LINES)
    (tmp_path / "b.arpa").write_bytes(gzip.compress(SMALL[:60].encode()) + gzip.compress(SMALL[60:].encode()))
    assert_same(ours(*read_arpa(tmp_path / "b.arpa"), LINES), expected)


MALFORMED = {
    "declared more": (("ngram 2=4", "ngram 2=5"), 20, r"expected 5 2-grams as declared, found 4 before '\\3-grams:'"),
    "declared fewer": (("ngram 2=4", "ngram 2=3"), 18, r"expected '\\3-grams:' after .*, found '-0.6\tb b'"),
    "declared fewer 1-grams": (
        ("ngram 1=5", "ngram 1=4"),
        12,
        r"expected '\\2-grams:' after .*, found '-0.8\tb\t-0.3'",
    ),
    "declared more 1-grams": (("ngram 1=5", "ngram 1=6"), 14, r"expected 6 1-grams as declared, found 5 before"),
    "declared fewer of the last": (("ngram 3=1", "ngram 3=0"), 21, r"expected '\\end\\' after the 0 3-grams"),
    "declared far more than fits": (("ngram 2=4", "ngram 2=99999999999999"), 20, "expected 99999999999999 2-grams"),
    "no 1-grams": (("ngram 1=5", "ngram 1=0"), 3, "at least one 1-gram"),
    "count is no number": (("ngram 1=5", "ngram 1=x"), 3, "expected 'ngram 1=' and a number, found 'ngram 1=x'"),
    "count missing": (("ngram 2=4\n", ""), 4, "expected 'ngram 2=' and a number, found 'ngram 3=1'"),
    "count beyond": (("ngram 3=1\n", "ngram 3=1\nngram 4=0\n"), 24, r"expected '\\4-grams:'.*found '\\end\\'"),
    "no counts": (("ngram 1=5\nngram 2=4\nngram 3=1\n", ""), 4, r"expected 'ngram 1=' and a number after '\\data\\'"),
    "section missing": (("\\2-grams:\n", ""), 14, r"expected '\\2-grams:' after .*, found '-0.2\t<s> a"),
    "section out of order": (("\\2-grams:", "\\3-grams:"), 14, r"expected '\\2-grams:' after .*, found '\\3-grams:'"),
    "first section missing": (("\\1-grams:\n", ""), 7, "expected 'ngram 4=' and a number, found '-1.5"),
    "no end": (("\\end\\\n", ""), 23, "expected '\\\\end\\\\' .* found the end of the file"),
    "another end": (("\\end\\", "\\4-grams:"), 23, r"expected '\\end\\' .* found '\\4-grams:'"),
    "no data": (("\\data\\", "data"), 24, r"no line '\\data\\'"),
    "1-gram twice": (("\tb\t", "\ta\t"), 12, "the 1-gram 'a' occurs twice"),
    "unknown twice": (("\tb\t", "\t<UNK>\t"), 12, "the 1-gram '<unk>' occurs twice"),
    "2-gram twice": (("b b", "a b"), 18, "the 2-gram 'a b' occurs twice"),
    "word missing": (("a b\t-0.15", "a\t-0.15"), 16, "expected a log-probability, 2 words|the word '-0.15' is not"),
    "word too many": (
        ("a b\t-0.15", "a b b\t-0.15"),
        16,
        "expected a log-probability, 2 words and perhaps a back-off weight",
    ),
    "1-gram of two words": (("\ta\t", "\ta b\t"), 11, "expected a log-probability, 1 word and"),
    "unknown word": (("a b\t-0.15", "a c\t-0.15"), 16, "the word 'c' is not among the 1-grams"),
    "probability is no number": (("-0.3\ta b", "-0.3x\ta b"), 16, "the log-probability '-0.3x' is not a number"),
    "probability with underscore": (("-0.3\ta b", "-0_3\ta b"), 16, "'-0_3' is not a number"),
    "1-gram probability is no number": (("-0.75", "--0.75"), 11, "the log-probability '--0.75' is not a number"),
    "probability is nan": (("-0.3\ta b", "nan\ta b"), 16, "the log-probability 'nan' is not a number"),
    "weight is no number": (("a b\t-0.15", "a b\t-0.1.5"), 16, "the back-off weight '-0.1.5' is not a number"),
    "weight is nan": (("\ta\t-0.25", "\ta\tnan"), 11, "the back-off weight 'nan' is not a number"),
    "weight is infinite": (("a b\t-0.15", "a b\t1e999"), 16, "the back-off weight 1e999 is too large"),
    "positive": (("-0.3\ta b", "0.3\ta b"), 16, "the log-probability 0.3 is above zero"),
    "positive 1-gram": (("-0.75", "0.75"), 11, "the log-probability 0.75 is above zero"),
    "our own name": (("\ta\t", "\t<eos>\t"), 11, "the word '<eos>' has a meaning of its own"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, case: str) -> None:
    change, line, message = MALFORMED[case]
    with pytest.raises(UserError, match=rf"small.arpa' line {line}: .*(?:{message})"):
        read_arpa(small(tmp_path, change))


def test_every_cut_of_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "small.arpa"
    for size in range(len(SMALL) - 1):
        path.write_text(SMALL[:size])
        with pytest.raises(UserError, match=r"small.arpa' line \d+: "):
            read_arpa(path)


@pytest.mark.parametrize("old", [b"\ta\t", b"a b\t"])
def test_text_that_is_not_utf8_is_refused(tmp_path: Path, old: bytes) -> None:
    (tmp_path / "small.arpa").write_bytes(SMALL.encode().replace(old, old.replace(b"a", b"\xe9")))
    with pytest.raises(UserError, match=r"small.arpa' line (11|16): byte \d+ of the line \(0xe9\) is not UTF-8"):
        read_arpa(tmp_path / "small.arpa")


def test_empty_missing_and_damaged_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.arpa").write_text("\n")
    with pytest.raises(UserError, match=r"empty.arpa' line 1: the file is empty"):
        read_arpa(tmp_path / "empty.arpa")
    with pytest.raises(UserError, match=r"cannot read '.*none.arpa': No such file"):
        read_arpa(tmp_path / "none.arpa")
    compressed = gzip.compress(SMALL.encode())
    (tmp_path / "cut.arpa.gz").write_bytes(compressed[:-20])
    with pytest.raises(UserError, match=r"cut.arpa.gz' line \d+: the compressed file is cut off here"):
        read_arpa(tmp_path / "cut.arpa.gz")
    (tmp_path / "bad.arpa.gz").write_bytes(compressed[:10] + b"\xff" * 50)
    with pytest.raises(UserError, match=r"bad.arpa.gz' line 1: the compressed file is damaged"):
        read_arpa(tmp_path / "bad.arpa.gz")


@pytest.mark.parametrize("members", [1, 3])
def test_a_file_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path, monkeypatch, members):
    monkeypatch.setattr(arpa_text, "LARGEST_TEXT", 1 << 20)
    bomb = gzip.compress(SMALL.encode()) + members * gzip.compress(bytes((8 << 20) // members))
    (tmp_path / "bomb.arpa.gz").write_bytes(bomb)
    with pytest.raises(UserError, match="bomb.arpa.gz' unpacks to more than 200 times its size, which no ARPA file do"):
        read_arpa(tmp_path / "bomb.arpa.gz")
    (tmp_path / "long.arpa.gz").write_bytes(gzip.compress(b"\n" * 900_000 + SMALL.encode()))
    assert read_arpa(tmp_path / "long.arpa.gz")[1].vocabulary_size == 4


@needs_files
@pytest.mark.parametrize(
    ("name", "line"), [("sphinx_bad_not-enough-ngrams.arpa", 4), ("sphinx_bad_too-many-ngrams.arpa", 13)]
)
def test_malformed_files_of_sphinx_are_refused(name: str, line: int) -> None:
    with pytest.raises(UserError, match=f"{name}' line {line}: "):
        read_arpa(DATA / "arpa" / name)


def test_ngrams_across_documents_are_left_out(tmp_path: Path) -> None:
    path = small(tmp_path, ("ngram 2=4", "ngram 2=6"), ("-0.6\tb b", "-0.6\tb b\n-0.1\t</s> <s>\n-0.1\t</s> a"))
    model, tokenizer = read_arpa(path)
    assert model.notes() == ["n-grams left out because they have </s> before their end or <s> after their start: 2"]
    assert_same(ours(model, tokenizer, LINES), ours(*read_arpa(small(tmp_path)), LINES))


def test_missing_contexts_and_suffixes_change_no_score(tmp_path: Path) -> None:
    """Random files with holes: the recursion on the file is the reference (KenLM refuses missing contexts)."""
    rng = np.random.default_rng(0)
    text = made_up(seed=3, count=60)
    write_arpa(fit(closed(text), text, order=5), closed(text), tmp_path / "whole.arpa")
    lines = (tmp_path / "whole.arpa").read_text().split("\n")
    for share in (0.1, 0.5, 0.9):
        first = lines.index("\\2-grams:")
        kept = [line for i, line in enumerate(lines) if i < first or line[:1] != "-" or rng.random() > share]
        sections = "\n".join(kept).split("\n\n")
        counts = [len(section.split("\n")) - 1 for section in sections[1:-1]]
        sections[0] = "\\data\\\n" + "\n".join(f"ngram {k}={count}" for k, count in enumerate(counts, 1))
        path = tmp_path / "holes.arpa"
        path.write_text("\n\n".join(sections))
        model, tokenizer = read_arpa(path)
        assert "n-grams added" in model.notes()[0]
        mine, expected = ours(model, tokenizer, [*text, *unseen()]), by_the_book(path, [*text, *unseen()])
        np.testing.assert_allclose(mine[0], expected[0], rtol=1e-6, atol=1e-5)
        assert (mine[1] >= expected[1]).all()


def test_special_words_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.arpa"
    path.write_text("\\data\\\nngram 1=1\nngram 2=0\n\n\\1-grams:\n-0.5\ta\t-1\n\n\\2-grams:\n\n\\end\\\n")
    model, tokenizer = read_arpa(path)
    assert [note.split(":")[0] for note in model.notes()] == [
        f"the file has no {name}" for name in ("<unk>", "</s>", "<s>")
    ]
    np.testing.assert_allclose(ours(model, tokenizer, ["a x"])[0], [-0.5, -101, -100], rtol=1e-6)


@pytest.mark.parametrize("name", ["<s>", "</s>", "<UNK>"])
def test_words_that_mean_something_else_in_the_file_are_refused(tmp_path: Path, name: str) -> None:
    text = ("to be or not to be", f"what {name} is")
    model = fit(closed(text), text, order=2)
    with pytest.raises(UserError, match=f"the token '{name}' has another meaning in ARPA files"):
        write_arpa(model, closed(text), tmp_path / "a.arpa")
    assert not list(tmp_path.iterdir())


def test_names_with_white_space_are_refused(tmp_path: Path) -> None:
    model = tokenizers.models.WordLevel({"<unk>": 0, "New York": 1}, unk_token="<unk>")
    tokenizer = end_with_eos(tokenizers.Tokenizer(model))
    fitted = Model(Config(order=2), 3, 2).fit([np.array([2, 0, 1, 2])])
    with pytest.raises(UserError, match="the token 'New York' contains white space"):
        write_arpa(fitted, tokenizer, tmp_path / "a.arpa")


def test_a_tokenizer_of_another_size_is_refused(tmp_path: Path) -> None:
    fitted = Model(Config(order=2), 3, 2).fit([np.array([2, 0, 1, 2])])
    with pytest.raises(UserError, match="the model has 3 tokens but the tokenizer 6"):
        write_arpa(fitted, closed(("a b c d",)), tmp_path / "a.arpa")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = made_up(seed=3, count=20)
    model = fit(closed(text), text, order=2)
    (tmp_path / "a.arpa").write_text("old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(arpa, "_words", fail)
    with pytest.raises(UserError, match=r"cannot write '.*a.arpa': No space left on device"):
        write_arpa(model, closed(text), tmp_path / "a.arpa")
    assert [file.name for file in tmp_path.iterdir()] == ["a.arpa"]
    assert (tmp_path / "a.arpa").read_text() == "old"
    with pytest.raises(UserError, match=r"cannot write '.*none/a.arpa': No such file or directory"):
        write_arpa(model, closed(text), tmp_path / "none" / "a.arpa")
