"""A language to be learned in seconds: every word has one translation, and the order is turned round."""

from pathlib import Path

import numpy as np

from chainrule.data.split import Splitting
from chainrule.text.choice import Tokenization
from chainrule.training.request import Request

WORDS = {"rot": "red", "blau": "blue", "gross": "big", "klein": "small", "alt": "old", "neu": "new"}


def translate(source: str) -> str:
    return " ".join(WORDS[word] for word in reversed(source.split()))


def sentences(count: int, seed: int = 0) -> list[str]:
    generator = np.random.default_rng(seed)
    names = list(WORDS)
    return [" ".join(names[i] for i in generator.integers(0, 6, generator.integers(1, 5))) for _ in range(count)]


def write_pairs(path: Path, count: int = 300, seed: int = 0) -> Path:
    path.write_text("".join(f"{each}\t{translate(each)}\n" for each in sentences(count, seed)), encoding="utf-8")
    return path


def request(pairs: Path, path: Path, task: str = "translation", **settings: object) -> Request:
    small = {"width": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 2, "batch_size": 16, "window": 8}
    return Request(
        inputs=(str(pairs),),
        task=task,
        settings={**small, "dropout": 0.0, "evaluations": 2, **settings},
        splitting=Splitting(0.1),
        tokenization=Tokenization("words"),
        path=path,
    )
