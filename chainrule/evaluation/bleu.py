"""BLEU and chrF of translations by sacreBLEU, with the signatures that make them comparable (Post, 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from chainrule.errors import UserError

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import Result

NEEDED = "measuring translations needs sacrebleu; run: pip install 'chainrule[translation]'"


@dataclass(frozen=True)
class TranslationQuality:
    """BLEU and chrF in percent, each with the signature that says how it was computed."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str


def is_measurable() -> bool:
    from importlib.util import find_spec

    return find_spec("sacrebleu") is not None


def check_measurable() -> None:
    if not is_measurable():
        raise UserError(NEEDED)


def measure(translations: Sequence[str], references: Sequence[str], lowercase: bool) -> TranslationQuality:
    """The quality of a text's translations, with one reference each; `lowercase` ignores capitals."""
    bleu, chrf = _metrics(lowercase)
    if not translations:
        raise UserError("there is no translation to measure; give a text of one line at the least")
    texts, right = list(translations), [list(references)]
    return TranslationQuality(
        bleu=bleu.corpus_score(texts, right).score,
        chrf=chrf.corpus_score(texts, right).score,
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )


@dataclass(frozen=True)
class MetricDifference:
    """How two systems differ by one metric: both scores, and the p-value of the difference."""

    metric: str
    score: float
    other: float
    p_value: float


def compare(
    translations: Sequence[str], others: Sequence[str], references: Sequence[str], lowercase: bool
) -> list[MetricDifference]:
    """Whether translations differ from others' by each metric: sacreBLEU's paired bootstrap (Koehn, 2004)."""
    metrics = dict(zip(("BLEU", "chrF2"), _metrics(lowercase), strict=True))
    from sacrebleu.significance import PairedTest

    systems: list[tuple[str, Sequence[str]]] = [("other", list(others)), ("ours", list(translations))]
    test = PairedTest(systems, metrics, [list(references)], test_type="bs", n_samples=1000)
    results = cast("dict[str, list[Result]]", test()[1])
    is_same = list(translations) == list(others)  # where nothing differs in any sample, sacreBLEU's p is its smallest
    return [
        MetricDifference(name, mine.score, theirs.score, 1.0 if is_same or mine.p_value is None else mine.p_value)
        for name, (theirs, mine) in ((name, results[name]) for name in metrics)
    ]


def _metrics(lowercase: bool) -> tuple["BLEU", "CHRF"]:
    check_measurable()
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    return BLEU(lowercase=lowercase, tokenize="13a"), CHRF(lowercase=lowercase)
