"""Which model theory says should be better than which, and whether that is so on this text."""

from dataclasses import dataclass

import numpy as np

from chainrule.analysis.compare.measure import CommonText, ModelScores
from chainrule.analysis.compare.table import Interval, Table, interval
from chainrule.evaluation.score import NATS_PER_BIT
from chainrule.evaluation.significance import resample

# (worse, better, why)
EXPECTED = (
    ("ngram-1", "ngram-2", "one word of context is better than none"),
    ("ngram-2", "ngram-3", "two words of context are better than one"),
    ("ngram-3", "ngram-5", "with good smoothing, longer contexts do not hurt"),
    ("ngram-5-katz", "ngram-5", "modified Kneser-Ney is better than Katz"),
    ("ngram-5-witten-bell", "ngram-5", "modified Kneser-Ney is better than Witten-Bell"),
    ("ngram-1", "bow", "the words before tell something even without their order"),
    ("ngram-2", "mlp", "several words of context are better than one, and words that are alike share what was learned"),
    ("bow", "attention", "attention knows which words and where, a bag only that they were there"),
    ("bow", "mlp", "an MLP knows the order of the latest words"),
    ("mlp", "lstm", "an LSTM remembers beyond a fixed window"),
    ("elman", "ugrnn", "a gate keeps what an Elman network forgets"),
    ("elman", "gru", "gates keep what an Elman network forgets"),
    ("elman", "lstm", "gates keep what an Elman network forgets"),
    ("attention", "transformer", "several layers are better than one"),
)

COUNTS = "ngram-"  # how labels of models that count begin
OF_TWO_THAT_LEARN = (
    "both have recipes for such a time, which were not searched for equally long (docs/results/recipes.md has "
    "what was tried); more --minutes may turn this"
)
OF_ONE_THAT_LEARNS = (
    "counting reads all of the text in seconds, and a network learns what it can in the minutes it has; more --minutes "
    "may turn this"
)


@dataclass(frozen=True)
class Expectation:
    worse: str
    better: str
    why: str
    gain: float  # bits saved per byte or token; below zero, it is worse
    interval: Interval | None  # None: too few documents to tell

    @property
    def is_met(self) -> bool:
        return self.interval is not None and self.interval[0] > 0

    @property
    def verdict(self) -> str:
        if self.interval is None:
            return "too few documents to tell"
        if self.is_met:
            return "so it is"
        return "the opposite here" if self.interval[1] < 0 else "no significant difference here"

    @property
    def remark(self) -> str:
        """What to know where it is not as expected, of models that learn."""
        if self.is_met or self.interval is None or self.better.startswith(COUNTS):
            return ""
        return OF_ONE_THAT_LEARNS if self.worse.startswith(COUNTS) else OF_TWO_THAT_LEARN


def check_expectations(measured: list[ModelScores], text: CommonText, table: Table) -> list[Expectation]:
    """The expectations whose two models are both in the table."""
    present = {each.label: each for each in measured if table.row(each.label) is not None}
    found = []
    for worse, better, why in EXPECTED:
        if worse not in present or better not in present:
            continue
        sizes = (text.sizes if table.unit == "byte" else present[worse].tokens).astype(np.float64)
        gain = (present[worse].nats - present[better].nats)[None] / NATS_PER_BIT
        found_interval = interval(resample(gain, sizes)[0]) if table.can_tell else None
        found.append(Expectation(worse, better, why, float(gain.sum() / sizes.sum()), found_interval))
    return found
