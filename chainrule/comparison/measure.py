"""One entrant measured: how well it predicts the common text, how large it is, how fast, and what it writes."""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from math import exp
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.arrays import load_arrays, save_arrays
from chainrule.comparison.entrants import file_name
from chainrule.data.documents import Documents
from chainrule.errors import UserError
from chainrule.evaluation.score import score
from chainrule.generation import Sampling, sample
from chainrule.progress import progress
from chainrule.runs.folder import Run

MOST_BYTES = 2_000_000  # of the common text: beyond these its documents are thinned out evenly
GENERATED = 100  # tokens, to see how fast
SAMPLE = Sampling(temperature=0.8, max_tokens=GENERATED, seed=1)


@dataclass(frozen=True)
class Measured:
    label: str
    architecture: str
    run: str
    tokenizer: str  # its fingerprint
    is_lossless: bool
    is_normalised: bool
    nats: np.ndarray  # of each document, <eos> included
    tokens: np.ndarray  # of each document, <eos> included
    parameters: int
    model_bytes: int
    seconds: float | None  # of training, start to end
    training_speed: float | None  # tokens a second
    generation_speed: float
    sample: str
    curve: list[tuple[float, float]]  # seconds of training, loss on the validation text in nats a token

    @property
    def perplexity(self) -> float:
        """Of a token of its own kind."""
        mean = float(self.nats.sum() / self.tokens.sum())
        return exp(mean) if mean < 700 else float("inf")


class CommonText:
    """The documents that everybody is measured on, thinned out where they are many."""

    def __init__(self, batches: Iterable[Documents]):
        kept = [documents for documents in batches if len(documents)]
        total = sum(int(documents.sizes.sum()) for documents in kept)
        if not total:
            raise UserError("there is no text to measure on; raise --validation-fraction, or name one with --test")
        stride = -(-total // MOST_BYTES)
        self.batches = [documents.select(np.arange(0, len(documents), stride)) for documents in kept]
        self.sizes = np.concatenate([documents.sizes for documents in self.batches])  # bytes of each document
        texts = (documents.text(i) for documents in self.batches for i in range(len(documents)))
        self.words = np.array([len(text.split()) + 1 for text in texts])  # and the end of the document

    @property
    def total_bytes(self) -> int:
        return int(self.sizes.sum())

    def __iter__(self) -> Iterator[Documents]:
        return iter(self.batches)


def measure(label: str, run: Run, text: CommonText) -> Measured:
    with progress(f"measuring {label}", text.total_bytes):
        scores = score(run.model, run.tokenizer, text)
    last: dict[str, Any] = run.metrics[-1] if run.metrics else {}
    began = time.perf_counter()
    written = sample(run.model, run.tokenizer, "", SAMPLE)[0]
    speed = len(written.ids) / max(time.perf_counter() - began, 1e-9)
    seconds = last.get("training_seconds")
    return Measured(
        label=label,
        architecture=run.architecture,
        run=str(run.path),
        tokenizer=run.tokenizer.fingerprint,
        is_lossless=run.tokenizer.is_lossless,
        is_normalised=run.model.is_normalised,
        nats=scores.nats,
        tokens=scores.tokens + 1,
        parameters=run.model.num_parameters,
        model_bytes=(run.path / "model.safetensors").stat().st_size,
        seconds=last.get("seconds"),
        training_speed=last["tokens"] / max(seconds, 1e-9) if seconds is not None and "tokens" in last else None,
        generation_speed=speed,
        sample=" ".join(written.text.split()),
        curve=_curve(run.metrics),
    )


def _curve(metrics: list[dict[str, Any]]) -> list[tuple[float, float]]:
    return [(each["seconds"], each["loss"]) for each in metrics if each["event"] == "evaluation" and each["loss"]]


def save(measured: Measured, folder: Path) -> None:
    """Beside the comparison, so that one that was interrupted does not measure again."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{file_name(measured.label)}.safetensors"
    arrays = {"nats": measured.nats.astype(np.float64), "tokens": measured.tokens.astype(np.int64)}
    facts = {name: value for name, value in asdict(measured).items() if name not in arrays}
    save_arrays(path.with_suffix(".tmp"), arrays, {"facts": json.dumps(facts)})
    path.with_suffix(".tmp").replace(path)


def load(label: str, folder: Path) -> Measured | None:
    path = folder / f"{file_name(label)}.safetensors"
    if not path.is_file():
        return None
    try:
        arrays, metadata = load_arrays(path)
        facts = json.loads(metadata["facts"])
        facts["curve"] = [tuple(point) for point in facts["curve"]]
        return Measured(nats=arrays["nats"], tokens=arrays["tokens"], **facts)
    except (UserError, KeyError, TypeError, ValueError):
        return None  # of another version: it is measured again
