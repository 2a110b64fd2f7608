"""`chainrule mix` as a person meets it: runs mixed, and the mix used like any run."""

import json
import re
import shutil
from itertools import pairwise
from math import log
from pathlib import Path

import numpy as np
import pytest

import chainrule as package
from chainrule.evaluation.score import stream_of
from tests.evaluation.toys import as_lines

TEST = [
    f"on day {i} the old cow eats {'hay' if i % 5 else 'grass'} and {'hay' if i % 7 else 'corn'}" for i in range(60)
]


@pytest.fixture
def test_text(tmp_path: Path) -> Path:
    (tmp_path / "test.txt").write_text("\n".join(TEST) + "\n")
    return tmp_path / "test.txt"


@pytest.fixture
def runs(chainrule, cows) -> list[str]:
    """Two that count and one that learns, of the same tokens."""
    assert chainrule("train", cows, "--order", 3, "--as", "runs/three")[0] == 0
    assert chainrule("train", cows, "--order", 1, "--tokenizer", "runs/three", "--as", "runs/one")[0] == 0
    learned = ("--model", "lstm", "--size", "tiny", "--steps", 30, "--tokenizer", "runs/three", "--as", "runs/lstm")
    assert chainrule("train", cows, *learned)[0] == 0
    return ["runs/three", "runs/one", "runs/lstm"]


def test_a_mix_prints_every_part_its_weight_and_what_it_gains(chainrule, runs, test_text):
    code, out, err = chainrule("mix", *runs, "--cache", "--test", test_text, "--as", "runs/mixed")
    assert code == 0
    lines = out.splitlines()
    assert re.split(r"  +", lines[0].strip()) == ["part", "kind", "weight", "perplexity", "bits per byte"]
    assert [line.split()[0] for line in lines[1:6]] == [*runs, "cache", "mix"]
    assert [line.split()[1] for line in lines[1:5]] == ["ngram", "ngram", "lstm", "cache"]
    assert sum(float(line.split()[2]) for line in lines[1:5]) == pytest.approx(1, abs=0.003)
    assert lines[4].split()[3:] == ["infinite", "infinite"]
    assert re.search(r"perplexity \S+% below that of runs/\S+, the best part, on the test text \(60 documents", out)
    assert "significant" in out
    assert lines[-1] == "runs/mixed"
    assert "fitted on the validation text" in err
    assert "next: chainrule sample runs/mixed" in err


def test_json_figures_are_those_of_evaluating_the_parts_and_the_mix(chainrule, runs, test_text):
    code, out, _ = chainrule("mix", *runs, "--cache", "--test", test_text, "--as", "runs/mixed", "--json")
    result = json.loads(out)
    assert code == 0
    for name, figures in [(each["name"], each) for each in result["test"]["parts"][:3]] + [
        ("runs/mixed", result["test"])
    ]:
        evaluated = json.loads(chainrule("evaluate", name, test_text, "--json")[1])
        assert figures["perplexity"] == pytest.approx(evaluated["perplexity"], rel=1e-5)
        assert figures["bits_per_byte"] == pytest.approx(evaluated["bits_per_byte"], rel=1e-5)
    best = min(each["perplexity"] for each in result["validation"]["parts"][:3])
    assert result["validation"]["perplexity"] < 1.001 * best  # the prior has its share of so short a text
    assert result["test"]["against"]["run"] in runs
    assert result["config"]["data"]["mixed"] == [*runs, "cache"]
    assert result["config"]["model"] == {"by": "all", "dynamic": 0.0}


def test_the_mix_needs_its_parts_no_more(chainrule, runs, test_text):
    assert chainrule("mix", *runs, "--cache", "--as", "runs/mixed")[0] == 0
    before = chainrule("evaluate", "runs/mixed", test_text, "--json")[1]
    for run in runs:
        shutil.rmtree(run)
    assert chainrule("evaluate", "runs/mixed", test_text, "--json")[1] == before
    code, out, _ = chainrule("sample", "runs/mixed", "--prompt", "on day", "--greedy", "--max-tokens", 3)
    assert (code, out[:6]) == (0, "on day")
    code, out, err = chainrule("show", "runs/mixed", "--verify")
    assert code == 0
    assert "ngram runs/three, ngram runs/one, lstm runs/lstm, cache (decay" in " ".join(out.split())
    assert re.search(r"weight of runs/three +0\.\d{4}\s", out)
    assert "all files are unchanged" in err


def test_greedy_text_is_what_the_weighted_sum_says(chainrule, runs):
    assert chainrule("mix", *runs, "--as", "runs/mixed")[0] == 0
    mixed, parts = package.load("runs/mixed"), [package.load(run) for run in runs]
    text = mixed.sample("on day", temperature=0, max_tokens=6)
    ids = [mixed.tokenizer.eos, *mixed.tokenizer.encode("on day").tolist()]
    for _ in range(6):
        found = []
        for part in parts:
            logits, _ = part.model.step(np.array([ids]), part.model.start(1))
            row = np.asarray(getattr(logits, "detach", lambda value=logits: value)(), np.float64)[0, -1]
            found.append(np.exp(row - row.max()) / np.exp(row - row.max()).sum())
        ids.append(int(np.argmax(mixed.model.weights[0] @ np.array(found))))
    assert text == mixed.tokenizer.decode(ids[1:])


@pytest.mark.parametrize(
    ("by", "words"),
    [("order", "the words of context that runs/three has met"), ("entropy", "the entropy of runs/lstm in nats")],
)
def test_weights_by_context_are_shown_bucket_by_bucket(chainrule, runs, by, words):
    code, out, _ = chainrule("mix", *runs, "--by", by, "--as", "runs/mixed")
    assert code == 0
    model = package.load("runs/mixed").model
    lines = out[out.index(f"weights by {words}") :].splitlines()[1:]
    assert lines[0].split() == runs
    for line, row in zip(lines[1:], model.weights, strict=False):
        assert line.split()[-3:] == [f"{weight:.3f}" for weight in row]
    edges = [f"to {edge:.2f}" for edge in model.edges]
    expected = ["0", "1", "2"] if by == "order" else [*edges, "more"]
    assert [re.split(r"  +", line)[0] for line in lines[1 : 1 + len(expected)]] == expected
    assert f"{words}: {', '.join(expected)}" in " ".join(chainrule("show", "runs/mixed")[1].split())


def test_dynamic_evaluation_is_part_of_the_mix(chainrule, runs, test_text):
    arguments = ("runs/three", "runs/lstm", "--test", test_text, "--json", "--overwrite", "--as", "runs/mixed")
    still = json.loads(chainrule("mix", *arguments)[1])
    moving = json.loads(chainrule("mix", *arguments, "--dynamic", "0.5")[1])
    assert moving["test"]["parts"][1]["perplexity"] < still["test"]["parts"][1]["perplexity"]
    evaluated = json.loads(chainrule("evaluate", "runs/mixed", test_text, "--json")[1])
    assert evaluated["perplexity"] == pytest.approx(moving["test"]["perplexity"], rel=1e-5)
    assert "parts learn from the text that is scored; sampling does not adapt" in moving["config"]["notes"]


def test_one_run_and_a_cache_are_a_mix_fitted_on_the_text_that_is_named(chainrule, runs, test_text):
    code, out, _ = chainrule("mix", "runs/one", "--cache", "--on", test_text, "--as", "runs/mixed", "--json")
    result = json.loads(out)
    assert code == 0
    assert result["config"]["data"]["fitted_on"] == [str(test_text)]
    assert result["validation"]["documents"] == len(TEST)
    mixed, one = package.load("runs/mixed"), package.load("runs/one")
    stream = stream_of(one.tokenizer, as_lines(TEST))
    shares = np.bincount(stream[1:], minlength=one.tokenizer.vocabulary_size) / (len(stream) - 1)
    decay, recent = mixed.model.parts[1].config.decay, []
    for before, word in pairwise(stream):
        shares *= decay
        shares[before] += 1 - decay
        recent.append(shares[word])
    rows = np.array([np.exp(one.model.score(stream)), recent])
    bits = -np.log(mixed.model.weights[0] @ rows).sum() / log(2) / sum(len(line) + 1 for line in TEST)
    assert result["validation"]["bits_per_byte"] == pytest.approx(bits, rel=1e-5)


def test_the_same_from_python(chainrule, runs, test_text):
    mixed = package.mix([package.load("runs/three"), "runs/lstm"], cache=True, by="entropy", path="runs/python")
    assert chainrule("mix", "runs/three", "runs/lstm", "--cache", "--by", "entropy", "--as", "runs/command")[0] == 0
    np.testing.assert_array_equal(mixed.model.weights, package.load("runs/command").model.weights)
    assert mixed.evaluate(test_text) == package.load("runs/command").evaluate(test_text)
    assert "mixing `runs/three`, `runs/lstm`, `cache`" in (mixed.path / "README.md").read_text()


def test_runs_of_bytes_and_of_one_byte_characters_mix(chainrule, cows):
    assert chainrule("train", cows, "--tokenizer", "bytes", "--order", 2, "--as", "runs/bytes")[0] == 0
    assert chainrule("train", cows, "--tokenizer", "characters", "--order", 5, "--as", "runs/characters")[0] == 0
    code, out, _ = chainrule("mix", "runs/bytes", "runs/characters", "--json", "--as", "runs/mixed")
    assert code == 0
    found = json.loads(out)["validation"]
    assert found["perplexity"] < 1.001 * min(part["perplexity"] for part in found["parts"])


def test_a_mix_can_be_mixed_again(chainrule, runs, test_text):
    assert chainrule("mix", "runs/three", "runs/one", "--as", "runs/inner")[0] == 0
    code, out, _ = chainrule("mix", "runs/inner", "runs/lstm", "--on", test_text, "--as", "runs/outer", "--json")
    assert code == 0
    assert [part["architecture"] for part in json.loads(out)["validation"]["parts"]] == ["mix", "lstm"]
    assert chainrule("evaluate", "runs/outer", test_text)[0] == 0


def test_what_cannot_be_mixed_is_refused_in_one_sentence(chainrule, runs, cows, test_text):
    assert chainrule("train", test_text, "--tokenizer", "runs/three", "--as", "runs/other")[0] == 0
    assert chainrule("train", cows, "--tokenizer", "bpe", "--as", "runs/bpe")[0] == 0
    stupid = ("--smoothing", "stupid-backoff", "--tokenizer", "runs/three")
    assert chainrule("train", cows, *stupid, "--as", "runs/stupid")[0] == 0
    whole = ("--validation-fraction", 0, "--tokenizer", "runs/three")
    assert chainrule("train", cows, *whole, "--as", "runs/whole")[0] == 0
    for arguments, words in [
        (("runs/three",), "a mix needs at least two parts, got 1 run; name another or pass --cache"),
        (("runs/three", "runs/bpe"), "different tokens (words and bpe)"),
        (("runs/three", "runs/other"), "kept different texts aside"),
        (("runs/three", "runs/whole"), "'runs/whole' has no text kept aside to fit the weights on"),
        (("runs/three", "runs/stupid"), "'runs/stupid' gives scores that do not sum to one"),
        (("runs/three", "runs/one", "--by", "entropy"), "weights by entropy need a model that learns by gradient"),
        (("runs/three", "runs/one", "--by", "odrer"), "did you mean 'order'"),
        (("runs/three", "runs/one", "--dynamic", "0.1"), "which dynamic evaluation needs"),
        (("runs/three", "runs/lstm", "--dynamic", "-1"), "dynamic must be a number of at least 0"),
        (("runs/three", "runs/nine"), "run 'runs/nine' not found"),
        (("runs/three", "runs/one", "--as", "runs/lstm"), "'runs/lstm' exists already"),
        (("runs/three", "runs/one", "--on", "absent.txt"), "absent.txt"),
    ]:
        code, out, err = chainrule("mix", *arguments)
        assert (code, out) == (2, ""), arguments
        assert words in err
        assert err.count("\n") == 1
    assert not Path("runs/mix").exists()


@pytest.mark.parametrize(("name", "command"), [("mix", "mix RUN RUN"), ("cache", "mix RUN RUN --cache")])
def test_training_one_is_refused_and_says_how_it_is_made(chainrule, cows, name, command):
    code, _, err = chainrule("train", cows, "--model", name)
    assert code == 2
    assert (
        err == f"chainrule: the model {name} is made from other models rather than trained; use: chainrule {command}\n"
    )
    assert f" {name}," not in chainrule("train", cows, "--model", "nothing")[2]
