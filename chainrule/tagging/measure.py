"""How accurate a tagger is on sentences whose tags are known, beside the two baselines that it should beat."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict

from chainrule.data.conllu import NOTHING, Sentence
from chainrule.errors import UserError
from chainrule.evaluation.accuracy import Confusion, Part
from chainrule.tagging.hmm import HiddenMarkovTagger
from chainrule.tagging.majority import MajorityTagger

MOST_TAGS = 256  # for a hidden Markov model, whose table has the third power of their number
MAJORITY, HIDDEN_MARKOV = "most frequent tag", "hidden Markov"


class Tagger(Protocol):
    def tag(self, words: Sequence[str]) -> list[str]: ...


Sentences = Sequence[Sequence[str]]
BASELINES: dict[str, Callable[[Sentences, Sentences], Tagger]] = {
    MAJORITY: MajorityTagger,
    HIDDEN_MARKOV: HiddenMarkovTagger,
}


@dataclass(frozen=True)
class ColumnAccuracy:
    """The tags of one column: which were given for which, and how many words unseen in training were right."""

    column: str
    confusion: Confusion
    unseen: Part


def measure(
    column: str, sentences: Sequence[Sentence], given: Iterable[Sequence[str]], seen: set[str]
) -> ColumnAccuracy:
    """Compare given tags with the right ones; words without a tag are not counted."""
    right, found, is_unseen = [], [], []
    for sentence, tags in zip(sentences, given, strict=True):
        for word, tag, guess in zip(sentence.words, sentence.column(column), tags, strict=True):
            if tag != NOTHING:
                right.append(tag)
                found.append(guess)
                is_unseen.append(word not in seen)
    unseen = [a == b for a, b, new in zip(right, found, is_unseen, strict=True) if new]
    return ColumnAccuracy(column, Confusion.count(right, found), Part(len(unseen), sum(unseen)))


def measure_baselines(
    column: str, train: Sequence[Sentence], sentences: Sequence[Sentence], seen: set[str]
) -> dict[str, ColumnAccuracy]:
    """The accuracy of each baseline by its name; both are counted from the training sentences, in about a second."""
    words, tags = [each.words for each in train], [each.column(column) for each in train]
    is_large = len({tag for each in tags for tag in each}) > MOST_TAGS
    taggers = {
        name: make(words, tags) for name, make in BASELINES.items() if not (is_large and make is HiddenMarkovTagger)
    }
    return {
        name: measure(column, sentences, [tagger.tag(each.words) for each in sentences], seen)
        for name, tagger in taggers.items()
    }


def check_tags(sentences: Sequence[Sentence], column: str, known: Sequence[str]) -> list[str]:
    """A note on tags that do not occur in training, which can only be wrong; a text with no other tags is refused."""
    unknown = [
        (tag, f"'{sentence.path}' line {sentence.line_of(word)}")
        for sentence in sentences
        for word, tag in enumerate(sentence.column(column))
        if tag != NOTHING and tag not in known
    ]
    labelled = sum(tag != NOTHING for sentence in sentences for tag in sentence.column(column))
    if not labelled:
        return [f"no word has a tag in column {column}, so it was not measured"]
    if len(unknown) == labelled:
        tag, where = unknown[0]
        raise UserError(
            f"{where} has the {column} '{tag}', and like all the others it is none that the run was taught "
            f"({', '.join(known[:20])}); measure on text with the tags of the training text"
        )
    if not unknown:
        return []
    tag, where = unknown[0]
    names = ", ".join(sorted({each for each, _ in unknown})[:10])
    return [
        f"{len(unknown):,} of {labelled:,} words have a tag in column {column} that training never had ({names}; the "
        f"first at {where}): they count as wrong"
    ]


class PartFigures(TypedDict):
    words: int
    correct: int
    accuracy: float | None


class TagFigures(TypedDict):
    """One tag: of how many words it is right, to how many it was given."""

    tag: str
    words: int
    given: int
    precision: float | None
    recall: float | None
    f1: float | None


class ConfusionFigures(TypedDict):
    tags: list[str]
    counts: list[list[int]]  # by the right tag, then by the tag given


class ColumnFigures(PartFigures):
    """All figures of one column, as `chainrule evaluate --json` prints them."""

    unseen: PartFigures
    by_tag: list[TagFigures]
    confusion: ConfusionFigures


class ColumnSummary(TypedDict):
    accuracy: float | None
    unseen_accuracy: float | None


def _describe_part(part: Part) -> PartFigures:
    return {"words": part.words, "correct": part.correct, "accuracy": part.accuracy}


def describe(measured: ColumnAccuracy) -> ColumnFigures:
    """All figures of one column."""
    confusion = measured.confusion
    return {
        **_describe_part(confusion.all),
        "unseen": _describe_part(measured.unseen),
        "by_tag": [
            {
                "tag": each.label,
                "words": each.words,
                "given": each.given,
                "precision": each.precision,
                "recall": each.recall,
                "f1": each.f1,
            }
            for each in confusion.by_label()
        ],
        "confusion": {"tags": confusion.labels, "counts": confusion.counts.tolist()},
    }


def summarise(measured: ColumnAccuracy) -> ColumnSummary:
    """The two accuracies of one column, to be shown beside another's."""
    return {"accuracy": measured.confusion.all.accuracy, "unseen_accuracy": measured.unseen.accuracy}
