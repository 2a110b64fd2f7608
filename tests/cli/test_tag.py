"""Taggers as a person meets them: trained, used on CoNLL-U and on raw text, measured."""

import io
import json
import sys
from pathlib import Path

import pytest

from tests.tagging.treebank import row, write

SETTINGS = ("--model", "tagger", "--size", "tiny", "--set", "learning_rate=0.03", "--set", "dropout=0")


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("train.conllu").write_text(write(80, 0))
    Path("dev.conllu").write_text(write(20, 1))
    return tmp_path


@pytest.fixture
def run(chainrule, texts) -> str:
    code, _, err = chainrule(
        "train",
        "--task",
        "tagging",
        "train.conllu",
        "--validation",
        "dev.conllu",
        "--steps",
        60,
        *SETTINGS,
        "--as",
        "runs/t",
    )
    assert code == 0, err
    return "runs/t"


def test_a_tagger_is_trained_measured_and_used(chainrule, run):
    code, out, err = chainrule("evaluate", run, "dev.conllu", "--json")
    measured = json.loads(out)["columns"]
    assert (code, list(measured)) == (0, ["upos", "xpos"])
    assert measured["upos"]["accuracy"] > 0.95  # on words that the most frequent tag cannot tell apart
    assert measured["upos"]["beside"]["hidden Markov"]["accuracy"] == 1.0
    assert 0.8 < measured["upos"]["beside"]["most frequent tag"]["accuracy"] < measured["upos"]["accuracy"]
    counts = measured["upos"]["confusion"]["counts"]
    right = sum(counts[i][i] for i in range(len(counts)))
    assert right / sum(map(sum, counts)) == pytest.approx(measured["upos"]["accuracy"])
    code, out, err = chainrule("evaluate", run)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"20 sentences, {sum(map(sum, counts))} words"
    assert f"{100 * measured['upos']['accuracy']:.2f}" in out.splitlines()[2]
    code, out, _ = chainrule("show", run)
    assert "UPOS accuracy" in out


def test_conllu_comes_out_as_it_went_in_but_for_the_tags(chainrule, run, tmp_path):
    rows = [
        "# text = the cats don't sleep",
        row(1, "the", "_", "_"),
        row(2, "cats", "_", "_"),
        "3-4\tdon't" + "\t_" * 8,
        row(3, "do", "_", "_"),
        "3.1\treally\t_\tADV\tRB" + "\t_" * 5,
        row(4, "n't", "_", "_"),
        row(5, "sleep", "_", "_"),
        "",
        "",
    ]
    (tmp_path / "new.conllu").write_text("\n".join(rows))
    code, out, _ = chainrule("tag", run, "new.conllu")
    assert code == 0
    lines = out.split("\n")
    assert [lines[at] for at in (0, 3, 5, 8, 9)] == [rows[at] for at in (0, 3, 5, 8, 9)]
    for at in (1, 2, 4, 6, 7):
        cells, before = lines[at].split("\t"), rows[at].split("\t")
        assert cells[:3] + cells[5:] == before[:3] + before[5:]
        assert "_" not in cells[3:5]
    assert lines[1].split("\t")[3:5] == ["DET", "DT"]
    assert lines[2].split("\t")[3:5] == ["NOUN", "NNS"]


def test_raw_text_is_cut_and_tagged(chainrule, run, monkeypatch):
    def read(text: str, *flags: str) -> str:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        code, out, err = chainrule("tag", run, *flags)
        assert code == 0, err
        return out

    assert read("We fish.\n\nthe fishs walk the fish.\n", "--column", "upos").splitlines()[1] == (
        "the/DET fishs/NOUN walk/VERB the/DET fish/NOUN ./PUNCT"
    )
    assert read("they walk.", "--column", "xpos") == "they/PRP walk/VBP ./.\n"
    conllu = read("they walk.", "--format", "conllu").splitlines()
    assert conllu[0] == "# text = they walk."
    assert conllu[2].split("\t") == ["2", "walk", "_", "VERB", "VBP", "_", "_", "_", "_", "SpaceAfter=No"]
    (found,) = json.loads(read("they walk.", "--json"))
    assert (found["words"], found["upos"]) == (["they", "walk", "."], ["PRON", "VERB", "PUNCT"])
    assert all(0.3 < each <= 1 for each in found["upos_probabilities"])


def test_a_sentence_may_be_typed_in_place_of_a_file(chainrule, run, tmp_path):
    code, out, err = chainrule("tag", run, "they walk.", "--column", "upos")
    assert (code, out) == (0, "they/PRON walk/VERB ./PUNCT\n"), err
    (tmp_path / "they walk.").write_text("we fish.\n")  # a file of that name goes before
    assert chainrule("tag", run, "they walk.", "--column", "upos")[1].startswith("we/PRON fish/")
    code, _, err = chainrule("tag", run, "my sentences.txt")
    assert code == 2 and "'my sentences.txt' not found" in err


def test_training_goes_on_where_it_stopped(chainrule, texts, monkeypatch):
    """A training of ten steps and one that is stopped after five have the same weights."""
    from chainrule.training import trainer

    arguments = ("train", "--task", "tagging", "train.conllu", "--validation", "dev.conllu", "--steps", 10, *SETTINGS)
    assert chainrule(*arguments, "--as", "runs/whole")[0] == 0
    step = trainer.Trainer.step

    def stop_at_five(self):
        step(self)
        if self.position.step == 5:
            import signal

            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(trainer.Trainer, "step", stop_at_five)
    code, _, err = chainrule(*arguments, "--as", "runs/stopped")
    assert (code, "resume with: chainrule train --resume runs/stopped" in err) == (130, True)
    monkeypatch.setattr(trainer.Trainer, "step", step)
    assert chainrule("train", "--resume", "runs/stopped")[0] == 0
    whole, stopped = (Path(f"runs/{name}/model.safetensors").read_bytes() for name in ("whole", "stopped"))
    assert whole == stopped


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tag", "runs/t", "empty.txt"), "there are no words to tag in empty.txt"),
        (("tag", "runs/t", "bad.conllu"), "'bad.conllu' line 2 has the id 3 after 1 words"),
        (("tag", "runs/t", "dev.conllu", "--column", "feats"), "--column must be one of upos, xpos, got 'feats'"),
        (("tag", "runs/t", "dev.conllu", "--format", "xml"), "--format must be one of conllu, words, got 'xml'"),
        (("evaluate", "runs/t", "bad.conllu"), "'bad.conllu' line 2 has the id 3"),
        (("evaluate", "runs/t", "other.conllu"), "'other.conllu' line 1 has the upos 'N', and like all the others"),
        (("evaluate", "runs/t", "open.conllu"), "no word has a tag in column upos, so it was not measured and no word"),
        (("evaluate", "runs/t", "--against", "runs/t"), "--against: only for language models"),
        (("explain", "runs/t", "cows eat", "--html", "a.html"), "--html is not available for taggers"),
        (("sample", "runs/t"), "'runs/t' is a run for tagging"),
        (("train", "--task", "tagging", "empty.txt"), "'empty.txt' is empty"),
        (
            ("train", "--task", "tagging", "dev.conllu", "--unit", "line"),
            "unit is for plain text and has no meaning for the task tagging",
        ),
        (("train", "--model", "tagger", "dev.conllu"), "tagger is a model for tagging, not for plain text"),
        (("train", "--task", "tagging", "dev.conllu", "--model", "lstm"), "tagging cannot be learned by lstm"),
    ],
)
def test_mistakes_are_told_in_one_sentence(chainrule, run, arguments, message):
    Path("empty.txt").write_text("\n")
    Path("bad.conllu").write_text(f"{row(1, 'a', 'X', 'Y')}\n{row(3, 'b', 'X', 'Y')}\n")
    Path("open.conllu").write_text(f"{row(1, 'a', '_', '_')}\n")
    Path("other.conllu").write_text(f"{row(1, 'a', 'N', 'Y')}\n")
    code, _, err = chainrule(*arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
