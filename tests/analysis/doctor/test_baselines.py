"""Baselines: what compressors leave can be decompressed; the n-gram's figure is that of such a run."""

import bz2
import lzma
import zlib

import pytest

from chainrule.analysis.doctor.baselines import (
    FILTERS,
    Subject,
    _verdict,
    by_bz2,
    by_lzma,
    by_zlib,
    compressed,
    look_at_baselines,
    read_bytes,
)
from chainrule.analysis.doctor.subject import load_subject
from chainrule.data.corpus import Corpus, Reading
from tests.analysis.doctor.conftest import chain_text

TRAINING, VALIDATION = chain_text(2000, 0).encode(), chain_text(100, 1).encode()


def test_what_zlib_leaves_is_all_that_is_needed_beside_the_training_text():
    compressor = zlib.compressobj(9, zdict=TRAINING[-32768:])
    data = compressor.compress(VALIDATION) + compressor.flush()
    assert zlib.decompressobj(zdict=TRAINING[-32768:]).decompress(data) == VALIDATION
    assert by_zlib(VALIDATION, TRAINING) == len(data)
    assert by_zlib(VALIDATION, b"") == len(zlib.compress(VALIDATION, 9))


def test_bz2_and_lzma_count_what_the_validation_text_adds():
    both, alone = (bz2.compress(each) for each in (TRAINING + VALIDATION, TRAINING))
    assert by_bz2(VALIDATION, TRAINING) == len(both) - len(alone)
    assert by_bz2(VALIDATION, b"") == len(bz2.compress(VALIDATION))
    both, alone = (lzma.compress(each, lzma.FORMAT_RAW, filters=FILTERS) for each in (TRAINING + VALIDATION, TRAINING))
    assert by_lzma(VALIDATION, TRAINING) == len(both) - len(alone)
    assert lzma.decompress(both, lzma.FORMAT_RAW, filters=FILTERS) == TRAINING + VALIDATION


def test_bz2_reads_no_more_before_than_its_block_holds():
    long = chain_text(20_000, 0).encode()  # 1.2 MB
    room = 900_000 - len(VALIDATION) - 100
    expected = len(bz2.compress(long[-room:] + VALIDATION)) - len(bz2.compress(long[-room:]))
    assert by_bz2(VALIDATION, long) == expected


def test_a_text_that_was_in_training_costs_next_to_nothing():
    seen = compressed(TRAINING[-6000:], TRAINING)
    unseen = compressed(VALIDATION[:6000], TRAINING)
    for name, bits in seen.items():
        assert bits < unseen[name] * (0.7 if name == "bz2" else 0.25), name  # bz2 sorts, it does not refer back


@pytest.mark.parametrize("unit", ["line", "block", "file"])
@pytest.mark.parametrize("tokenizer", ["characters", "bpe", "words"])
def test_bytes_read_again_are_those_of_the_text(count, unit, tokenizer):
    text = "".join(f"{line}\n\n" for line in chain_text(30, 0).split("\n")[:-1]).strip("\n") + "\n"
    run = count("some other text\n\n" * 40, text, unit=unit, tokenizer=tokenizer)
    shards = run.shards("validation")
    corpus = Corpus([str(run.config["data"]["validation"][0])], Reading(unit))
    expected = b"".join(
        documents.text(i).encode() + b"\n" * documents.separator_bytes
        for documents in corpus.batches()
        for i in range(len(documents))
    )
    assert read_bytes(shards, run.tokenizer, 10**9) == expected == read_bytes(shards, run.tokenizer, 10**9, True)
    assert len(expected) == shards.part.text_bytes
    for most in (1, 61, 100, 1000):
        assert read_bytes(shards, run.tokenizer, most) == expected[:most]
        assert read_bytes(shards, run.tokenizer, most, from_end=True) == expected[-most:]


def test_the_healthy_run_is_compared_with_an_ngram_of_its_own_tokens(healthy, count):
    (found,) = look_at_baselines(load_subject(healthy.path))
    text = (healthy.path.parent / "text.txt").read_text()
    ngram = count(text, order=7).metrics[-1]["validation"]["bits_per_byte"]
    mine = healthy.metrics[-1]["validation"]["bits_per_byte"]
    assert found.severity == "good"
    assert found.found.startswith(f"{mine:.3f} bits per byte; ")
    gap = 1 - mine / ngram
    assert f"a 7-gram ({ngram:.3f})" + f" by {gap:.1%}" * (gap >= 0.01) in found.found
    assert mine < ngram


@pytest.mark.parametrize(
    ("others", "severity", "words"),
    [
        ({"lzma": 2.5, "a 5-gram": 2.1}, "good", "better than a 5-gram (2.100) by 4.8%, lzma (2.500) by 20.0%"),
        ({"a 5-gram": 1.985, "lzma": 2.5}, "good", "on a par with a 5-gram (1.985); better than lzma (2.500) by 20.0%"),
        (
            {"a 5-gram": 1.6, "lzma": 2.5},
            "note",
            "worse than a 5-gram (1.600) by 25.0%; better than lzma (2.500) by 20.0%",
        ),
        ({"a 5-gram": 1.0, "lzma": 1.6}, "problem", "worse than a 5-gram (1.000) by 100.0%, lzma (1.600) by 25.0%"),
    ],
)
def test_the_verdict_is_by_what_is_better(others, severity, words):
    subject = Subject(None, None, "", None, None, {}, True)  # type: ignore[arg-type]
    (found,) = _verdict(2.0, others, "{:.3f}", "bits per byte", subject)
    assert (found.severity, found.found) == (severity, f"2.000 bits per byte; {words}")
    assert bool(found.advice) == (severity != "good")


def test_a_closed_vocabulary_is_compared_by_perplexity_with_the_ngram_alone(count):
    text = "\n".join(f"the {'red old big'.split()[i % 3]} cow {i * i % 7} eats {i % 5}" for i in range(300))
    run = count(text, tokenizer="words", closed_vocabulary=True, order=1)
    (found,) = look_at_baselines(load_subject(run.path))
    better = count(text, tokenizer="words", closed_vocabulary=True, order=7)
    mine, theirs = (each.metrics[-1]["validation"]["perplexity"] for each in (run, better))
    assert found.severity == "note"
    assert found.found == f"{mine:.1f} perplexity; worse than a 7-gram ({theirs:.1f}) by {mine / theirs - 1:.1%}"


def test_a_model_that_finds_words_impossible_has_no_figure(count):
    run = count(chain_text(50, 0), chain_text(20, 1) + "zebra\n", smoothing="maximum-likelihood")
    (found,) = look_at_baselines(load_subject(run.path))
    assert (found.severity, "probability zero" in found.found) == ("note", True)
