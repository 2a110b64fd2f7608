"""A run that goes on learning, as a part of an ensemble of bytes: `--from RUN --minutes M`.

Whether all its weights learn or low-rank updates (LoRA) is found by two short trials on the text itself.
"""

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any, cast

from chainrule.data.shards import TokenShards
from chainrule.data.texts import Texts
from chainrule.errors import Diverged
from chainrule.evaluation.figures import Evaluation, loss_figures
from chainrule.evaluation.score import stream_of
from chainrule.kernels.waiting import considerate_waits
from chainrule.models import tokennetwork, transformer
from chainrule.models._bits import predict_bits
from chainrule.progress import quiet, say
from chainrule.runs.adapter import ADAPTER
from chainrule.runs.folder import Run
from chainrule.runs.records import TrainedEvent, TrainingConfig, TrainingFigures
from chainrule.text.base import Tokenizer
from chainrule.training.ensemble_parts import Text, TrainPart
from chainrule.training.recipe import BEGINS_FROM_RUN
from chainrule.training.request import Request
from chainrule.training.start import open_start
from chainrule.training.worker_pool import threads

FEWEST_BYTES = 2_000
WRITING_PER_PARAMETER = 2e-8  # seconds
FIRST_BYTES, TIMED_BYTES = 30, 300  # that are predicted before, and to find out how long one takes
TRIALS_PART = 0.12  # of the time for the network goes to each trial
SHORTEST_TRIAL = 60.0  # seconds; in less, opening and measuring leave no time to learn, and LoRA is taken without one
WAYS: Mapping[str, dict[str, Any]] = {"LoRA": {"lora": True}, "all weights": {"lora": False}}


def one_thread() -> AbstractContextManager[object]:
    """A context for asking a network of tokens: its steps of a few tokens are too small to be shared by threads, which
    took five times as long beside other programs."""
    return threads(1)


@dataclass(frozen=True)
class StartPart:
    """The run that training begins from, and what it predicts of bytes as it is."""

    run: Run
    seconds_per_byte: float
    before: Evaluation | None  # of the text for validation, by tokens

    @property
    def writing_seconds(self) -> float:
        """To write and to hash its weights."""
        return 2 * self.run.model.num_parameters * WRITING_PER_PARAMETER

    def affordable(self, seconds: float) -> int:
        """How many bytes it predicts in so many seconds, at least a few."""
        return max(int(seconds / self.seconds_per_byte), FEWEST_BYTES)


@dataclass(frozen=True)
class Tuned:
    """The run that was gone on with, and what is told of that."""

    run: Run
    start: StartPart
    trained: TrainedEvent

    @property
    def part(self) -> tokennetwork.Model:
        return tokennetwork.Model(cast(transformer.Model, self.run.model), self.run.tokenizer)

    @property
    def figures(self) -> TrainingFigures:
        trained = self.trained
        names = ("steps", "best_step", "tokens_per_second", "epochs", "training_seconds", "neutral")
        found = {name: trained[name] for name in names if name in trained}  # type: ignore[literal-required]
        return cast(TrainingFigures, {**found, "before": self.start.before})

    @property
    def training(self) -> TrainingConfig:
        """How it learned."""
        found = {name: value for name, value in self.run.config["training"].items() if name != "counting"}
        return cast(TrainingConfig, found)

    def copy_reports(self, folder: Path) -> None:
        """What it said before and after, the curves of its training, and its adapter, if it has one."""
        copytree(self.run.path / "report", folder / "report", dirs_exist_ok=True)
        if (self.run.path / ADAPTER).is_file():
            copyfile(self.run.path / ADAPTER, folder / ADAPTER)


def joins_bytes(name: Path) -> bool:
    """Whether the run can be a part of an ensemble of bytes."""
    run = open_start(name)
    return tokennetwork.can_be_seen_by_bytes(run.model, run.tokenizer)


def open_part(name: Path, text: Text, held_out: TokenShards, of_bytes: Tokenizer) -> StartPart:
    """The run, timed on a little text and measured on what is held out."""
    run = open_start(name)
    model = tokennetwork.Model(cast(transformer.Model, run.model), run.tokenizer)
    with considerate_waits(), one_thread():
        predict_bits(model, text.learning[:FIRST_BYTES])  # kernels are compiled
        began = time.perf_counter()
        predict_bits(model, text.learning[: TIMED_BYTES + 1])
        seconds = (time.perf_counter() - began) / TIMED_BYTES
    with considerate_waits():
        before = _measure(run, held_out, of_bytes)
    if before is not None:
        say(f"{run.name} as it is: {before['bits_per_byte']:.3f} bits per byte of the text for validation")
    return StartPart(run, seconds, before)


def _measure(run: Run, held_out: TokenShards, of_bytes: Tokenizer) -> Evaluation | None:
    """By the tokens of the run."""
    part = held_out.part
    if not part.documents:
        return None
    nats, tokens = 0.0, 0
    for documents in held_out.documents(of_bytes):
        stream = stream_of(run.tokenizer, documents)
        nats, tokens = nats - float(run.model.score(stream).astype(float).sum()), tokens + len(stream) - 1
    figures = loss_figures(nats / tokens, part.text_bytes / tokens)
    return {
        "loss": figures["loss"],
        "perplexity": figures["perplexity"],
        "bits_per_byte": figures["bits_per_byte"],
        "impossible_tokens": 0,
        "tokens": tokens,
        "documents": part.documents,
        "bytes": part.text_bytes,
    }


def tune(request: Request, start: StartPart, text: Text, folder: Path, seconds: float, train_part: TrainPart) -> Tuned:
    """The run gone on with for so many seconds, in the way that did better in a short trial."""
    began, way = time.time(), WAYS["LoRA"]
    learning, choosing = Texts(text.learning_documents), Texts(text.choosing_documents)
    part = replace(request, inputs=(learning.name,), validation=(choosing.name,), one=True)
    is_open = not any(name in request.settings for name in BEGINS_FROM_RUN)
    if is_open and TRIALS_PART * seconds >= SHORTEST_TRIAL:
        way = _choose_way(part, folder, TRIALS_PART * seconds, train_part)
    left = max(seconds - (time.time() - began), 1.0)
    run = train_part(_within(part, folder / "tuned", left, way if is_open else {}))
    assert run.trained is not None
    return Tuned(run, start, run.trained)


def _choose_way(part: Request, folder: Path, seconds: float, train_part: TrainPart) -> dict[str, Any]:
    found = {}
    for name, settings in WAYS.items():
        try:
            with quiet():
                trained = train_part(_within(part, folder / name, seconds, settings)).trained
        except Diverged:
            continue
        validation = trained["validation"] if trained else None
        if validation is not None and validation["loss"] is not None:
            found[name] = validation["loss"]
    figures = ", ".join(f"{name} {loss:.3f}" for name, loss in found.items())
    say(f"tried for {seconds:.0f} s each, nats per token: {figures}")
    return WAYS[min(found, key=found.__getitem__)] if found else WAYS["LoRA"]


def _within(part: Request, path: Path, seconds: float, settings: dict[str, Any]) -> Request:
    """The training of the network in so many seconds from now on."""
    settings = {**part.settings, **settings, "minutes": seconds / 60}
    return replace(part, settings=settings, path=path, overwrite=False, started_at=time.time())
