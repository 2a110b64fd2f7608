"""Rounding the matrices of a run to eight bits, and what that costs in bits per byte of text it has not seen."""

from dataclasses import dataclass, replace

import numpy as np

from chainrule.checks import require_choice
from chainrule.data.corpus import Corpus
from chainrule.data.documents import Documents
from chainrule.errors import UserError
from chainrule.evaluation.score import score
from chainrule.models.contract import learns
from chainrule.runs.folder import KeptAside, Run

KINDS = ("int8",)
MEASURED_BYTES = 4096
ELSEWHERE = "builtin:python-docs"


@dataclass(frozen=True)
class Cost:
    """Bits per byte of some text, before and after a share of the weights was rounded."""

    share: float
    text: str
    text_bytes: int
    before: float
    after: float

    def __str__(self) -> str:
        more = round(self.after - self.before, 4) + 0.0  # not -0.0
        return (
            f"int8: {self.share:.0%} of the weights, {more:+.4f} bits per byte on {self.text_bytes:,} bytes of "
            f"{self.text} ({self.before:.4f} in float32, {self.after:.4f} now)"
        )


def quantize(run: Run, kind: str = "int8") -> Cost:
    """Round the loaded model in place, and measure what it costs; nothing is written."""
    require_choice("quantize", kind, KINDS)
    model = run.model
    if not learns(model):
        raise UserError(f"'{run.path}' is a model of kind {run.architecture}, which has no weights to quantize")
    text, documents = _text(run)
    before = _bits_per_byte(run, documents)
    share: float = model.round_to_int8()  # type: ignore[attr-defined]
    return Cost(share, text, int(documents.sizes.sum()), before, _bits_per_byte(run, documents))


def _bits_per_byte(run: Run, documents: Documents) -> float:
    return score(run.model, run.tokenizer, [documents]).bits_per_byte


def _text(run: Run) -> tuple[str, Documents]:
    """A little of the text that training held out; for an imported model, which has none, of Python's documentation."""
    if run.has_shards:
        for documents in KeptAside(run).batches():
            return "the text kept aside", _some(documents)
    return "Python's documentation", _some(next(Corpus([ELSEWHERE]).batches()))


def _some(documents: Documents) -> Documents:
    """The first documents, about MEASURED_BYTES of them; of a first one that is longer, only its beginning."""
    count = max(int(np.searchsorted(documents.sizes.cumsum(), MEASURED_BYTES)), 1)
    some = documents.select(np.arange(len(documents)) < count)
    ends = np.minimum(some.ends, some.starts + MEASURED_BYTES)
    while ends[0] < some.ends[0] and some.buffer[ends[0]] & 0xC0 == 0x80:  # in the middle of a character
        ends[0] -= 1
    return replace(some, ends=ends)
