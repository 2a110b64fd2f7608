"""Which model theory says should be better than which, and whether that is so on this text."""

from dataclasses import dataclass

import numpy as np

from chainrule.analysis.compare.measure import CommonText, ModelScores
from chainrule.analysis.compare.table import Interval, Table, interval
from chainrule.evaluation.score import NATS_PER_BIT
from chainrule.evaluation.significance import resample

# (worse, better, why)
LATEST_WORD = "{} can look at the latest word alone, and so can be a bigram".format
OLDER_THAN_A_WINDOW = "{} remembers beyond a fixed window".format
EXPECTED = (
    ("ngram-1", "ngram-2", "one word of context is better than none"),
    ("ngram-2", "ngram-3", "two words of context are better than one"),
    ("ngram-3", "ngram-5", "with good smoothing, longer contexts do not hurt"),
    ("ngram-5-katz", "ngram-5", "modified Kneser-Ney is better than Katz"),
    ("ngram-5-witten-bell", "ngram-5", "modified Kneser-Ney is better than Witten-Bell"),
    ("ngram-1", "bow", "the words before tell something even without their order"),
    ("ngram-2", "mlp", "several words of context are better than one, and words that are alike share what was learned"),
    ("ngram-2", "attention", LATEST_WORD("attention")),
    ("ngram-2", "elman", LATEST_WORD("an Elman network")),
    ("ngram-2", "ugrnn", LATEST_WORD("a UGRNN")),
    ("ngram-2", "gru", LATEST_WORD("a GRU")),
    ("ngram-2", "lstm", LATEST_WORD("an LSTM")),
    ("ngram-2", "transformer", LATEST_WORD("a Transformer")),
    ("bow", "attention", "attention knows which words and where, a bag only that they were there"),
    ("bow", "transformer", "a Transformer whose weights are all equal is a bag, and it has several layers"),
    ("bow", "mlp", "an MLP knows the order of the latest words"),
    ("mlp", "lstm", OLDER_THAN_A_WINDOW("an LSTM")),
    ("mlp", "gru", OLDER_THAN_A_WINDOW("a GRU")),
    ("mlp", "transformer", "a Transformer reads more words, and heads that look at fixed places make it an MLP"),
    ("elman", "ugrnn", "a gate keeps what an Elman network forgets"),
    ("elman", "gru", "gates keep what an Elman network forgets"),
    ("elman", "lstm", "gates keep what an Elman network forgets"),
    ("ugrnn", "gru", "a GRU whose reset gate stays open is a UGRNN"),
    ("attention", "transformer", "several layers are better than one"),
)


@dataclass(frozen=True)
class Expectation:
    worse: str
    better: str
    why: str
    gain: float  # bits saved per byte or token; below zero, it is worse
    interval: Interval | None  # None: too few documents to tell
    training: str = ""  # what each of the two read, in how long, with how many parameters

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
        """What is known of how the two were trained, where it is not as expected."""
        return "" if self.is_met or self.interval is None else self.training


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
        training = f"{describe_training(present[better])}; {describe_training(present[worse])}"
        found.append(Expectation(worse, better, why, float(gain.sum() / sizes.sum()), found_interval, training))
    return found


def describe_training(model: ModelScores) -> str:
    """'gru (533,257 parameters) read 787,000 tokens in 60.7 s'"""
    read = "did not say what it read" if model.training_tokens is None else f"read {model.training_tokens:,} tokens"
    seconds = "" if model.seconds is None else f" in {model.seconds:,.1f} s"
    return f"{model.label} ({model.parameters:,} parameters) {read}{seconds}"
