"""A finding about a training or a run: how serious it is, the figures behind it, and what to do."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["problem", "note", "good"]
SEVERITIES: tuple[Severity, ...] = ("problem", "note", "good")  # the gravest first


@dataclass(frozen=True)
class Finding:
    name: str  # what was looked at, or what it suffers from: 'overfitting'
    severity: Severity
    found: str  # with figures
    advice: str = ""  # what to do; nothing where all is well
