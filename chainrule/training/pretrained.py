"""A run in `runs/` that knows much already, such as an imported one: what it predicts of a text as it is."""

from collections.abc import Sequence
from pathlib import Path

from chainrule.data.pairs import as_documents
from chainrule.errors import UserError
from chainrule.evaluation.figures import NATS_PER_BIT
from chainrule.evaluation.score import stream_of
from chainrule.kernels.waiting import considerate_waits
from chainrule.runs.folder import HOME, Run
from chainrule.runs.records import CONFIG

WEIGHTS, LARGE = "model.safetensors", 40_000_000  # bytes of weights, from which on a run has learned more than a text
ASKED_BYTES = 4_000


def find_pretrained() -> Run | None:
    """The largest imported Transformer in runs/; None where there is none."""
    found = [path.parent for path in sorted(HOME.glob(f"*/{CONFIG}")) if _is_large(path.parent)]
    for path in sorted(found, key=_size, reverse=True):
        try:
            run = Run(path)
        except UserError:
            continue
        if run.architecture == "transformer" and "text" not in run.config["data"]:
            return run
    return None


def _size(path: Path) -> int:
    return (path / WEIGHTS).stat().st_size


def _is_large(path: Path) -> bool:
    return (path / WEIGHTS).is_file() and _size(path) > LARGE


def bits_per_byte(run: Run, documents: Sequence[str]) -> float:
    """Of the first documents, a few kB together, as the run is."""
    kept, total = [], 0
    for document in documents:
        kept.append(document)
        total += len(document.encode()) + 1
        if total > ASKED_BYTES:
            break
    with considerate_waits():
        scores = run.model.score(stream_of(run.tokenizer, as_documents(kept, "text")))
    return -float(scores.astype(float).sum()) / NATS_PER_BIT / total
