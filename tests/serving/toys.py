"""Small runs of three kinds, behind a server of the test's own."""

from pathlib import Path

import torch

import chainrule
from chainrule.runs.folder import Run
from chainrule.serving.model_provider import ModelProvider
from chainrule.serving.scheduler import Scheduler
from chainrule.serving.service import Service
from chainrule.training.pipeline import train
from tests.tasks.toys import request, write_pairs

LINES = [
    f"On day {i} the {'red' if i % 3 else 'old'} cow eats {'hay' if i % 2 else 'grass'} by the river.\n"
    f"{'She' if i % 2 else 'He'} sings {'softly' if i % 5 else 'loudly'} to the moon, and the moon listens.\n"
    for i in range(150)
]
TOY_TEXT = "\n".join(LINES)


def train_toys(folder: Path) -> list[Path]:
    """An n-gram of words, an LSTM of characters and a Transformer of byte pairs, in a few seconds."""
    torch.set_num_threads(1)  # two would wait for each other where tests run side by side
    text = folder / "cows.txt"
    text.write_text(TOY_TEXT, encoding="utf-8")
    wanted = {
        "ngram": {"order": 4, "tokenizer": "words"},
        "lstm": {"size": "tiny", "tokenizer": "characters", "steps": 30},
        "transformer": {"size": "tiny", "tokenizer": "bpe", "context_length": 32, "steps": 30},
    }
    for model, settings in wanted.items():
        chainrule.train(text, model=model, path=folder / model, **settings)  # type: ignore[arg-type]
    return [folder / model for model in wanted]


def train_translators(folder: Path) -> list[Path]:
    """A Transformer, and a GRU with additive attention, that have begun to learn a toy language."""
    torch.set_num_threads(1)
    pairs = write_pairs(folder / "pairs.tsv", 200)
    recurrent = {"encoder": "gru", "decoder": "gru", "join": "additive"}
    for name, settings in {"cross": {}, "additive": recurrent}.items():
        train(request(pairs, folder / name, steps=150, evaluations=1, **settings))
    return [folder / "cross", folder / "additive"]


def toy_service(paths: list[Path]) -> Service:
    return Service(ModelProvider([Run(path, task=None) for path in paths]), Scheduler())
