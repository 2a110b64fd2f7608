"""Summarisation: long texts to short ones. The same model and the same measures as translation, and longer sources."""

from dataclasses import dataclass

from chainrule.tasks import _pairs
from chainrule.tasks._pairs import prepare as prepare
from chainrule.tasks.translation import Task as Task

MODELS = ("conditional",)
COMMAND = "translate"


@dataclass(frozen=True)
class Settings(_pairs.Settings):
    most_tokens: int = 1000
