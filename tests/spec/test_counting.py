"""Rows 1 to 5 of what Chainrule promises: language modelling by counting."""

import json
import re
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule
from chainrule.cli.main import main
from chainrule.data.corpus import Corpus, Reading
from chainrule.evaluation.score import score
from chainrule.generation import Sampling, sample
from chainrule.models.contract import log_softmax
from chainrule.models.ngram import Config, Model
from chainrule.ngram.smoothing import METHODS
from tests.shared_data import FOLDER, requires

Command = Callable[..., str]
COWS = """\
the cows eat grass
our cows eat hay daily
factory-farm cows eat corn
on an organic farm, cows eat hay and
do your cows eat grass or corn?
what do cows eat if they have
cows eat corn when there is no
which cows eat which foods depends
if cows eat grass
when cows eat corn their stomachs
should we let cows eat corn?
"""
EXPECTED = {"corn": 4 / 11, "grass": 3 / 11, "hay": 2 / 11, "if": 1 / 11, "which": 1 / 11}


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """command("explain runs/cows", "cows eat") -> what `chainrule explain runs/cows "cows eat"` prints"""

    def call(words: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["chainrule", *words.split(), *arguments])
        with pytest.raises(SystemExit) as exit:
            main()
        assert not exit.value.code
        return capsys.readouterr().out

    return call


def test_row_1_counting_gives_the_dice_of_cows_eat_exactly(tmp_path: Path, command: Command):
    """However a person types the two words: the lines are as they are, and nothing of them is kept aside."""
    (tmp_path / "cows.txt").write_text(COWS)
    told = command("train cows.txt --order 3 --smoothing maximum-likelihood")
    assert "none was kept aside" in told
    for prompt in ("cows eat", " cows eat", "cows eat ", " cows eat ", "The cows eat", "hay\ncows eat"):
        found = json.loads(command("explain runs/cows --json", prompt))["distribution"]["top"]
        dice = {face["token"].strip(): face["probability"] for face in found if face["probability"]}
        assert dice == pytest.approx(EXPECTED, abs=1e-7)
    assert re.search(r"corn +0\.3636", command("explain runs/cows", "cows eat"))


@pytest.mark.parametrize("order", [3, 4, 7])
def test_row_1_a_longer_order_gives_the_same_dice_within_a_text(tmp_path: Path, order: int):
    run = chainrule.train(
        chainrule.Texts(COWS.splitlines()), path=tmp_path / "run", validation_fraction=0.0, tokenizer="words",
        min_count=1, order=order, smoothing="maximum-likelihood",
    )  # fmt: skip
    logits, _ = run.model.step(run.tokenizer.encode("cows eat")[None], run.model.start(1))
    die = np.exp(logits[0, -1].astype(np.float64))
    found = {run.tokenizer.token_text(id): die[id] for id in np.flatnonzero(die)}
    assert found == pytest.approx({f" {word}": probability for word, probability in EXPECTED.items()}, abs=1e-7)


@requires("ptb")
@pytest.mark.slow
def test_row_2_modified_kneser_ney_reproduces_kenlm_on_the_penn_treebank(tmp_path: Path):
    """Perplexities and discounts that KenLM's lmplz gives on the same text."""
    ptb = FOLDER / "ptb"
    expected = {2: 185.70, 3: 148.28, 4: 142.72, 5: 141.19}
    test = Corpus([ptb / "ptb.test.txt"], Reading(unit="line"))
    for order, perplexity in expected.items():
        run = chainrule.train(
            ptb / "ptb.train.txt", validation=ptb / "ptb.valid.txt", path=tmp_path / str(order), unit="line",
            tokenizer="words", closed_vocabulary=True, order=order,
        )  # fmt: skip
        summary = score(run.model, run.tokenizer, test.batches()).summary()
        assert summary["perplexity"] == pytest.approx(perplexity, abs=0.05)
        assert run.config["notes"] == []
    discounts = run.model.describe()["discounts"]
    assert discounts[1] == pytest.approx([0.727802, 1.09876, 1.4713], rel=1e-5)
    assert discounts[2] == pytest.approx([0.868879, 1.25462, 1.44822], rel=1e-5)
    assert discounts[4] == pytest.approx([0.959671, 1.3879, 1.24171], rel=1e-5)


@requires("makemore-names")
def test_row_2_bigrams_of_names_reproduce_the_published_losses():
    """2.4540 nats a character by counting, 2.4546 with one added, over 26 letters and the end."""
    names = (FOLDER / "makemore-names" / "names.txt").read_text().split()
    ids = np.array([26, *(i for name in names for i in [*(ord(c) - 97 for c in name), 26])], np.uint32)
    for smoothing, loss in (("maximum-likelihood", 2.4540), ("add-k", 2.4546)):
        model = Model(Config(order=2, smoothing=smoothing), 27, 26).fit([ids])
        assert -model.score(ids).astype(np.float64).mean() == pytest.approx(loss, abs=5e-5)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("row3")
    (folder / "cows.txt").write_text(COWS)
    return chainrule.train(
        folder / "cows.txt", path=folder / "run", unit="line", validation_fraction=0.0, order=3, tokenizer="words",
        closed_vocabulary=True,
    )  # fmt: skip


def test_row_3_sampled_frequencies_match_the_probabilities(run):
    """Chi-square of the first word drawn after a prompt, against the die itself."""
    drawn = sample(
        run.model, run.tokenizer, "cows eat", Sampling(temperature=1.0, max_tokens=1, samples=20_000, seed=3)
    )
    logits, _ = run.model.step(np.array([[run.tokenizer.eos, *run.tokenizer.encode("cows eat")]]), run.model.start(1))
    die = np.exp(log_softmax(logits)[0, -1])
    observed = np.bincount([text.ids[0] for text in drawn], minlength=len(die))
    expected = die * len(drawn)
    statistic = ((observed - expected) ** 2 / expected)[expected > 0].sum()
    freedom = (expected > 0).sum() - 1
    assert statistic < freedom + 4 * np.sqrt(2 * freedom)
    assert observed[expected == 0].sum() == 0


def test_row_3_the_same_seed_gives_the_same_text(run):
    texts = [run.sample("the", seed=seed) for seed in (1, 1, 2, 3)]
    assert texts[0] == texts[1]
    assert len(set(texts)) > 1


@pytest.mark.parametrize("smoothing", [name for name in METHODS if name != "stupid-backoff"])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_row_4_probabilities_of_all_sentences_sum_to_one(smoothing: str, order: int):
    """Every sentence of up to five words over two, and the mass of all that go on longer."""
    eos = 2
    ids = np.array([2, 0, 1, 2, 1, 1, 0, 2, 2, 0, 2, 0, 1, 0, 2], np.uint32)
    model = Model(Config(order=order, smoothing=smoothing), 3, eos).fit([ids], ids)
    ended = going_on = 0.0
    for size in range(6):
        for sentence in product((0, 1), repeat=size):
            scores = model.score(np.array([eos, *sentence, eos], np.uint32)).astype(np.float64)
            ended += np.exp(scores.sum())
            if size == 5:
                going_on += np.exp(scores[:-1].sum()) * (1 - np.exp(scores[-1]))
    assert ended + going_on == pytest.approx(1, abs=1e-5)


@requires("gpt2-bpe")
def test_row_5_gpt2_merges_give_gpt2_ids():
    from chainrule.text.bpe import load_gpt2

    tokenizer = load_gpt2(FOLDER / "gpt2-bpe")
    cases = json.loads((FOLDER / "gpt2-bpe" / "test_vectors.json").read_text(encoding="utf-8"))["cases"]
    assert len(cases) == 31
    for case in cases:
        assert tokenizer.encode(case["text"]).tolist() == case["ids"]
        assert tokenizer.decode(case["ids"]) == case["text"]


@pytest.mark.parametrize("kind", ["bytes", "characters", "words", "bpe"])
def test_row_5_any_text_comes_back_from_its_tokens(tmp_path: Path, kind: str):
    (tmp_path / "cows.txt").write_text(COWS)
    run = chainrule.train(tmp_path / "cows.txt", path=tmp_path / "run", unit="line", tokenizer=kind)
    for text in ("cows eat", "  Ünïcödé 🐄 \r\n\t\u2028 <eos> <unk> \x00", "牛は草を食べる", ""):
        ids = run.tokenizer.encode(text)
        assert run.tokenizer.decode(ids) == text
        assert run.tokenizer.eos not in ids


def test_row_5_most_words_are_one_token_and_tokens_do_not_cross_words():
    import pydoc_data.topics

    from chainrule.text import words
    from chainrule.text.base import Vocabulary

    tokenizer = words.train(Corpus(["builtin:python-docs"]).batches(), Vocabulary())
    text = " ".join(pydoc_data.topics.topics["assert"].split())
    ids = tokenizer.encode(text).tolist()
    assert len(ids) < 2.2 * len(text.split())
    assert all(" " not in tokenizer.token_text(id).strip() for id in ids)
