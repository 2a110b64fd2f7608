"""Chainrule: train, compare, explain, sample from, serve and export every kind of language model, on your own text."""

from typing import TYPE_CHECKING

from chainrule.version import __version__

if TYPE_CHECKING:
    from chainrule.api import Texts as Texts
    from chainrule.api import compare as compare
    from chainrule.api import import_model as import_model
    from chainrule.api import load as load
    from chainrule.api import load_pairs as load_pairs
    from chainrule.api import load_tokenizer as load_tokenizer
    from chainrule.api import mix as mix
    from chainrule.api import random_windows as random_windows
    from chainrule.api import resume as resume
    from chainrule.api import train as train
    from chainrule.api import train_dialogue as train_dialogue
    from chainrule.api import train_pairs as train_pairs
    from chainrule.api import train_preferences as train_preferences
    from chainrule.api import train_tagger as train_tagger
    from chainrule.api import train_tokenizer as train_tokenizer

__all__ = [
    "Texts", "__version__", "compare", "import_model", "load", "load_pairs", "load_tokenizer", "mix", "random_windows",
    "resume", "train", "train_dialogue", "train_pairs", "train_preferences", "train_tagger", "train_tokenizer",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


def __getattr__(name: str) -> object:  # these functions load everything else, so only when they are used
    if name in __all__:
        from chainrule import api

        return getattr(api, name)
    raise AttributeError(f"module 'chainrule' has no attribute '{name}'")
