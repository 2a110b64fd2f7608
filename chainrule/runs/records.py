"""The records that a run keeps in JSON: its configuration (config.json) and what happened in training (metrics.jsonl).

Both are read and written here alone. Runs of older versions open: a key that was added later may be missing, and an
event that had another name is given today's.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NotRequired, TypedDict, cast

from chainrule.errors import UserError
from chainrule.evaluation.figures import CountingFigures, Evaluation

CONFIG, METRICS = "config.json", "metrics.jsonl"


class PartConfig(TypedDict):
    """One part of the data: what is trained on, or what is held out."""

    documents: int
    tokens: int
    bytes: int
    hash: str  # sha256 of the text


class SourceConfig(TypedDict):
    """One source of a mixture: how much of it there is, its share, and how often it was read."""

    name: str
    bytes: int
    weight: float
    epochs: float


class DataConfig(TypedDict):
    """Where the data came from. A task adds its own settings: how text is read and split, the columns of pairs."""

    inputs: list[str]
    validation: NotRequired[list[str]]
    unit: NotRequired[str]  # what a document is: a line, a block, a file, a pair, a sentence
    field: NotRequired[str]  # of JSON lines
    delimiter: NotRequired[str]  # of CSV
    encoding: NotRequired[str]
    splits: NotRequired[list[dict[str, object]]]
    text: NotRequired[dict[str, PartConfig]]  # by name: train, validation
    mixture: NotRequired[list[SourceConfig]]
    merged: NotRequired[list[str]]  # the runs that were added up
    mixed: NotRequired[list[str]]  # the runs that are mixed by weights
    fitted_on: NotRequired[list[str]]  # the texts that these weights were fitted on
    forgotten: NotRequired[list[str]]  # the texts that were subtracted


class TokenizerConfig(TypedDict):
    kind: str
    vocabulary_size: int
    is_closed: bool  # whether what is not in the vocabulary becomes <unk>
    hash: str  # the fingerprint of tokenizer.json
    start: NotRequired[int | None]  # the id that texts begin with, where it is not the one that ends them
    end: NotRequired[str]  # the token that ends texts, where it is not <eos>
    chat: NotRequired[dict[str, object]]  # how conversations are written


class TrainingConfig(TypedDict):
    """How a model that learns by gradient was trained: the settings, and the reasons for those that were chosen."""

    recipe: dict[str, object]
    why: list[str]
    counting: NotRequired[CountingFigures | None]
    start: NotRequired[str]  # the run that training began from


class RunConfig(TypedDict):
    """config.json: the complete settings of a run."""

    chainrule: str  # the version that wrote it
    task: NotRequired[str]  # where it is not language
    architecture: str
    model: dict[str, object]  # the settings of the architecture
    tokenizer: TokenizerConfig
    data: DataConfig
    training: NotRequired[TrainingConfig]
    started_at: str
    notes: list[str]


class BeginEvent(TypedDict):
    event: Literal["begin"]
    architecture: str
    parameters: int
    vocabulary_size: int
    total_steps: int | None
    budget_seconds: float | None
    resumed_at_step: int
    chosen: list[str]  # what was chosen for the budget, and why


class StepEvent(TypedDict):
    """Averages over the steps since the last such event."""

    event: Literal["step"]
    step: int
    tokens: int
    epochs: list[float]  # of each source of the text
    progress: float  # of the budget, from 0 to 1
    seconds: float
    loss: float | None
    bits_per_byte: float | None
    learning_rate: float
    gradient_norm: float | None  # the largest
    clipped: float  # the share of updates that were clipped
    tokens_per_second: int
    memory_bytes: int  # the most that the process has held


class EpochEvent(TypedDict):
    event: Literal["epoch"]
    epoch: int
    step: int
    loss: float | None  # the mean over the epoch that has just ended


class EvaluationEvent(TypedDict):
    """The validation loss at a step; a task adds its own figures by name, such as "BLEU"."""

    event: Literal["evaluation"]
    step: int
    seconds: float
    loss: float | None
    perplexity: float | None
    bits_per_byte: float | None
    is_best: bool


class SampleEvent(TypedDict):
    event: Literal["sample"]
    step: int
    text: str


class ProbedContext(TypedDict):
    """What the model expected after a piece of text, and the token that came."""

    context: str
    token: str
    probability: float
    top: list[list[str | float]]  # the likeliest tokens, each with its probability


class ProbeEvent(TypedDict):
    event: Literal["probe"]
    step: int
    contexts: list[ProbedContext]


class NeutralFigures(TypedDict):
    """Bits per byte of a text that training had nothing to do with, before and after: what was forgotten."""

    text: str
    before: float
    after: float


class TrainingFigures(TypedDict):
    """What training took and what came of it. A model that only counts has no steps, an import has seen no text."""

    validation: Evaluation | None
    before: NotRequired[Evaluation | None]  # of the run that training began from, on the same text
    neutral: NotRequired[NeutralFigures]
    test: NotRequired[Evaluation | None]  # of a mix: on another text than its weights were fitted on
    seconds: NotRequired[float]
    reading_seconds: NotRequired[float]
    training_seconds: NotRequired[float]
    evaluation_seconds: NotRequired[float]
    steps: NotRequired[int]
    best_step: NotRequired[int | None]
    tokens: NotRequired[int]
    tokens_per_second: NotRequired[int]
    epochs: NotRequired[list[float]]


class TrainedEvent(TrainingFigures):
    """The event that every finished run ends with."""

    event: Literal["trained"]
    parameters: int


Event = BeginEvent | StepEvent | EpochEvent | EvaluationEvent | SampleEvent | ProbeEvent | TrainedEvent


def damaged(path: Path) -> UserError:
    """The error for a file of a run that cannot be read as what it should be."""
    return UserError(f"'{path}' is damaged; train the run again")


def read_config(folder: Path) -> RunConfig:
    """The configuration of a run, or a UserError where the file is damaged."""
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        is_whole = (
            isinstance(config["architecture"], str)
            and isinstance(config["model"], dict)
            and isinstance(config["tokenizer"]["hash"], str)
            and _are_texts(config["data"]["inputs"])
            and _are_texts(config.get("notes", []))
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        is_whole = False
    if not is_whole:
        raise damaged(path)
    return cast(RunConfig, config)


def _are_texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(each, str) for each in values)


def write_config(folder: Path, config: RunConfig) -> None:
    (folder / CONFIG).write_text(json.dumps(config, indent=1), encoding="utf-8")


def read_events(folder: Path) -> Iterator[Event]:
    """Everything that training wrote down, in its order; nothing where there is no file."""
    path = folder / METRICS
    if not path.exists():
        return
    try:
        for line in path.read_bytes().splitlines():
            yield parse_event(line)
    except (ValueError, KeyError, TypeError):
        raise damaged(path) from None


def parse_event(line: bytes) -> Event:
    """One line of metrics.jsonl as it is written today, or a ValueError where it is not a whole event.

    Before version 0.2 a probe was called a glimpse, and its top tokens were called faces.
    """
    event = json.loads(line)
    if not isinstance(event, dict) or "event" not in event:
        raise ValueError("a line of metrics.jsonl must be a JSON object with an event")
    if event["event"] == "glimpse":
        contexts = [{"top" if name == "faces" else name: each[name] for name in each} for each in event["contexts"]]
        event |= {"event": "probe", "contexts": contexts}
    return cast(Event, event)


def append_event(folder: Path, event: Event) -> None:
    with open(folder / METRICS, "a", encoding="utf-8") as file:
        file.write(json.dumps(event) + "\n")
