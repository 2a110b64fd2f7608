"""Runs to serve: counted from cows in no time, or with random weights, which are as good as learned ones to compare."""

from pathlib import Path

import torch

import chainrule
from chainrule.models import lstm, transformer
from chainrule.runs.write import store
from tests.cli.cows import LINES


def make_runs(folder: Path) -> dict[str, Path]:
    """cows ends a text where a line ends; herd, greedy, never does; strict knows only what it has seen."""
    text = folder / "cows.txt"
    text.write_text("\n".join(LINES) + "\n")
    counted = {"order": 3, "tokenizer": "words"}
    cows = chainrule.train(text, path=folder / "cows", unit="line", **counted)
    chainrule.train(text, path=folder / "herd", unit="file", **counted)
    chainrule.train(text, path=folder / "strict", unit="line", smoothing="maximum-likelihood", **counted)
    letters = chainrule.train(text, path=folder / "letters", order=3, tokenizer="bytes")
    size = transformer.Config(width=32, num_layers=2, num_heads=2, context_length=64)
    torch.manual_seed(0)
    for name, module, config, like in (
        ("lstm", lstm, lstm.SIZES["tiny"], cows),
        ("transformer", transformer, size, letters),
    ):
        model = module.Model(config, like.tokenizer.vocabulary_size, like.tokenizer.eos)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0, 0.2)
        store(folder / name, name, model, like.tokenizer, {"inputs": [str(text)], "unit": "line"}, overwrite=False)
    return {path.name: path for path in folder.iterdir() if (path / "config.json").is_file()}
