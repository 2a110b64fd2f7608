"""How long it takes to explain a prediction after 200 tokens, for every kind of model; goes to docs/benchmarks.md."""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import chainrule
from benchmarks.report import BENCHMARKS, Section, publish

LENGTH, REPEATS = 200, 5
MODELS = ("ngram", "mlp", "bow", "attention", "elman", "gru", "lstm", "transformer")


def measure(folder: Path, model: str) -> list[str]:
    """Weights as they are after one step: how long it takes does not depend on what was learned."""
    settings = {} if model == "ngram" else {"size": "small", "steps": 1}
    run = chainrule.train(path=folder / model, model=model, tokenizer="bpe", vocabulary_size=4000, **settings)  # type: ignore[arg-type]
    shards = run.shards("validation")
    text = run.tokenizer.decode(shards.tokens(0)[1 : LENGTH + 1])
    seconds, pages = [], []
    for _ in range(REPEATS):
        began = time.perf_counter()
        found = run.explain(text)
        seconds.append(time.perf_counter() - began)
        found.html()
        pages.append(time.perf_counter() - began - seconds[-1])
    parameters = f"{run.model.num_parameters:,}"
    return [
        model,
        parameters,
        str(len(found.tokens)),
        *(f"{statistics.median(each):.2f} s" for each in (seconds, pages)),
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explaining", description=__doc__)
    parser.add_argument("--trial", action="store_true", help="only shown, kept nowhere")
    is_trial = parser.parse_args(arguments).trial
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(Path(folder), model) for model in MODELS]
    text = f"`run.explain` after {LENGTH} tokens of Python's documentation, models of size small; medians of {REPEATS}."
    header = ["model", "parameters", "tokens read", "explanation", "its page"]
    publish(BENCHMARKS, "explaining", Section("Explaining a prediction", text, header, rows), is_trial)


if __name__ == "__main__":
    main()
