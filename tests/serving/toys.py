"""Small runs of three kinds, behind a server of the test's own."""

from pathlib import Path

import tokenizers
import torch

import chainrule
from chainrule.models import transformer
from chainrule.runs.folder import Run
from chainrule.runs.write import store
from chainrule.serving.model_provider import ModelProvider
from chainrule.serving.scheduler import Scheduler
from chainrule.serving.service import Service
from chainrule.text.base import Tokenizer
from chainrule.text.chat import Chat
from chainrule.training.pipeline import train
from tests.tasks.toys import request, write_pairs
from tests.text.samples import LINES as SAMPLES
from tests.text.samples import train as train_tokenizer

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


def chatml_tokenizer() -> Tokenizer:
    """Of ChatML, whose end of a turn is here not the end of a text."""
    backend = tokenizers.Tokenizer.from_str(train_tokenizer("bpe", SAMPLES).json)
    backend.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    found = Tokenizer(backend)
    found.chat = Chat("chatml", "Be brief.")
    return found


def store_chatml(path: Path) -> Path:
    """A Transformer of random weights that reads conversations in ChatML."""
    tokenizer = chatml_tokenizer()
    config = transformer.Config(width=32, num_layers=1, num_heads=2, context_length=128)
    model = transformer.Model(config, tokenizer.vocabulary_size, tokenizer.eos).eval()
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.2)
    store(path, "transformer", model, tokenizer, {"inputs": ["none"], "unit": "line"}, overwrite=False)
    return path


def toy_service(paths: list[Path]) -> Service:
    return Service(ModelProvider([Run(path, task=None) for path in paths]), Scheduler())
