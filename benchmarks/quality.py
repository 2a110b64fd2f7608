"""`make results`: how well models that count predict real text; its parts go to docs/results/quality.md."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import chainrule
from benchmarks.corpora import DATA
from benchmarks.report import RESULTS, Section, publish
from chainrule.errors import UserError
from chainrule.ngram.smoothing import METHODS

KENLM = {2: 185.70, 3: 148.28, 4: 142.72, 5: 141.19}  # lmplz on the same text, as published with the data set


def train(folder: Path, *inputs: Path | str, **settings: Any) -> Any:
    return chainrule.train([str(each) for each in inputs], path=folder / "run", overwrite=True, **settings)


def penn_treebank(folder: Path) -> Section:
    ptb = DATA / "ptb"
    orders = (2, 3, 4, 5)
    rows = []
    for smoothing in METHODS:
        cells = [smoothing]
        for order in orders:
            run = train(
                folder, ptb / "ptb.train.txt", validation=ptb / "ptb.valid.txt", unit="line",
                tokenizer="words", closed_vocabulary=True, order=order, smoothing=smoothing,
            )  # fmt: skip
            figures = run.evaluate(ptb / "ptb.test.txt")
            cells.append(f"{figures['perplexity']:.2f}" if run.model.is_normalised and figures["nats"] < 1e300 else "–")
        rows.append(cells)
    rows.insert(1, ["KenLM's lmplz, for comparison", *(f"{KENLM[order]:.2f}" for order in orders)])
    return Section(
        "Models that count: Penn Treebank, test perplexity by order",
        "10,000 words, closed vocabulary, a sentence a line, `</s>` counted. – : infinite, or not a distribution.",
        ["smoothing", *map(str, orders)],
        rows,
    )


def tokenizers(folder: Path) -> Section:
    texts = {
        "Python's documentation": "builtin:python-docs",
        "tinyshakespeare": DATA / "tinyshakespeare" / "input.txt",
        "names": DATA / "makemore-names" / "names.txt",
        "State of the Union": DATA / "sotu" / "train_1790_1989.txt",
    }
    settings: dict[str, dict[str, Any]] = {
        "words, 5": {"tokenizer": "words", "order": 5},
        "bpe, 5": {"tokenizer": "bpe", "order": 5},
        "bpe of 1,024, 7": {"tokenizer": "bpe", "vocabulary_size": 1024, "order": 7},
        "characters, 6": {"tokenizer": "characters", "order": 6},
        "characters, 10": {"tokenizer": "characters", "order": 10},
    }
    texts = {name: path for name, path in texts.items() if Path(path).exists() or str(path).startswith("builtin:")}
    rows = []
    for label, each in settings.items():
        measured = [train(folder, path, **each).metrics[-1]["validation"]["bits_per_byte"] for path in texts.values()]
        rows.append([label, *(f"{bits:.3f}" for bits in measured)])
    return Section(
        "Models that count: bits per byte by tokenizer and order",
        "Modified Kneser-Ney, on the tenth of the documents that is kept aside: one measure for every tokenizer.",
        ["tokens, order", *texts],
        rows,
    )


PARTS = {"penn-treebank": penn_treebank, "tokenizers": tokenizers}


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(PARTS), help="this part alone")
    arguments = parser.parse_args(words)
    for name in arguments.only or PARTS:
        if name == "penn-treebank" and not (DATA / "ptb").exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            publish(RESULTS, name, PARTS[name](Path(folder)), is_trial=False)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        raise SystemExit(f"results: {error}") from None
