"""Chainrule: train, compare, explain, sample from, serve and export every kind of language model, on your own text."""

from typing import TYPE_CHECKING, Any

from chainrule.version import __version__

if TYPE_CHECKING:
    from chainrule.api import compare as compare
    from chainrule.api import load as load
    from chainrule.api import load_pairs as load_pairs
    from chainrule.api import mix as mix
    from chainrule.api import resume as resume
    from chainrule.api import train as train
    from chainrule.api import train_pairs as train_pairs

__all__ = ["__version__", "compare", "load", "load_pairs", "mix", "resume", "train", "train_pairs"]


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


def __getattr__(name: str) -> Any:  # these functions bring in everything else: only when asked for
    if name in __all__:
        from chainrule import api

        return getattr(api, name)
    raise AttributeError(f"module 'chainrule' has no attribute '{name}'")
