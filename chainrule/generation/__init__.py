"""Text from any model that has `start` and `step`: sampling, beam search, and the log-probabilities of a given text.

These names are imported when they are first used, so that reading the settings alone does not load NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chainrule.generation.batch import Token as Token
    from chainrule.generation.beam import beam_search as beam_search
    from chainrule.generation.sampling import Generation as Generation
    from chainrule.generation.sampling import sample as sample
    from chainrule.generation.sampling import stream as stream
    from chainrule.generation.score import log_probabilities as log_probabilities
    from chainrule.generation.settings import Beam as Beam
    from chainrule.generation.settings import Sampling as Sampling

HOMES = {
    "Beam": "settings",
    "Generation": "sampling",
    "Sampling": "settings",
    "Token": "batch",
    "beam_search": "beam",
    "log_probabilities": "score",
    "sample": "sampling",
    "stream": "sampling",
}
__all__ = list(HOMES)


def __getattr__(name: str) -> object:
    if name not in HOMES:
        raise AttributeError(f"module 'chainrule.generation' has no attribute '{name}'")
    return getattr(import_module(f"chainrule.generation.{HOMES[name]}"), name)
