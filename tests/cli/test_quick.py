"""`--quantize` and `--draft`: text sooner, and what it costs or that it costs nothing."""

import json
import re

import numpy as np
import pytest
import torch

import chainrule as package


@pytest.fixture
def runs(chainrule, cows, tmp_path, monkeypatch) -> None:
    """A Transformer of cows, an n-gram of the same tokens, and one of other tokens."""
    monkeypatch.chdir(tmp_path)
    learned = ("--model", "transformer", "--size", "llama-tiny", "--steps", 30, "--vocabulary-size", 280)
    chainrule("train", cows, *learned, "--validation-fraction", 0.3, "--as", "runs/gpt")
    chainrule("train", cows, "--tokenizer", "runs/gpt", "--as", "runs/draft")
    chainrule("train", cows, "--tokenizer", "words", "--as", "runs/words")


def test_quantize_says_what_it_costs_and_evaluate_measures_it(chainrule, runs):
    code, out, err = chainrule("sample", "runs/gpt", "--prompt", "cows", "--seed", 1, "--quantize", "int8")
    assert code == 0 and out.startswith("cows")
    found = re.search(
        r"int8: (\d+)% of the weights, ([+-]\d\.\d{4}) bits per byte on [\d,]+ bytes of the text kept", err
    )
    assert found, err
    run = package.load("runs/gpt")
    before = json.loads(chainrule("evaluate", "runs/gpt", "--json")[1])["bits_per_byte"]
    after = json.loads(chainrule("evaluate", "runs/gpt", "--quantize", "int8", "--json")[1])["bits_per_byte"]
    rounded = 0
    with torch.no_grad():
        for name, weight in run.model.named_parameters():
            if weight.dim() == 2 and name != "embedding.weight":  # what is multiplied: w ≈ scale · code, by hand
                rounded += weight.numel()
                scale = weight.abs().amax(1, keepdim=True) / 127
                weight.copy_((weight / scale).round() * scale)
    from chainrule.evaluation.score import score
    from chainrule.runs.folder import KeptAside

    expected = score(run.model, run.tokenizer, KeptAside(run).batches()).summary()["bits_per_byte"]
    assert after == pytest.approx(expected, abs=1e-5) and after != before
    assert float(found[2]) == pytest.approx(after - before, abs=1e-4)
    assert int(found[1]) == round(100 * rounded / run.model.num_parameters)


@pytest.mark.parametrize("draft", ["lookup", "runs/draft"])
def test_a_draft_changes_nothing(chainrule, runs, draft):
    arguments = ("sample", "runs/gpt", "--prompt", "cows eat", "--seed", 4, "--max-tokens", 60, "--json")
    plain, drafted = (json.loads(chainrule(*arguments, *more)[1]) for more in ((), ("--draft", draft)))
    (mine,), (theirs,) = plain["samples"], drafted["samples"]
    assert mine["text"] == theirs["text"] and mine["finish_reason"] == theirs["finish_reason"]
    assert [token["id"] for token in mine["tokens"]] == [token["id"] for token in theirs["tokens"]]
    logs = [[token["log_probability"] for token in each["tokens"]] for each in (mine, theirs)]
    np.testing.assert_allclose(*logs, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("sample", "runs/gpt", "--quantize", "int4"), "quantize must be"),
        (("sample", "runs/draft", "--quantize", "int8"), "has no weights to quantize"),
        (("sample", "runs/gpt", "--draft", "runs/words"), "cuts text into other tokens"),
        (("sample", "runs/gpt", "--draft", "lookup", "-n", 3), "one sample at a time, got 3"),
        (("sample", "runs/gpt", "--draft", "lookup", "--beam", 2), "a beam search draws nothing and cannot use draft"),
        (("sample", "runs/gpt", "--draft", "runs/nowhere"), "run 'runs/nowhere' not found"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(chainrule, runs, arguments, sentence):
    code, _, err = chainrule(*arguments)
    assert code == 2 and sentence in err and "Traceback" not in err and err.count("\n") == 1, err
