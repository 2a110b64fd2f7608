"""Scores of the rows of a table: those that `evaluate` gives each document, and empty rows in their places."""

from math import inf, log

import pytest

import chainrule
from chainrule.api import TrainedRun
from chainrule.errors import UserError

REVIEWS = ["the cows eat hay", "", "the cows\neat grass", None, "   ", "zebras!", "the cows eat hay", float("nan")]
WRITTEN = [0, 2, 5, 6]


class Column:
    """What pandas, polars and others call a column, as far as it is used: it can be gone through."""

    def __init__(self, values: list):
        self.values = values

    def __iter__(self):
        return iter(self.values)


class Table:
    """A table as pandas has it: its columns by name, and going through it gives the names."""

    def __init__(self, **columns: list):
        self.columns = list(columns)
        self.by_name = columns

    def __iter__(self):
        return iter(self.columns)

    def __getitem__(self, name: str) -> Column:
        return Column(self.by_name[name])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    lines = ["the cows eat hay", "the cows eat grass", "the cows sleep"] * 20
    return chainrule.train(chainrule.Texts(lines), order=3, path=tmp_path_factory.mktemp("runs") / "cows")


def test_every_row_has_the_figures_of_its_document(run: TrainedRun):
    found = run.score(REVIEWS)
    assert [each["row"] for each in found] == list(range(len(REVIEWS)))
    measured = run.evaluate(chainrule.Texts([REVIEWS[row] for row in WRITTEN]), documents=True)["per_document"]
    for row, document in zip(WRITTEN, measured, strict=True):
        assert found[row]["tokens"] == document["tokens"]
        assert found[row]["log_probability"] == -document["nats"]
        assert found[row]["bits"] == pytest.approx(document["nats"] / log(2))
        assert found[row]["bits_per_byte"] == document["bits_per_byte"]


def test_empty_rows_are_kept_without_figures(run: TrainedRun):
    for row in set(range(len(REVIEWS))) - set(WRITTEN):
        assert run.score(REVIEWS)[row] == {
            "row": row, "tokens": 0, "unknown_tokens": 0, "log_probability": None, "bits": None, "bits_per_byte": None,
        }  # fmt: skip
    assert [each["tokens"] for each in run.score(["", None])] == [0, 0]
    assert run.score([]) == []


def test_a_column_and_a_table_are_read_as_a_list_and_keep_their_ids(run: TrainedRun):
    ids = [f"r{number}" for number in range(len(REVIEWS))]
    plain = run.score(REVIEWS)
    assert run.score(Column(REVIEWS)) == plain
    named = [{**each, "id": id} for each, id in zip(plain, ids, strict=True)]
    assert run.score(REVIEWS, ids=ids) == named
    assert run.score(Table(review=REVIEWS, key=ids), column="review", ids="key") == named
    assert run.score({"review": REVIEWS, "key": ids}, column="review", ids=Column(ids)) == named


def test_pandas_tables_are_joined_by_row(run: TrainedRun):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"review": REVIEWS, "stars": range(len(REVIEWS))})
    joined = table.join(pandas.DataFrame(run.score(table["review"])).set_index("row"))
    assert joined["log_probability"].notna().tolist() == [row in WRITTEN for row in range(len(REVIEWS))]
    assert run.score(table, column="review") == run.score(REVIEWS)


def test_what_a_model_takes_for_impossible_has_an_infinite_score():
    run = chainrule.train(
        chainrule.Texts(["a b"] * 9), order=2, tokenizer="words", smoothing="maximum-likelihood", validation_fraction=0
    )
    assert [each["log_probability"] for each in run.score(["a b", "b a"])] == [0.0, -inf]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"texts": ["a", 3]}, "texts must be strings, but row 1 is of type int"),
        ({"texts": ["a"], "ids": [1, 2]}, "there are 1 texts but 2 ids; give one id for each text"),
        ({"texts": ["a"], "column": "b"}, "column is the name of a column of a table, and these texts are none"),
        ({"texts": {"a": ["x"]}}, r"name the column of the texts: column=... \(columns: a\)"),
        ({"texts": {"a": ["x"]}, "column": "b"}, r"there is no column 'b' \(columns: a\)"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_one_sentence(run: TrainedRun, arguments: dict, sentence: str):
    with pytest.raises(UserError, match=sentence):
        run.score(**arguments)
