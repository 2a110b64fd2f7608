"""The Python interface does what the command line does, and gives the same figures as its --json."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chainrule as package
from chainrule.api import PairsRun, TaggerRun, TrainedRun
from chainrule.cli.main import main
from chainrule.errors import UserError
from tests.cli.cows import LINES
from tests.tagging.treebank import write
from tests.tasks.toys import write_pairs


@pytest.fixture
def cows(tmp_path: Path) -> Path:
    path = tmp_path / "cows.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.fixture
def runs(cows: Path) -> tuple[TrainedRun, TrainedRun]:
    three = package.train(cows, order=3, path="runs/three")
    return three, package.train(cows, order=1, path="runs/one")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """told("sample", run): what the command line prints with --json, run in this process."""

    def call(*arguments: object) -> Any:
        monkeypatch.setattr(sys, "argv", ["chainrule", *map(str, arguments), "--json"])
        with pytest.raises(SystemExit) as exit:
            main()
        out, err = capsys.readouterr()
        assert not exit.value.code, err
        return json.loads(out)

    return call


def test_evaluate_equals_the_command_line(told, runs, cows):
    three, one = runs
    theirs = told("evaluate", three.path, cows, "--worst", 4, "--documents", "--against", one.path)
    ours = three.evaluate(cows, worst=4, documents=True, against=one)
    assert json.loads(json.dumps(ours)) == {name: theirs[name] for name in ours}
    assert set(theirs) - set(ours) == {"run", "inputs", "unit"}
    assert len(ours["per_document"]) == 200 and len(ours["worst_passages"]) == 4
    assert ours["against"]["high"] < 0  # three words before tell more than none
    assert three.evaluate(cows, against="runs/one")["against"] == ours["against"]


def test_evaluate_without_a_text_measures_what_was_kept_aside(told, runs):
    ours, theirs = runs[0].evaluate(worst=3), told("evaluate", runs[0].path)
    assert json.loads(json.dumps(ours)) == {name: theirs[name] for name in ours}


def test_sampling_and_beam_search_equal_the_command_line(told, runs):
    run = runs[0]
    (drawn,) = run.samples("on day", seed=7, temperature=0.8)
    theirs = told("sample", run.path, "--prompt", "on day", "--seed", 7, "--temperature", 0.8)
    assert [drawn.text] == [each["text"] for each in theirs["samples"]]
    found = run.beam_search("on", width=4, samples=2, length_penalty=0.5)
    theirs = told("sample", run.path, "--prompt", "on", "--beam", 4, "-n", 2, "--length-penalty", 0.5)["samples"]
    assert [(each.text, each.score) for each in found] == [(each["text"], each["score"]) for each in theirs]
    assert [list(each.ids) for each in found] == [[token["id"] for token in each["tokens"]] for each in theirs]
    assert run.samples("on", beam=4, samples=2, length_penalty=0.5) == found
    assert run.sample("on", beam=4, length_penalty=0.5) == "on" + found[0].text


def test_stop_strings_of_a_beam_equal_the_command_line(told, runs):
    run = runs[0]
    (found,) = run.samples("on", beam=3, stop="cow")
    assert found.finish_reason == "stop" and "cow" not in found.text
    assert run.beam_search("on", width=3, stop="cow") == [found]
    (theirs,) = told("sample", run.path, "--prompt", "on", "--beam", 3, "--stop", "cow")["samples"]
    assert (theirs["text"], theirs["score"], theirs["finish_reason"]) == (found.text, found.score, "stop")
    with pytest.raises(UserError, match="a beam search draws nothing and cannot use top_k, seed; leave that out"):
        run.sample("on", beam=3, seed=1, top_k=5)


def test_output_that_matches_something_equals_the_command_line(told, runs):
    run, schema = runs[0], {"type": "object", "properties": {"cow": {"enum": ["red", "old"]}}, "required": ["cow"]}
    schema["additionalProperties"] = False
    Path("cow.json").write_text(json.dumps(schema))
    Path("cow.lark").write_text('start: ("red" | "old") " cow"')
    for ours, theirs in [
        ({"json_schema": schema}, ("--json-schema", "cow.json")),
        ({"regex": "(red|old) cows?"}, ("--regex", "(red|old) cows?")),
        ({"grammar": Path("cow.lark").read_text()}, ("--grammar", "cow.lark")),
        ({"logit_bias": {5: -100.0}, "frequency_penalty": 0.5}, ("--logit-bias", "5=-100", "--frequency-penalty", 0.5)),
    ]:
        drawn = run.samples("the", seed=2, samples=3, max_tokens=30, **ours)
        found = told("sample", run.path, "--prompt", "the", "--seed", 2, "-n", 3, "--max-tokens", 30, *theirs)
        assert [each.text for each in drawn] == [each["text"] for each in found["samples"]]
    (text,) = {each.text for each in run.samples("", regex="red cow", samples=2)}
    assert text == "red cow"


def test_export_and_import_equal_the_command_line(told, cows):
    run = package.train(cows, tokenizer="words", closed_vocabulary=True)
    ours = run.export("arpa", "a.arpa")
    theirs = told("export", run.path, "--to", "arpa", "-o", "b.arpa")
    assert ours | {"path": "b.arpa"} == theirs
    assert Path("a.arpa").read_bytes() == Path("b.arpa").read_bytes()
    back = package.import_model("a.arpa", path="runs/back")
    assert isinstance(back, TrainedRun)
    assert back.evaluate("cows.txt")["nats"] == pytest.approx(run.evaluate("cows.txt")["nats"], rel=1e-4)
    with pytest.raises(UserError, match="dtype f16 is for the format gguf"):
        run.export("arpa", dtype="f16")


def test_texts_in_memory_are_read_as_a_file_of_the_same_documents(cows, tmp_path):
    texts = package.Texts(LINES)
    (tmp_path / "cows.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in LINES))
    ours, theirs = package.train(texts, order=3), package.train("cows.jsonl", order=3)
    for name in ("splits", "text"):
        assert ours.config["data"][name] == theirs.config["data"][name]
    assert ours.config["data"]["inputs"] == [texts.name]
    mine, others = ours.evaluate(texts, documents=True), theirs.evaluate("cows.jsonl", documents=True)
    assert mine["nats"] == others["nats"]
    assert [each["line"] for each in mine["per_document"]] == list(range(1, 201))
    some = package.Texts(line for line in LINES[:20])
    assert ours.evaluate([some, "cows.jsonl"])["documents"] == 220
    assert ours.evaluate(package.Texts("the old cow eats hay"))["documents"] == 1


def test_a_tokenizer_is_trained_on_texts_or_files(cows):
    (Path("lines.jsonl")).write_text("".join(json.dumps({"text": line}) + "\n" for line in LINES))
    ours = package.train_tokenizer(package.Texts(LINES), "words", min_count=2)
    assert ours.fingerprint == package.train_tokenizer("lines.jsonl", "words", min_count=2).fingerprint
    assert ours.decode(ours.encode("the old cow")) == "the old cow"
    ours.save(Path("tokenizer.json"))
    assert package.load_tokenizer("tokenizer.json").fingerprint == ours.fingerprint
    run = package.train(package.Texts(LINES), tokenizer="tokenizer.json")
    assert package.load_tokenizer(run.path).fingerprint == ours.fingerprint


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: package.train("the cow\neats hay\n"), r"is a text; pass texts as chainrule.Texts\(\[...\]\)"),
        (lambda: package.train("absent.txt"), "'absent.txt' not found"),
        (lambda: package.Texts(["", " "]), "are empty"),
        (lambda: package.Texts(["a", 3]), "number 2 is of type int"),
        (lambda: package.train("texts:0123456789ab"), "no longer in memory"),
        (lambda: package.train_pairs(package.Texts(["a"])), "the task translation reads files"),
        (lambda: package.train_tokenizer(package.Texts(["a"]), ordre=3), "unknown setting 'ordre'"),
        (lambda: package.load("runs/none"), "run 'runs/none' not found"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(call, sentence, tmp_path):
    with pytest.raises(UserError, match=sentence):
        call()


def test_a_run_of_pairs_is_opened_and_used_as_by_the_command_line(told, tmp_path):
    pairs = write_pairs(tmp_path / "pairs.tsv", 60)
    package.train_pairs(pairs, size="tiny", steps=4, evaluations=1, path="runs/pairs")
    run = package.load("runs/pairs")
    assert isinstance(run, PairsRun)
    lines = ["rot blau", "", "neu rot"]
    Path("lines.txt").write_text("\n".join(lines) + "\n")
    flags = ("--beam", 3, "--n-best", 2, "--max-tokens", 6, "--alignments")
    theirs = told("translate", "runs/pairs", "lines.txt", *flags)["lines"]
    ours = run.translations(lines, n_best=2, alignments=True, width=3, max_tokens=6)
    assert [[vars(each) for each in texts] for texts in ours] == [line["texts"] for line in theirs]
    assert run.translate("rot blau", width=3, max_tokens=6) == theirs[0]["texts"][0]["text"]
    assert run.translate(lines, width=3, max_tokens=6) == [line["texts"][0]["text"] for line in theirs]
    assert json.loads(json.dumps(run.evaluate())) == told("evaluate", "runs/pairs")
    with pytest.raises(UserError, match="a run for translation"):
        package.load("runs/pairs", "language")


def test_a_tagger_is_opened_and_used_as_by_the_command_line(told, tmp_path):
    Path("train.conllu").write_text(write(40, 0))
    Path("dev.conllu").write_text(write(10, 1))
    package.train_tagger("train.conllu", validation="dev.conllu", size="tiny", steps=6, path="runs/tagger")
    run = package.load("runs/tagger")
    assert isinstance(run, TaggerRun) and run.columns == ("upos", "xpos")
    Path("raw.txt").write_text("the dog can see\n\nthe can\n")
    theirs = told("tag", "runs/tagger", "raw.txt")
    assert run.tag("the dog can see\n\nthe can\n") == theirs
    assert run.tag([["the", "dog", "can", "see"], "the can"]) == theirs
    assert json.loads(json.dumps(run.evaluate("dev.conllu"))) == told("evaluate", "runs/tagger", "dev.conllu")
