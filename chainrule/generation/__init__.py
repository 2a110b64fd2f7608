"""Text from any model that has `start` and `step`: sampling, beam search, and the log-probabilities of a given text."""

from chainrule.generation.batch import Token
from chainrule.generation.beam import Beam, beam_search
from chainrule.generation.sample import Generation, sample, stream
from chainrule.generation.score import log_probabilities
from chainrule.generation.settings import Sampling

__all__ = [
    "Beam",
    "Generation",
    "Sampling",
    "Token",
    "beam_search",
    "log_probabilities",
    "sample",
    "stream",
]
