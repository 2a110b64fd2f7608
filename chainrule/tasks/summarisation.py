"""Summarisation: long texts to short ones. The same model and the same measures as translation, and longer sources."""

from dataclasses import dataclass
from typing import ClassVar

from chainrule.tasks import _pairs, translation


@dataclass(frozen=True)
class Settings(_pairs.Settings):
    most_tokens: int = 1000


class Task(translation.Task):
    settings_class: ClassVar[type] = Settings
