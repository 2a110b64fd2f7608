"""`make mixes`: what mixing gains on the Penn Treebank; goes to docs/results/mixing.md.

The 5-gram is counted here; the LSTM is a run that `make learn` has made. Weights, decays and buckets are fitted on the
validation text, and everything is measured on the test text. Each part scores each text once, for all mixes.
"""

import argparse
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import chainrule
from benchmarks.learning import HOME, PTB, PTB_TEST_TOKENS
from benchmarks.report import MIXING, Section, publish
from chainrule.analysis.mix.fit import add_cache, fit
from chainrule.analysis.mix.gain import measure_gain
from chainrule.analysis.mix.text import ScoredText, read_text
from chainrule.data.corpus import Corpus, Reading
from chainrule.errors import UserError
from chainrule.models.mix import Config, Model

DYNAMIC = 0.3  # chosen on the validation text: see docs/log.md


@dataclass(frozen=True)
class Row:
    parts: tuple[str, ...]  # cache is one
    by: str = "all"


MIXES = {
    "5-gram + cache": Row(("5-gram", "cache")),
    "5-gram + LSTM": Row(("5-gram", "LSTM")),
    "5-gram + LSTM, weights by order": Row(("5-gram", "LSTM"), "order"),
    "5-gram + LSTM, weights by entropy": Row(("5-gram", "LSTM"), "entropy"),
    "5-gram + LSTM + cache": Row(("5-gram", "LSTM", "cache")),
    "5-gram + LSTM + cache, weights by entropy": Row(("5-gram", "LSTM", "cache"), "entropy"),
    "5-gram + dynamic LSTM": Row(("5-gram", "dynamic LSTM")),
    "5-gram + dynamic LSTM + cache": Row(("5-gram", "dynamic LSTM", "cache")),
    "5-gram + dynamic LSTM + cache, weights by entropy": Row(("5-gram", "dynamic LSTM", "cache"), "entropy"),
}
ALONE = ("5-gram", "LSTM", "dynamic LSTM")
PUBLISHED = {  # Mikolov's thesis (2012), table 4.1, of an RNN in place of the LSTM
    "5-gram": 141.2,
    "LSTM": 124.7,
    "dynamic LSTM": 123.2,
    "5-gram + cache": 125.7,
    "5-gram + LSTM": 105.7,
    "5-gram + LSTM + cache": 97.5,
    "5-gram + dynamic LSTM": 102.7,
    "5-gram + dynamic LSTM + cache": 98.0,
}


def read(run: Any, config: Config) -> dict[str, ScoredText]:
    """What one model predicts of the validation and the test text, with the signal that weights may go by."""
    model = Model(config, [run.model], [run.name])
    texts = {name: Corpus([PTB / f"ptb.{name}.txt"], Reading(unit="line")) for name in ("valid", "test")}
    return {name: read_text(model, run.tokenizer, text.batches()) for name, text in texts.items()}


def join(texts: list[ScoredText], signal: ScoredText | None) -> ScoredText:
    """Parts that were read one by one, side by side."""
    batches = [
        replace(
            batch,
            log_p=np.concatenate([text.batches[i].log_p for text in texts]),
            signal=np.zeros_like(batch.signal) if signal is None else signal.batches[i].signal,
        )
        for i, batch in enumerate(texts[0].batches)
    ]
    return replace(texts[0], batches=batches)


def measure(folder: Path, lstm: Path) -> dict[str, dict[str, Any]]:
    """{row: figures on the test text}, the parts by themselves first."""
    counted = chainrule.train(
        PTB / "ptb.train.txt", validation=PTB / "ptb.valid.txt", path=folder / "5-gram", unit="line",
        tokenizer="words", closed_vocabulary=True, order=5,
    )  # fmt: skip
    learned = chainrule.load(lstm)
    runs = {"5-gram": counted, "LSTM": learned, "dynamic LSTM": learned}
    texts = {
        "5-gram": read(counted, Config("order")),
        "LSTM": read(learned, Config("entropy")),
        "dynamic LSTM": read(learned, Config("entropy", DYNAMIC)),
    }
    figures: dict[str, dict[str, Any]] = {}
    for name in ALONE:
        found = measure_gain(Model(Config(), [runs[name].model], [name]), texts[name]["test"])
        assert found["tokens"] == PTB_TEST_TOKENS, f"{found['tokens']:,} test tokens"
        figures[name] = {"perplexity": found["perplexity"]}
    for name, row in MIXES.items():
        names = [part for part in row.parts if part != "cache"]
        guide = {"all": None, "order": names[0], "entropy": names[-1]}[row.by]
        valid, test = (
            join([texts[part][which] for part in names], guide and texts[guide][which]) for which in ("valid", "test")
        )
        model = Model(Config(row.by), [runs[part].model for part in names], names)
        if "cache" in row.parts:
            model, valid = add_cache(model, valid)
            test = test.with_part(model.parts[-1])
        figures[name] = measure_gain(fit(model, valid), test)
        print(f"{name}: {figures[name]['perplexity']:.2f}", flush=True)
    return figures


def cells(name: str, figures: dict[str, Any]) -> list[str]:
    published = f"{PUBLISHED[name]:.1f}" if name in PUBLISHED else ""
    if "parts" not in figures:
        return [name, f"{figures['perplexity']:.2f}", "", "", "", published]
    best = min(part["perplexity"] for part in figures["parts"] if part["perplexity"])
    gap = figures["against"]
    return [
        name,
        f"{figures['perplexity']:.2f}",
        f"{1 - figures['perplexity'] / best:.1%}",
        f"{-gap['bits_per_byte']:.4f} ({-gap['high']:.4f} to {-gap['low']:.4f})",
        " ".join(f"{part['weight']:.2f}" for part in figures["parts"]),
        published,
    ]


def section(figures: dict[str, dict[str, Any]]) -> Section:
    text = (
        "Test perplexity (10,000 words, closed vocabulary, `<eos>` counted). Below its best part: how much lower the\n"
        "perplexity is, and by how many bits per byte, with the 95 % interval of a paired bootstrap over sentences.\n"
        "Weights: the mean over the test text, in the order of the parts. The 5-gram is modified Kneser–Ney; the LSTM\n"
        "is what `chainrule train --minutes 30` made; dynamic, it learns from the text as it scores it. Mikolov's\n"
        "figures (2012, table 4.1) are of an RNN in place of the LSTM."
    )
    header = ["mix", "test perplexity", "below its best part", "bits per byte", "weights", "Mikolov"]
    return Section("Penn Treebank", text, header, [cells(*each) for each in figures.items()], figures)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mixing", description=__doc__)
    parser.add_argument("--lstm", type=Path, default=HOME / "ptb-30", help="the run that the 5-gram is mixed with")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        publish(MIXING, "penn-treebank", section(measure(Path(folder), arguments.lstm)), is_trial=False)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        raise SystemExit(f"mixes: {error}") from None
