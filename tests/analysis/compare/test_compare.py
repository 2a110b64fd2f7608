"""Comparisons: the figures of the table are those of the runs, intervals are paired, and what was done is kept."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import chainrule
from chainrule.analysis.compare import compare as comparing
from chainrule.analysis.compare.compare import Comparison, compare
from chainrule.analysis.compare.entrants import LADDER, read_entrants
from chainrule.analysis.compare.expectations import EXPECTED, check_expectations
from chainrule.analysis.compare.measure import MOST_BYTES, CommonText, ModelScores
from chainrule.analysis.compare.plots import spread
from chainrule.analysis.compare.report import Report
from chainrule.analysis.compare.table import make_table, to_csv, to_markdown
from chainrule.data.documents import cut
from chainrule.errors import Stopped, UserError
from chainrule.text.choice import Tokenization

MODELS = ("ngram:order=2", "ngram:order=3,smoothing=katz", "mlp:size=tiny,steps=30", "transformer:size=tiny,steps=30")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = np.random.default_rng(0)
    words = ["ab", "cd", "ba", "dc", "abba"]
    path = tmp_path_factory.mktemp("text") / "words.txt"
    path.write_text("\n".join(" ".join(generator.choice(words, 8)) for _ in range(300)))
    return path


def asked(text: Path, *models: str) -> Comparison:
    return Comparison((str(text),), tuple(read_entrants(models)), tokenization=Tokenization("characters"))


@pytest.fixture(scope="module")
def report(text: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Path]:
    path = tmp_path_factory.mktemp("made") / "comparison"
    return compare(asked(text, *MODELS), path), path


def test_the_table_has_what_evaluate_says_of_every_run(report: tuple[Report, Path]):
    made = report[0]
    assert {row.model for row in made.table.rows} == {
        "ngram-2",
        "ngram-3-katz",
        "mlp-tiny-steps=30",
        "transformer-tiny-steps=30",
    }
    for row in made.table.rows:
        run = chainrule.load(row.run)
        found = run.metrics[-1]["validation"]
        assert row.bits == pytest.approx(found["bits_per_byte"], rel=1e-5)
        assert row.parameters == run.model.num_parameters
        assert row.interval is not None and row.interval[0] < row.bits < row.interval[1]
        words = sum(
            len(d.text(i).split()) + 1 for d in run.shards("validation").documents(run.tokenizer) for i in range(len(d))
        )
        assert row.perplexity == pytest.approx(np.exp(found["loss"] * found["tokens"] / words), rel=1e-5)
    assert [row.bits for row in made.table.rows] == sorted(row.bits for row in made.table.rows)
    assert len({chainrule.load(row.run).tokenizer.fingerprint for row in made.table.rows}) == 1
    assert made.table.rows[0].p_value is None and made.table.rows[0].behind == 0


def test_python_has_the_same(report: tuple[Report, Path], text: Path, tmp_path: Path):
    made = chainrule.compare(text, models=["ngram:order=2"], tokenizer="characters", path=tmp_path / "c")
    assert made.table.rows[0].bits == report[0].table.row("ngram-2").bits  # type: ignore[union-attr]
    with pytest.raises(UserError, match="unknown setting 'order' in compare"):
        chainrule.compare(text, order=3)


def test_the_report_is_written_in_every_form(report: tuple[Report, Path]):
    made, path = report
    folder = path / "report"
    facts = json.loads((folder / "table.json").read_text())
    assert [model["bits"] for model in facts["models"]] == [row.bits for row in made.table.rows]
    rows = list(csv.DictReader(io.StringIO((folder / "table.csv").read_text())))
    assert [float(row["bits"]) for row in rows] == [row.bits for row in made.table.rows]
    assert f"| {made.table.rows[0].model} | {made.table.rows[0].bits:.4f} |" in (folder / "table.md").read_text()
    for name in ("time", "parameters"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert all(f">{row.model}<" in (folder / f"{name}.svg").read_text() for row in made.table.rows)
    page = (folder / "index.html").read_text()
    assert f"{made.table.rows[-1].bits:.4f}" in page
    assert not re.findall(r"(?:src|href|srcset)=[\"'](?!data:)", page), "nothing comes from elsewhere"


def test_begun_again_it_trains_nothing(report: tuple[Report, Path], text: Path, monkeypatch: pytest.MonkeyPatch):
    made, path = report
    monkeypatch.setattr(comparing, "train", None)
    monkeypatch.setattr(comparing, "measure", None)
    again = compare(asked(text, *MODELS), path)
    assert again.table == made.table


def test_interrupted_it_goes_on_where_it_stopped(
    report: tuple[Report, Path], text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    trained: list[str] = []
    real = comparing.train

    def interrupted(request: comparing.Request) -> comparing.Run:
        trained.append(str(request.model))
        if request.model == "mlp" and trained.count("mlp") == 1:
            raise Stopped("interrupted; resume with: chainrule train", 130)
        return real(request)

    monkeypatch.setattr(comparing, "train", interrupted)
    with pytest.raises(Stopped, match="stopped at mlp-tiny-steps=30; give the same command to go on") as stop:
        compare(asked(text, *MODELS), tmp_path / "c")
    assert stop.value.exit_code == 130
    made = compare(asked(text, *MODELS), tmp_path / "c")
    assert trained == ["ngram", "ngram", "mlp", "mlp", "transformer"]
    bits = {row.model: row.bits for row in made.table.rows}
    assert bits == {row.model: row.bits for row in report[0].table.rows}


def test_another_comparison_of_the_same_name_is_refused(report: tuple[Report, Path], text: Path):
    with pytest.raises(UserError, match="of another text, or with other settings"):
        compare(replace(asked(text, *MODELS), minutes=2.0), report[1])


def test_a_text_that_was_changed_is_another_comparison(tmp_path: Path):
    (tmp_path / "t.txt").write_text("one two three\n" * 30 + "four\n" * 30)
    compare(asked(tmp_path / "t.txt", "ngram:order=1"), tmp_path / "c")
    (tmp_path / "t.txt").write_text("one two three\n" * 31 + "four\n" * 30)
    with pytest.raises(UserError, match="of another text"):
        compare(asked(tmp_path / "t.txt", "ngram:order=1"), tmp_path / "c")


def test_a_model_that_fails_is_left_out_and_the_others_go_on(text: Path, tmp_path: Path):
    made = compare(asked(text, "ngram:order=1", "ngram:order=300", "ngram:order=2"), tmp_path / "c")
    assert [row.model for row in made.table.rows] == ["ngram-2", "ngram-1"]
    assert made.table.left_out == ["ngram-300: the order must be between 1 and 200, got 300"]


def test_runs_that_exist_take_part_and_more_can_be_added(report: tuple[Report, Path], text: Path, tmp_path: Path):
    made = report[0]
    run = next(row for row in made.table.rows if row.model == "ngram-2").run
    both = compare(asked(text, run, "ngram:order=4"), tmp_path / "both")
    bits = {row.model: row.bits for row in both.table.rows}
    assert bits.keys() == {run, "ngram-4"}
    assert bits[run] == next(row.bits for row in made.table.rows if row.model == "ngram-2")
    assert both.table.notes == []


def test_a_run_that_has_read_the_common_text_is_told_of(text: Path, tmp_path: Path):
    run = chainrule.train(text, path=tmp_path / "all", tokenizer="characters", order=2, validation_fraction=0.0)
    made = compare(asked(text, str(run.path), "ngram:order=2"), tmp_path / "c")
    count = made.table.documents
    assert made.table.notes == [f"{count:,} of the {count:,} documents were in the training text of {run.path}"]


def test_a_run_that_was_trained_again_is_measured_again(text: Path, tmp_path: Path):
    settings = {"path": tmp_path / "run", "tokenizer": "characters"}
    chainrule.train(text, order=1, **settings)
    first = compare(asked(text, str(tmp_path / "run")), tmp_path / "c").table.rows[0].bits
    chainrule.train(text, order=3, overwrite=True, **settings)
    assert compare(asked(text, str(tmp_path / "run")), tmp_path / "c").table.rows[0].bits < first


def test_intervals_are_of_differences_on_the_same_documents():
    """Two models that differ by the same on every document: no resampling can hide that, however documents vary."""
    common = CommonText([cut(np.frombuffer(b"one two\nthree\nfour five six\n" * 20, np.uint8), "line", "text")])
    generator = np.random.default_rng(0)
    nats = common.sizes * generator.uniform(0.5, 3.0, len(common.sizes))
    base = ModelScores("a", "ngram", "", "t", True, True, nats, np.ones(len(nats), int), 1, 1, 1.0, 1.0, 1.0, "")
    better = replace(base, label="b", nats=nats - 0.01 * common.sizes)
    table = make_table([base, better], common)
    assert [row.model for row in table.rows] == ["b", "a"]
    assert table.rows[1].behind == pytest.approx(0.01 / np.log(2))
    assert table.rows[1].behind_interval == pytest.approx((0.01 / np.log(2),) * 2)
    assert table.rows[1].is_behind and table.rows[1].p_value == pytest.approx(2 / 2001)
    assert table.rows[1].interval is not None
    assert table.rows[1].interval[1] - table.rows[1].interval[0] > 0.1, "while what each has by itself is uncertain"


def test_few_documents_tell_nothing():
    common = CommonText([cut(np.frombuffer(b"one two\nthree\nfour five six\n", np.uint8), "line", "text")])
    base = ModelScores("a", "ngram", "", "t", True, True, common.sizes * 1.0, np.ones(3, int), 1, 1, 1.0, 1.0, 1.0, "")
    measured = [replace(base, label="lstm", nats=common.sizes * 0.5), replace(base, label="elman")]
    table = make_table(measured, common)
    assert [(row.interval, row.behind_interval, row.p_value, row.is_behind) for row in table.rows] == [
        (None, None, None, False)
    ] * 2
    report = Report([], 1.0, table, check_expectations(measured, common, table), measured)
    assert "3 documents are too few to tell whether that is chance" in report.verdict
    assert [each.verdict for each in report.expectations] == ["too few documents to tell"]
    assert "too few for significance tests" in table.notes[0]


def test_what_cannot_be_compared_is_left_out_and_named():
    common = CommonText([cut(np.frombuffer(b"one\ntwo\n", np.uint8), "line", "text")])
    fine = ModelScores("a", "ngram", "", "t", True, True, np.ones(2), np.ones(2, int), 1, 1, 1.0, 1.0, 1.0, "")
    others = [
        replace(fine, label="scores", is_normalised=False),
        replace(fine, label="never", nats=np.array([1.0, np.inf])),
    ]
    table = make_table([fine, *others], common)
    assert [row.model for row in table.rows] == ["a"]
    assert table.left_out == [
        "scores: its scores do not sum to one",
        "never: it gives 1 of 2 documents probability zero",
    ]
    closed = replace(fine, label="closed", is_lossless=False, tokenizer="other")
    assert make_table([closed, fine], common).left_out == [
        "closed: its closed vocabulary replaces words by <unk>, so they cannot be compared"
    ]
    both = make_table([fine, closed, replace(closed, label="too")], common)
    assert [row.model for row in both.rows] == ["closed", "too"] and both.unit == "token"
    impossible = replace(closed, nats=np.array([np.inf, 1.0]))
    assert [row.model for row in make_table([impossible, fine], common).rows] == ["a"], "it takes nobody with it"


def test_expectations_say_what_was_found():
    common = CommonText([cut(np.frombuffer(b"one two\nthree\n" * 20, np.uint8), "line", "text")])
    sizes = common.sizes.astype(float)
    make = lambda label, bits, tokens: ModelScores(  # noqa: E731
        label, "", "", "t", True, True, sizes * bits, np.ones(len(sizes), int), 20_500, 1, 59.96, 1.0, 1.0, "",
        training_tokens=tokens,
    )  # fmt: skip
    measured = [make("bow", 2.0, 5), make("attention", 1.0, 5), make("elman", 1.0, 90_000), make("lstm", 1.5, 60_000)]
    found = {each.better: each for each in check_expectations(measured, common, make_table(measured, common))}
    assert found["attention"].verdict == "so it is" and found["attention"].gain == pytest.approx(1 / np.log(2))
    assert not found["attention"].remark
    assert found["lstm"].verdict == "the opposite here"
    assert found["lstm"].remark == (
        "lstm (20,500 parameters) read 60,000 tokens in 60.0 s; elman (20,500 parameters) read 90,000 tokens in 60.0 s"
    )


def test_every_family_that_contains_another_is_expected_to_be_better():
    """Those that predict from the latest word alone, or from more, contain the bigram."""
    expected = {(worse, better) for worse, better, _ in EXPECTED}
    for better in ("mlp", "attention", "elman", "ugrnn", "gru", "lstm", "transformer"):
        assert ("ngram-2", better) in expected
    assert {("bow", "attention"), ("attention", "transformer"), ("elman", "ugrnn"), ("ugrnn", "gru")} <= expected
    labels = {entrant.label for entrant in read_entrants([])}
    assert {each for pair in expected for each in pair} <= labels, "all of them are in the ladder"


def test_a_long_text_is_thinned_out():
    line = b"x" * 99 + b"\n"
    documents = cut(np.frombuffer(line * (3 * MOST_BYTES // 100), np.uint8), "line", "text")
    common = CommonText([documents])
    assert common.total_bytes == MOST_BYTES and common.is_thinned
    files = [cut(np.frombuffer(line * 1000, np.uint8), "file", f"file {i}") for i in range(3 * MOST_BYTES // 100_000)]
    assert CommonText(files).total_bytes == MOST_BYTES, "a document a file, too"
    with pytest.raises(UserError, match="no text to measure on"):
        CommonText([])


def test_the_ladder_has_every_kind_of_model():
    labels = [entrant.label for entrant in read_entrants([])]
    assert len(labels) == len(LADDER)
    assert labels[3:6] == ["ngram-5", "ngram-5-witten-bell", "ngram-5-katz"]
    assert [each.label for each in read_entrants(["lstm:width=64", "lstm:num_layers=64"])] == [
        "lstm-width=64",
        "lstm-num_layers=64",
    ]
    with pytest.raises(UserError, match="unknown model 'mix'"):
        read_entrants(["mix"])
    with pytest.raises(UserError, match="run 'runs/none' not found"):
        read_entrants(["runs/none"])
    with pytest.raises(UserError, match="takes part twice"):
        read_entrants(["lstm", "lstm"])
    with pytest.raises(UserError, match="did you mean 'lstm'"):
        read_entrants(["lstn"])
    with pytest.raises(UserError, match="not understood at 'order'"):
        read_entrants(["ngram:order"])


def test_a_run_that_is_called_like_a_model_does_not_take_its_place(text: Path):
    chainrule.train(text, path="runs/lstm", tokenizer="characters", order=2)
    assert all(entrant.run is None for entrant in read_entrants([]) + read_entrants(["lstm"]))
    (entrant,) = read_entrants(["runs/lstm"])
    assert entrant.run is not None and entrant.label == "lstm"


def test_names_in_the_margin_are_spread_as_little_as_can_be():
    found = spread(np.array([0.5, 0.5, 0.1]), 0.1)
    assert found == pytest.approx([0.45, 0.55, 0.1])
    found = spread(np.array([0.2, 0.25, 0.3, 0.9]), 0.1)
    assert found == pytest.approx([0.15, 0.25, 0.35, 0.9])
    assert spread(np.array([0.0, 0.01]), 0.1) == pytest.approx([0.0, 0.1]), "never below the axis"


def test_a_table_in_words(report: tuple[Report, Path]):
    made = report[0]
    assert to_markdown(made.table).count("\n| ") == len(made.table.rows)
    assert to_csv(made.table).splitlines()[0].startswith("model,bits,low,high,behind,behind_low,behind_high,p_value")
    assert made.verdict.startswith(made.table.rows[0].model)
