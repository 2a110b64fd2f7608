"""Warnings during training: symptoms found in the records so far, one line each, each printed once."""

from collections.abc import Callable, Iterable

from chainrule.training.callbacks import Callback, Record
from chainrule.training.symptoms import find_symptoms

LOOKS = 20  # over a training


class Warner(Callback):
    """Checks the records some twenty times over a training; `before` are the earlier events of a resumed one."""

    def __init__(self, say: Callable[[str], None], clip: float, before: Iterable[Record] = ()):
        self._say, self._clip = say, clip
        self._said: set[str] = set()
        self._looked = 0
        happened = list(before)
        self._steps = [event for event in happened if event["event"] == "step"]
        self._evaluations = [event for event in happened if event["event"] == "evaluation"]

    def step(self, record: Record) -> None:
        self._steps.append(record)
        if int(record["progress"] * LOOKS) > self._looked:
            self._looked = int(record["progress"] * LOOKS)
            self._look()

    def evaluation(self, record: Record) -> None:
        self._evaluations.append(record)
        self._look()

    def _look(self) -> None:
        for finding in find_symptoms(self._steps, self._evaluations, self._clip):
            if finding.name not in self._said:
                self._said.add(finding.name)
                self._say(f"warning: {finding.name}: {finding.found}; {finding.advice}")
