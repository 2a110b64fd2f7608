"""Counting for a class: one flag, and the table that the class has made by hand."""

import json
from collections import Counter
from fractions import Fraction

import pytest

import chainrule as library
from chainrule.errors import UserError
from tests.spec.test_counting import COWS, EXPECTED


@pytest.fixture
def lesson(chainrule, tmp_path):
    (tmp_path / "cows.txt").write_text(COWS)
    code, out, _ = chainrule("train", "cows.txt", "--lesson")
    assert code == 0
    return out


def test_a_lesson_counts_whole_words_of_the_whole_text(chainrule, lesson):
    assert "none was kept aside" in lesson
    assert "order 3, smoothing maximum-likelihood" in " ".join(lesson.split())
    run = library.load("runs/cows", "language")
    assert run.config["data"]["text"]["train"]["documents"] == 11
    words = run.tokenizer.encode(COWS.splitlines()[1])
    assert [run.tokenizer.token_text(int(id)).strip() for id in words] == ["our", "cows", "eat", "hay", "daily"]


@pytest.mark.parametrize("text", ["cows eat", " cows eat ", "the cows eat", "zebras and cows eat"])
def test_the_table_of_cows_eat_is_the_one_on_the_blackboard(chainrule, lesson, text):
    found = json.loads(chainrule("show", "runs/cows", "--counts", text, "--json")[1])
    assert (found["context"], found["total"]) == ("cows eat", 11)
    assert found["is_whole"] == (text.split() == ["cows", "eat"])
    counts = {each["token"].strip(): each["count"] for each in found["followers"]}
    assert counts == {"corn": 4, "grass": 3, "hay": 2, "if": 1, "which": 1}
    shares = {each["token"].strip(): each["probability"] for each in found["followers"]}
    assert shares == pytest.approx(EXPECTED, abs=1e-7)
    assert [each["count"] for each in found["followers"]] == [4, 3, 2, 1, 1]


def test_the_table_is_shown_in_the_terminal(chainrule, lesson):
    code, out, err = chainrule("show", "runs/cows", "--counts", "cows eat")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[1:4] == [
        ["corn", "4", "4/11", "0.3636"], ["grass", "3", "3/11", "0.2727"], ["hay", "2", "2/11", "0.1818"],
    ]  # fmt: skip
    assert len(rows) == 6
    assert "11 times in all" in err
    assert "nothing followed 'eat zebras' in the text" in chainrule("show", "runs/cows", "--counts", "eat zebras")[2]


def test_the_table_of_no_words_counts_all_of_them(chainrule, lesson):
    found = json.loads(chainrule("show", "runs/cows", "--counts", "", "--json")[1])
    by_hand = COWS.replace(",", " ,").replace("?", " ?").replace("-", " - ").split()
    counts: Counter[str] = Counter()
    for each in found["followers"]:
        counts[each["token"].strip()] += each["count"]  # the farm in factory-farm has no space before it
    assert counts == Counter(by_hand) + Counter({"<eos>": 11})
    assert found["total"] == len(by_hand) + 11


def test_a_smoothed_lesson_leaves_something_for_other_words(chainrule, tmp_path):
    (tmp_path / "cows.txt").write_text(COWS)
    chainrule("train", "cows.txt", "--lesson", "--smoothing", "add-k", "--order", "2", "--as", "runs/k")
    found = json.loads(chainrule("show", "runs/k", "--counts", "eat", "--json")[1])
    size = library.load("runs/k", "language").tokenizer.vocabulary_size
    corn = next(each for each in found["followers"] if each["token"] == " corn")
    assert corn["probability"] == pytest.approx(float(Fraction(4 + 1, 11 + size)))
    assert found["rest"] == pytest.approx(float(Fraction(size - 5, 11 + size)))
    assert "anything else" in chainrule("show", "runs/k", "--counts", "eat")[1]


def test_a_lesson_in_python_is_the_same(chainrule, lesson):
    run = library.train(library.Texts(COWS.splitlines()), lesson=True, path="runs/python")
    assert run.counts("cows eat") == library.load("runs/cows", "language").counts("cows eat")
    four = library.train(library.Texts(COWS.splitlines()), lesson=True, order=4, path="runs/four")
    assert four.config["model"]["order"] == 4
    with pytest.raises(UserError, match="a lesson counts n-grams of words, not lstm"):
        library.train(library.Texts([COWS]), lesson=True, model="lstm")


def test_a_lesson_takes_no_budget_and_other_models_have_no_counts(chainrule, lesson):
    code, _, err = chainrule("train", "cows.txt", "--lesson", "--minutes", "1")
    assert code == 2
    assert "a lesson counts its text once, so it takes no minutes" in err
    chainrule("train", "cows.txt", "--model", "infinigram", "--as", "runs/all")
    code, _, err = chainrule("show", "runs/all", "--counts", "cows eat")
    assert code == 2
    assert "only an n-gram model has counts of what followed a text, and this one is of kind infinigram" in err
