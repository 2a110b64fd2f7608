"""`chainrule train --task translation` and `chainrule translate` as a person meets them."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chainrule.training.pipeline import train
from tests.tasks.toys import request, sentences, translate, write_pairs

Result = tuple[int, str, str]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    train(request(write_pairs(folder / "pairs.tsv", 800), folder / "run", steps=200, evaluations=1))
    return folder / "run"


@pytest.fixture
def said(chainrule: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """said("rot\\n", "translate", run): the same with a text on standard input."""

    def call(text: str, *arguments: object) -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return chainrule(*arguments)

    return call


def test_lines_come_out_as_they_went_in(said, toy):
    code, out, _ = said("rot blau\n\nneu\n", "translate", toy)
    assert (code, out) == (0, "blue red\n\nnew\n")


def test_a_sentence_may_be_typed_in_place_of_a_file(chainrule, toy):
    code, out, err = chainrule("translate", toy, "rot blau")
    assert (code, out) == (0, "blue red\n"), err


def test_the_best_few_with_scores_and_alignments(said, toy):
    code, out, _ = said("rot blau\n", "translate", toy, "--n-best", "2", "--beam", "3", "--alignments")
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert [row[0] for row in rows] == ["1", "1"]
    assert rows[0][2] == "blue red" and float(rows[0][1]) > float(rows[1][1])
    assert sorted(pair.split("-")[1] for pair in rows[0][3].split()) == ["0", "1"]


def test_words_are_counted_however_many_spaces_there_are(said, toy):
    code, out, _ = said("rot blau\n\u00a0rot \t blau  \n", "translate", toy, "--alignments")
    once, again = out.splitlines()
    assert (code, once) == (0, again)
    assert {int(pair.split("-")[0]) for pair in once.split("\t")[1].split()} <= {0, 1}


def test_a_line_that_is_too_long_is_cut_if_asked_for_and_aligned(said, toy):
    code, _, err = said("rot\n" + "neu " * 300, "translate", toy)
    assert code == 2 and "line 2 has 300 tokens but this model reads 255; shorten it or pass --truncate" in err
    code, out, _ = said("neu " * 300, "translate", toy, "--truncate", "--alignments", "--max-tokens", "3")
    assert code == 0 and out.count("\n") == 1
    code, _, err = said("", "explain", toy, "neu " * 300)
    assert code == 2 and "the text has 300 tokens but this model reads 255; shorten it" in err


def test_pairs_are_measured_as_at_the_end_of_training(chainrule, toy, tmp_path):
    code, out, _ = chainrule("evaluate", toy, "--json")
    found = json.loads(out)
    trained = json.loads((toy / "metrics.jsonl").read_text().splitlines()[-1])["validation"]
    assert code == 0
    assert found["loss"] == pytest.approx(trained["loss"], rel=1e-5) and found["figures"] == trained["figures"]
    lines = sentences(12, seed=4)
    (tmp_path / "new.tsv").write_text("".join(f"{each}\t{translate(each)}\n" for each in lines))
    code, out, _ = chainrule("evaluate", toy, "new.tsv")
    assert code == 0 and "BLEU" in out and "on 12 documents" in out
    code, _, err = chainrule("evaluate", toy, "new.tsv", "--against", toy)
    assert code == 2 and "--against: only for language models" in err


def test_nothing_is_not_measured(chainrule, toy, tmp_path):
    pytest.importorskip("sacrebleu", reason="sacrebleu is not installed")
    (tmp_path / "empty").write_text("")
    code, _, err = chainrule("translate", toy, "empty", "--reference", "empty")
    assert code == 2 and "there is no translation to measure" in err


def test_lines_in_other_encodings_are_read(chainrule, toy, tmp_path):
    (tmp_path / "latin").write_bytes("rot ü\n".encode("latin-1"))
    assert chainrule("translate", toy, "latin", "--encoding", "latin-1")[0] == 0


def test_more_texts_than_the_beam_is_wide_are_refused(chainrule, toy):
    code, _, err = chainrule("translate", toy, "--n-best", "4", "--beam", "3")
    assert code == 2
    assert "--n-best must be from 1 to the width of the beam, which is 3, got 4" in err


def test_json_and_measures_against_references(chainrule, toy, tmp_path):
    pytest.importorskip("sacrebleu", reason="sacrebleu is not installed")
    lines = sentences(12, seed=4)
    (tmp_path / "new.de").write_text("\n".join(lines))
    (tmp_path / "new.en").write_text("\n".join(map(translate, lines)))
    files = ("new.de", "--reference", "new.en")
    code, out, _ = chainrule("translate", toy, *files, "--against", toy, "--json")
    found = json.loads(out)
    assert code == 0
    assert [line["source"] for line in found["lines"]] == lines
    right = [line["texts"][0]["text"] == translate(line["source"]) for line in found["lines"]]
    assert sum(right) >= 9
    assert found["measured"]["bleu"] > 60 and "version:" in found["measured"]["bleu_signature"]
    same = found["measured"]["against"][0]
    assert same["score"] == same["other"] and same["p_value"] > 0.5
    code, _, err = chainrule("translate", toy, *files)
    assert code == 0 and err.startswith("BLEU ")


def test_explaining_a_translation_shows_where_it_looked(chainrule, toy, tmp_path):
    code, out, _ = chainrule("explain", toy, "rot blau", "--html", "page.html")
    assert code == 0 and out.startswith("blue red") and "attends to" in out
    page = Path("page.html").read_text()
    assert page.count("<tr><th>") == 6 and 'aria-label="the beam as a tree"' in page
    code, out, _ = chainrule("explain", toy, "rot blau", "--json")
    found = json.loads(out)
    assert "".join(found["target"][:-1]).strip() == found["text"] == "blue red"
    assert sum(found["attention"][0]) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("sample",), "is a run for translation"),
        (("export", "--to", "huggingface"), "is a run for translation"),
    ],
)
def test_commands_for_language_models_refuse_it(chainrule, toy, arguments, sentence):
    code, _, err = chainrule(arguments[0], toy, *arguments[1:])
    assert code == 2 and sentence in err and "chainrule show" in err


def test_a_language_model_does_not_translate(chainrule, cows):
    chainrule("train", cows)
    code, _, err = chainrule("translate", "runs/cows")
    assert code == 2 and "chainrule train --task translation PAIRS.tsv" in err


def test_files_of_unequal_length_say_which_line_has_no_partner(chainrule, tmp_path):
    (tmp_path / "a.de").write_text("x\ny\nz\n")
    (tmp_path / "a.en").write_text("x\ny\n")
    code, _, err = chainrule("train", "--task", "translation", "a.de", "a.en")
    assert code == 2 and "'a.en' ends after line 2, but 'a.de' has more lines" in err


def test_show_tells_what_the_run_is_for(chainrule, toy):
    code, out, err = chainrule("show", toy)
    assert code == 0 and "BLEU" in out and f"chainrule translate {toy}" in err
