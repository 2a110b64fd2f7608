"""`--minutes` and nothing else: the best predictor of a text that the time allows, made of everything that pays.

Contexts that vote, an n-gram of words and a network of bytes learn from the training text; the weights that mix them are
learned from a part of it that none of them has seen; counting, which then also reads that part, goes first to the run
if it is better alone. The validation text chooses nothing, so what is reported on it is what other text would get.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree

import numpy as np

from chainrule.data.shards import TokenShards
from chainrule.data.texts import Texts
from chainrule.evaluation.figures import NATS_PER_BIT, EnsembleEvaluation, EnsemblePart
from chainrule.evaluation.stream import figures_of
from chainrule.models import contextmixing, wordgram
from chainrule.models._bits import score_bits
from chainrule.models.contract import LanguageModel, architecture_of
from chainrule.models.ensemble import Config, Model
from chainrule.progress import say
from chainrule.runs.folder import Run
from chainrule.runs.making import check_free, free_name, new_run
from chainrule.runs.records import TrainingFigures
from chainrule.runs.write import RunContents, write_run
from chainrule.tasks.base import LANGUAGE, Material, NoSettings, Prepared
from chainrule.tasks.language import Task
from chainrule.text.choice import Tokenization
from chainrule.training.request import Request, default_name

ARCHITECTURE = "ensemble"
CHOOSING_PART = 0.1  # of the training text is kept from the parts, to learn how to mix them
MOST_CHOOSING_BYTES = 200_000
FEWEST_DOCUMENTS = 8  # below, and of fewer bytes, there is no text to spare for choosing
FEWEST_BYTES = 2_000
CONTEXTS_PART = 0.4  # of the time, at the most, goes to reading for the contexts
EVALUATED_PART = 0.1  # and to measuring at the end
SPEED_BYTES = 60_000  # read to find out how fast reading is
NETWORK_BYTES = 30_000  # of less text, a network learns nothing that counting does not know
NETWORK_SECONDS = 100.0  # of less time, starting it takes too much
WORTH_KEEPING = 0.002  # of the bits, that a network must save to stay
WRITING_SECONDS = 1.5
PASSES = 3  # through the text that the weights are learned from
TrainPart = Callable[[Request], Run]


def is_open(request: Request) -> bool:
    """Whether a time is all that was asked for, so that everything may be tried."""
    return (
        request.task == LANGUAGE
        and set(request.settings) == {"minutes"}
        and request.model is None
        and request.size is None
        and request.config is None
        and request.tokenization == Tokenization()
        and not request.one
        and not request.tensorboard
        and not any("=" in each for each in request.inputs)
    )


@dataclass
class Clock:
    """What is left of a budget in seconds."""

    total: float
    started_at: float

    @property
    def left(self) -> float:
        return self.total - (time.time() - self.started_at)


@dataclass
class Text:
    """The training text as streams eos d1 eos ... eos: what the parts learn from, and what their weights do."""

    learning: np.ndarray
    choosing: np.ndarray  # empty where there is too little text
    documents: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))  # the same as strings

    @property
    def whole(self) -> np.ndarray:
        return np.concatenate([self.learning, self.choosing[1:]])


def train_ensemble(request: Request, train_part: TrainPart) -> Run:
    """Train within the minutes, and return the run, whole on disk. `train_part` trains one model by itself."""
    clock = Clock(float(request.settings["minutes"]) * 60, request.started_at)
    path = request.path or free_name(default_name(request.inputs[0]))
    check_free(path, request.overwrite)
    tokenization = Tokenization(tokenizer="bytes")
    material = Material(request.inputs, request.validation, request.reading, request.splitting, tokenization)
    source = Task.open_data(material, NoSettings())
    with new_run(path, request.overwrite) as folder:
        prepared = Task.prepare(material, NoSettings(), source, folder)
        task = Task(folder)
        parts_folder = folder / "trying"
        parts_folder.mkdir()
        try:
            model, counting = _make(request, task, parts_folder, clock, train_part)
            validation = measure(model, TokenShards(folder / "tokens", "validation"), clock.total * EVALUATED_PART)
        finally:
            rmtree(parts_folder, ignore_errors=True)
        if validation is not None:
            validation["counting"] = counting
            say(_summarise(validation))
        write_run(folder, _contents(request, path, model, task, prepared, validation))
    return Run(path)


def _make(
    request: Request, task: Task, folder: Path, clock: Clock, train_part: TrainPart
) -> tuple[Model, float | None]:
    """The ensemble, and the bits per byte of counting alone on the text that the weights were learned from."""
    text = split(task)
    size = len(text.learning)
    say(f"{size:,} bytes to learn from, {max(len(text.choosing) - 1, 0):,} to choose by; {clock.left:.0f} s left")
    with ThreadPoolExecutor(1) as pool:
        words = pool.submit(lambda: wordgram.Model(wordgram.SIZES["medium"], 257, 256).fit([text.learning]))
        contexts = read_contexts(text.learning, clock)
        parts: list[LanguageModel] = [contexts, words.result()]
    names = ["contexts", "words"]
    counting = None
    if len(text.choosing):
        counting = _count(request, text, folder, train_part)
    network = _train_network(request, text, folder, clock, train_part)
    if network is not None:
        parts, names = [*parts, network], [*names, "network"]
    model = Model(Config(), parts, names)
    if len(text.choosing):
        model = choose(model, text.choosing)
        contexts.read_more(text.choosing)
        model.parts = tuple(
            wordgram.Model(part.config, 257, 256).fit([text.whole]) if isinstance(part, wordgram.Model) else part
            for part in model.parts
        )
    return model, counting


def split(task: Task) -> Text:
    """The training text of a task, with documents from all over it kept for choosing where there are enough."""
    shards = TokenShards(task.folder / "tokens", "train")
    streams = [np.asarray(shards.tokens(shard)) for shard in range(len(shards))]
    whole = np.concatenate([streams[0], *(stream[1:] for stream in streams[1:])])
    ends = np.flatnonzero(whole == task.tokenizer.eos)
    wanted = min(CHOOSING_PART * len(whole), MOST_CHOOSING_BYTES)
    if len(ends) - 1 < FEWEST_DOCUMENTS or len(whole) < FEWEST_BYTES:
        say("too little text to keep some for choosing: all parts have equal weights")
        return Text(whole, whole[:0])
    order = np.random.default_rng(0).permutation(len(ends) - 1)
    sizes = np.diff(ends)[order]
    count = max(int(np.searchsorted(np.cumsum(sizes), wanted)), 1)
    chosen = np.zeros(len(order), bool)
    chosen[order[:count]] = True
    documents = [whole[first + 1 : last + 1] for first, last in zip(ends[:-1], ends[1:], strict=True)]
    start = whole[:1]
    parts = [[each for each, is_in in zip(documents, chosen == keep, strict=True) if is_in] for keep in (False, True)]
    texts = [[task.tokenizer.decode(each[:-1]) for each in part] for part in parts]
    return Text(np.concatenate([start, *parts[0]]), np.concatenate([start, *parts[1]]), (texts[0], texts[1]))


def read_contexts(stream: np.ndarray, clock: Clock) -> contextmixing.Model:
    """As much of the text, and as often, as a share of the time allows."""
    sample = np.append(stream[: min(len(stream), SPEED_BYTES)], stream[0])
    contextmixing.Model(contextmixing.Config(passes=1), 257, 256).fit([sample[:2000]])  # compiles
    began = time.perf_counter()
    contextmixing.Model(contextmixing.Config(passes=1), 257, 256).fit([sample])
    speed = len(sample) / (time.perf_counter() - began)
    affordable = speed * clock.left * CONTEXTS_PART
    passes = int(min(max(affordable // len(stream), 1), contextmixing.MOST_PASSES))
    most = 0 if affordable >= len(stream) else int(affordable)
    config = contextmixing.Config(passes=passes, most_bytes=most, dynamic=True)
    say(f"contexts: {speed / 1000:,.0f} kB/s; {f'the last {most:,} bytes' if most else f'{passes} times'}")
    return contextmixing.Model(config, 257, 256).fit([stream])


def _count(request: Request, text: Text, folder: Path, train_part: TrainPart) -> float | None:
    """Bits per byte of the n-gram that is made without a budget, on the text for choosing."""
    learning, choosing = (Texts(each) for each in text.documents)
    part = Request(inputs=(learning.name,), validation=(choosing.name,), path=folder / "counting")
    trained = train_part(part).trained
    measured = trained["validation"] if trained else None
    return None if measured is None else measured["bits_per_byte"]


def _train_network(
    request: Request, text: Text, folder: Path, clock: Clock, train_part: TrainPart
) -> LanguageModel | None:
    """A network of bytes, trained for what is left of the time when measuring and writing are taken off."""
    seconds = clock.left - WRITING_SECONDS - clock.total * (EVALUATED_PART + 0.02)
    if len(text.learning) < NETWORK_BYTES or seconds < NETWORK_SECONDS or not len(text.choosing):
        return None
    say(f"network: {seconds:.0f} s")
    learning, choosing = (Texts(each) for each in text.documents)
    part = replace(
        request,
        inputs=(learning.name,),
        validation=(choosing.name,),
        model="lstm",
        tokenization=Tokenization(tokenizer="bytes"),
        settings={"minutes": seconds / 60},
        path=folder / "network",
        started_at=time.time(),
    )
    return train_part(part).model


def choose(model: Model, stream: np.ndarray) -> Model:
    """The ensemble with weights learned from this stream, without a network that saves too little."""
    found = model.ask(stream)
    fitted = model.fit(found, stream, PASSES)
    for i, name in enumerate(model.names):
        without = _without(model, found, stream, i)
        saved = 1 - _bits(fitted, found, stream) / without
        say(f"{name}: alone {_bits_alone(found[i], stream, model.eos):.3f} bits per byte, saves {saved:.1%} of the mix")
        if name == "network" and saved < WORTH_KEEPING:
            say("the network is left out")
            return choose(Model(model.config, model.parts[:i], model.names[:i]), stream)
    return fitted


def _bits(model: Model, found: np.ndarray, stream: np.ndarray) -> float:
    """Bits per symbol of a stream with weights learned from its first half and then on the way."""
    half = len(stream) // 2
    halved = Model(model.config, model.parts, model.names).fit(found[:, : half - 1], stream[:half], PASSES)
    scores = halved.score_found(found[:, half - 1 :], stream[half - 1 :])
    return float(-scores.astype(np.float64).mean()) / NATS_PER_BIT


def _without(model: Model, found: np.ndarray, stream: np.ndarray, index: int) -> float:
    kept = [i for i in range(len(model.parts)) if i != index]
    rest = Model(model.config, [model.parts[i] for i in kept], [model.names[i] for i in kept])
    return _bits(rest, found[kept], stream)


def _bits_alone(bits: np.ndarray, stream: np.ndarray, eos: int) -> float:
    return float(-score_bits(bits, stream, eos).astype(np.float64).mean()) / NATS_PER_BIT


def measure(model: Model, shards: TokenShards, seconds: float) -> EnsembleEvaluation | None:
    """The figures of an ensemble and of each of its parts on held-out text, or on as much of it as the time allows."""
    if not shards.part.documents:
        return None
    stream = np.asarray(shards.tokens(0))
    began = time.perf_counter()
    sample = stream[: min(len(stream), SPEED_BYTES)]
    found = model.ask(sample)
    affordable = int(len(sample) * seconds / (time.perf_counter() - began))
    if len(stream) > len(sample):
        stream = stream[: max(affordable, len(sample))]
        found = model.ask(stream)
    share = (len(stream) - 1) / shards.part.tokens
    whole = figures_of(model.score_found(found, stream), shards, share)
    parts: list[EnsemblePart] = []
    for name, part, bits in zip(model.names, model.parts, found, strict=True):
        alone = figures_of(score_bits(bits, stream, model.eos), shards, share)
        parts.append({"name": name, "architecture": architecture_of(part), "bits_per_byte": alone["bits_per_byte"]})
    return {**whole, "parts": parts}


def _summarise(validation: EnsembleEvaluation) -> str:
    parts = ", ".join(f"{part['name']} {part['bits_per_byte']:.3f}" for part in validation["parts"])
    return f"bits per byte of text that chose nothing: {validation['bits_per_byte']:.3f}; alone: {parts}"


def _contents(
    request: Request, path: Path, model: Model, task: Task, prepared: Prepared, validation: EnsembleEvaluation | None
) -> RunContents:
    metrics: TrainingFigures = {
        "seconds": round(time.time() - request.started_at, 3),
        "tokens": prepared.data["text"]["train"]["tokens"],
        "validation": validation,
    }
    return RunContents(
        path.name,
        ARCHITECTURE,
        model,
        task.tokenizer,
        prepared.data,
        prepared.notes,
        metrics,
        request.started_at,
        uses=task.usages(path.name),
    )
