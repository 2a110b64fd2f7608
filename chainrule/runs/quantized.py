"""A run's model with its matrices in eight bits, and what that costs: bits per byte of text it has not learned from."""

from dataclasses import dataclass, replace

import numpy as np

from chainrule.checks import require_choice
from chainrule.data.corpus import Corpus
from chainrule.data.documents import Documents
from chainrule.errors import UserError
from chainrule.evaluation.score import Scores, score
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
    """The loaded model is rounded in place; nothing is written."""
    require_choice("quantize", kind, KINDS)
    model = run.model
    if not learns(model):
        raise UserError(f"'{run.path}' is a model of kind {run.architecture}, which has no weights to quantize")
    text, documents = _text(run)
    before = _bits_per_byte(run, documents)
    share: float = model.round_to_int8()  # type: ignore[attr-defined]
    return Cost(share, text, int(documents.sizes.sum()), before, _bits_per_byte(run, documents))


def _bits_per_byte(run: Run, documents: Documents) -> float:
    found: Scores = score(run.model, run.tokenizer, [documents])
    bits: float = found.summary()["bits_per_byte"]
    return bits


def _text(run: Run) -> tuple[str, Documents]:
    """A little of what training kept aside; of a model that was imported, nothing is known but that it reads text."""
    if (run.path / "tokens").is_dir():
        for documents in KeptAside(run).batches():
            return "the text kept aside", _some(documents)
    return "Python's documentation", _some(next(Corpus([ELSEWHERE]).batches()))


def _some(documents: Documents) -> Documents:
    """The first whole documents of about so many bytes, or as much of the first one."""
    count = max(int(np.searchsorted(documents.sizes.cumsum(), MEASURED_BYTES)), 1)
    some = documents.select(np.arange(len(documents)) < count)
    ends = np.minimum(some.ends, some.starts + MEASURED_BYTES)
    while ends[0] < some.ends[0] and some.buffer[ends[0]] & 0xC0 == 0x80:  # in the middle of a character
        ends[0] -= 1
    return replace(some, ends=ends)
