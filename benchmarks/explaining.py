"""How long it takes to explain a prediction after 200 tokens, by kind of model; goes to docs/results/benchmarks.md."""

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import chainrule
from benchmarks.report import BENCHMARKS, Section, publish
from chainrule import registry
from chainrule.analysis.explain.explanation import explain
from chainrule.api import TrainedRun

LENGTH, REPEATS = 200, 5
MODELS = ("ngram", "mlp", "bow", "attention", "elman", "gru", "lstm", "transformer")


def measure(name: str, counted: TrainedRun, text: str) -> list[str]:
    """Random weights: how long it takes does not depend on what was learned."""
    tokenizer, model, shards = counted.tokenizer, counted.model, counted.shards()
    if name != "ngram":
        module = registry.find("chainrule.models", name, "model")
        config = module.SIZES["small"]
        if getattr(config, "context_length", LENGTH) < LENGTH:
            config = replace(config, context_length=LENGTH)
        model = module.Model(config, tokenizer.vocabulary_size, tokenizer.eos).eval()
    seconds, pages = [], []
    for _ in range(REPEATS):
        began = time.perf_counter()
        found = explain(model, tokenizer, text, shards=shards)
        seconds.append(time.perf_counter() - began)
        found.html()
        pages.append(time.perf_counter() - began - seconds[-1])
    medians = (f"{statistics.median(each):.2f} s" for each in (seconds, pages))
    return [name, f"{model.num_parameters:,}", str(len(found.tokens)), *medians]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explaining", description=__doc__)
    parser.add_argument("--trial", action="store_true", help="only shown, kept nowhere")
    is_trial = parser.parse_args(arguments).trial
    with tempfile.TemporaryDirectory() as folder:
        counted = chainrule.train(path=Path(folder) / "run", tokenizer="bpe", vocabulary_size=4000)
        text = counted.tokenizer.decode(counted.shards("validation").tokens(0)[1 : LENGTH + 1])
        rows = [measure(model, counted, text) for model in MODELS]
    text = f"`run.explain` after {LENGTH} tokens of Python's documentation, models of size small; medians of {REPEATS}."
    header = ["model", "parameters", "tokens read", "explanation", "its page"]
    publish(BENCHMARKS, "explaining", Section("Explaining a prediction", text, header, rows), is_trial)


if __name__ == "__main__":
    main()
