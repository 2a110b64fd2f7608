"""Conversations to be learned in seconds: three to know by heart, and many of a few words."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from chainrule.data.split import Splitting
from chainrule.text.chat import Message
from chainrule.text.choice import Tokenization
from chainrule.training.request import Request

BY_HEART = [
    [
        ("system", "Be kind."), ("user", "Who are you?"), ("assistant", "I am Max."),
        ("user", "Bye!"), ("assistant", "Tschüß!"),
    ],
    [("user", "Who are you?"), ("assistant", "A bot.\nWho asks?"), ("user", "I do."), ("assistant", "Ah.")],
    [("user", "What is 1 + 1?"), ("assistant", "2")],
]  # fmt: skip
COLOURS = {"sky": "blue", "sun": "yellow", "grass": "green", "snow": "white"}


def talks(said: Sequence[Sequence[tuple[str, str]]] = BY_HEART) -> list[list[Message]]:
    return [[Message(role, text) for role, text in talk] for talk in said]


def colours(count: int, seed: int = 0) -> list[list[tuple[str, str]]]:
    """Two or three questions each; after some of them it is asked again."""
    generator, names, found = np.random.default_rng(seed), list(COLOURS), []
    for _ in range(count):
        talk = []
        for name in generator.choice(names, generator.integers(1, 4)):
            talk += [("user", f"What colour is the {name}?"), ("assistant", f"The {name} is {COLOURS[name]}.")]
        found.append(talk)
    return found


def write(path: Path, said: Sequence[Sequence[tuple[str, str]]]) -> Path:
    lines = [{"messages": [{"role": role, "content": text} for role, text in talk]} for talk in said]
    path.write_text("".join(json.dumps(each) + "\n" for each in lines), encoding="utf-8")
    return path


def request(chats: Path, path: Path, **settings: object) -> Request:
    """A tiny Transformer of bytes, unless another model is named."""
    tokenizer, model = settings.pop("tokenizer", "bytes"), settings.pop("model", None)
    validation, fraction = settings.pop("validation", ()), settings.pop("validation_fraction", 0.1)
    plain = {"batch_size": 4, "window": 64, "evaluations": 2, "optimizer": "adamw", "learning_rate": 0.01}
    return Request(
        inputs=(str(chats),),
        task="dialogue",
        model=model,  # type: ignore[arg-type]
        size="tiny",
        settings={**plain, **settings},
        validation=validation,  # type: ignore[arg-type]
        splitting=Splitting(fraction),  # type: ignore[arg-type]
        tokenization=Tokenization(tokenizer),  # type: ignore[arg-type]
        path=path,
    )
