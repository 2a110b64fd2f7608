"""Measures one model of a comparison: how well it predicts the common text, its size, its speed and a sample."""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from math import exp
from pathlib import Path

import numpy as np

from chainrule.analysis.compare.entrants import Entrant, file_name
from chainrule.data.documents import Documents
from chainrule.data.split import content_hashes
from chainrule.errors import UserError
from chainrule.evaluation.score import NATS_PER_BIT, score
from chainrule.generation import Sampling, sample
from chainrule.kernels.waiting import considerate_waits
from chainrule.progress import progress
from chainrule.runs.folder import Run
from chainrule.runs.records import Event, TrainedEvent
from chainrule.storage import load_arrays, save_arrays

MOST_BYTES = 2_000_000  # of a longer text, documents from all over it are measured up to so many bytes
GENERATED = 100  # tokens, to measure the speed of generation
MOST_SAMPLES = 20
SAMPLE = Sampling(temperature=0.8, max_tokens=GENERATED, seed=1)


@dataclass(frozen=True)
class ModelScores:
    """What was measured of one model on the common text."""

    label: str
    architecture: str
    run: str
    tokenizer: str  # its fingerprint
    is_lossless: bool  # whether its tokens spell every document
    is_normalised: bool
    nats: np.ndarray  # of each document, <eos> included
    tokens: np.ndarray  # of each document, <eos> included
    parameters: int
    model_bytes: int
    seconds: float | None  # of training, start to end
    training_speed: float | None  # tokens a second
    generation_speed: float
    sample: str
    seen: int = 0  # how many documents of the common text it was trained on
    # On the run's own validation text: (seconds of training, bits per byte, bits per token) at each evaluation
    curve: tuple[tuple[float, float, float], ...] = ()
    training_tokens: int | None = None  # read in training, those that were read again included

    @property
    def perplexity(self) -> float:
        """Per token of its own tokenizer."""
        mean = float(self.nats.sum() / self.tokens.sum())
        return exp(mean) if mean < 700 else float("inf")


class CommonText:
    """The documents on which every model is measured; of a long text, every n-th document."""

    def __init__(self, batches: Iterable[Documents]):
        kept = [documents for documents in batches if len(documents)]
        total = sum(int(documents.sizes.sum()) for documents in kept)
        if not total:
            raise UserError(
                "there is no text to measure on: none was kept aside; set a validation fraction, such as 0.1, or "
                "name a test text"
            )
        stride, number = -(-total // MOST_BYTES), 0
        self.batches: list[Documents] = []
        for documents in kept:
            self.batches.append(documents.select(np.arange(-number % stride, len(documents), stride)))
            number += len(documents)
        self.batches = [documents for documents in self.batches if len(documents)]
        self.sizes = np.concatenate([documents.sizes for documents in self.batches])  # bytes of each document
        self.is_thinned = stride > 1
        texts = (documents.text(i) for documents in self.batches for i in range(len(documents)))
        self.words = np.array([len(text.split()) + 1 for text in texts])  # plus one for the end of the document
        self.hashes = np.concatenate([content_hashes(documents) for documents in self.batches])

    @property
    def total_bytes(self) -> int:
        return int(self.sizes.sum())

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.hashes.tobytes()).hexdigest()

    def __iter__(self) -> Iterator[Documents]:
        return iter(self.batches)


def measure(label: str, run: Run, text: CommonText) -> ModelScores:
    """Score the common text with a run's model and draw a sample from it."""
    model = run.model  # may bring in torch
    with considerate_waits(), progress(f"measuring {label}", text.total_bytes):
        scores = score(model, run.tokenizer, text)
    last = run.trained
    written, speed = _write(run)
    seconds, tokens = (last.get("training_seconds"), last.get("tokens")) if last else (None, None)
    counted = run.counted_documents()
    return ModelScores(
        label=label,
        architecture=run.architecture,
        run=str(run.path),
        tokenizer=run.tokenizer.fingerprint,
        is_lossless=not scores.changed.any(),
        is_normalised=run.model.is_normalised,
        nats=scores.nats,
        tokens=scores.tokens + 1,
        parameters=run.model.num_parameters,
        model_bytes=sum(entry["bytes"] for name, entry in run.manifest.items() if name.startswith("model.")),
        seconds=last.get("seconds") if last else None,
        training_speed=tokens / max(seconds, 1e-9) if seconds is not None and tokens is not None else None,
        generation_speed=speed,
        sample=written,
        seen=0 if counted is None else int(np.isin(text.hashes, np.array(counted, np.uint64)).sum()),
        curve=_curve(run.metrics, last),
        training_tokens=tokens,
    )


def _write(run: Run) -> tuple[str, float]:
    """A sample, and the speed in tokens per second, measured after a first text over at least GENERATED tokens."""
    first = sample(run.model, run.tokenizer, "", SAMPLE)[0]
    count, began = 0, time.perf_counter()
    for seed in range(MOST_SAMPLES):
        count += len(sample(run.model, run.tokenizer, "", replace(SAMPLE, seed=seed))[0].ids)
        if count >= GENERATED:
            break
    return " ".join(first.text.split()), count / max(time.perf_counter() - began, 1e-9)


def _curve(metrics: list[Event], trained: TrainedEvent | None) -> tuple[tuple[float, float, float], ...]:
    """The learning curve from a run's metrics; a model that counts has one point, its end."""
    last = trained["validation"] if trained else None
    if not trained or not last or last["loss"] is None or "seconds" not in trained:
        return ()
    end, per_byte = trained["seconds"], last["tokens"] / max(last["bytes"], 1)
    learning = [(each["seconds"], each["loss"]) for each in metrics if each["event"] == "evaluation"]
    known = [(at, loss) for at, loss in learning if loss is not None]
    late = max(end - trained.get("evaluation_seconds", 0.0) - known[-1][0], 0.0) if known else 0.0
    points = [(at + late, loss) for at, loss in known[:-1]] + [(end, last["loss"])]
    return tuple((at, loss * per_byte / NATS_PER_BIT, loss / NATS_PER_BIT) for at, loss in points)


def save(measured: ModelScores, entrant: Entrant, text: CommonText, folder: Path) -> None:
    """Keep what was measured in the comparison's folder, so that a comparison taken up again need not repeat it."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{file_name(measured.label)}.safetensors"
    arrays = {"nats": measured.nats.astype(np.float64), "tokens": measured.tokens.astype(np.int64)}
    facts = {name: value for name, value in asdict(measured).items() if name not in arrays}
    fingerprint = {"entrant": entrant.fingerprint, "text": text.fingerprint}
    save_arrays(path.with_suffix(".tmp"), arrays, {"facts": json.dumps(facts), "fingerprint": json.dumps(fingerprint)})
    path.with_suffix(".tmp").replace(path)


def load(entrant: Entrant, text: CommonText, folder: Path) -> ModelScores | None:
    """What was measured before, if it was of the same entrant on the same text; else None."""
    path = folder / f"{file_name(entrant.label)}.safetensors"
    if not path.is_file():
        return None
    try:
        arrays, metadata = load_arrays(path)
        if json.loads(metadata["fingerprint"]) != {"entrant": entrant.fingerprint, "text": text.fingerprint}:
            return None
        facts = json.loads(metadata["facts"])
        facts["curve"] = tuple(tuple(point) for point in facts["curve"])
        return ModelScores(nats=arrays["nats"], tokens=arrays["tokens"], **facts)
    except (UserError, KeyError, TypeError, ValueError):
        return None  # written by another version: measure again
