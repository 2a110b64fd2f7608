"""`--minutes` and nothing else: the best predictor of a text that the time allows, made of everything that pays.

Contexts that vote, an n-gram of words and, where text and time suffice, networks of words and of bytes learn from most
of the training text. The rest of it, which none of them has seen, chooses: the weights that mix them are learned from
it, networks that save too little are left out, and counting alone takes the place of all where it is better. The
validation text chooses nothing, so what is reported on it is what other text of that kind would get.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

import numpy as np

from chainrule.config import override
from chainrule.data.shards import TokenShards
from chainrule.data.texts import Texts
from chainrule.evaluation.figures import NATS_PER_BIT, EnsembleEvaluation, EnsemblePart, Evaluation
from chainrule.evaluation.stream import figures_of
from chainrule.kernels.jit import compiling_seconds
from chainrule.kernels.waiting import considerate_waits
from chainrule.models import contextmixing, wordgram
from chainrule.models._bits import predict_bits, score_bits
from chainrule.models.contract import LanguageModel, architecture_of
from chainrule.models.ensemble import Config, Model
from chainrule.progress import say, size
from chainrule.runs.folder import TOKENS_FOLDER, Run
from chainrule.runs.making import check_free, free_name, new_run
from chainrule.runs.records import TrainingFigures
from chainrule.runs.write import RunContents, write_run
from chainrule.tasks.base import LANGUAGE, Material, NoSettings, Prepared
from chainrule.tasks.language import Task
from chainrule.text.choice import Tokenization
from chainrule.training.ensemble_parts import (
    BYTE_NETWORK,
    BYTES,
    FROM_RUN,
    LEAST_SECONDS,
    NETWORKS,
    SECOND_NETWORK_SECONDS,
    WORDS,
    Text,
    TrainPart,
    compile_kernels,
    count_words,
    is_worth_a_network,
    learn,
    measure_reading,
    part_of,
    split,
    train_byte_network,
)
from chainrule.training.pretrained import bits_per_byte, find_pretrained
from chainrule.training.recipe import BEGINS_FROM_RUN, Recipe
from chainrule.training.request import Request, default_name

if TYPE_CHECKING:
    from chainrule.training.tuned_part import Tuned

ARCHITECTURE = "ensemble"
EVALUATED_PART = 0.12  # of the time, at the most, goes to measuring at the end
FEWEST_MEASURED = 100_000  # bytes, or all there are
FEWEST_SLOWLY_MEASURED = 2_000  # the same where a pretrained network is one of the parts
ASKING_PART = 0.12  # of the time goes to what that predicts of the text for choosing, and as much to measuring it
HINT_SECONDS = 60.0  # of a budget, from which on a pretrained run at hand is looked at
WORTH_TELLING = 1.1  # times the bits of the ensemble, that such a run may need as it is
BESIDE_START_PART = 0.2  # of the time goes to the parts that learn from nothing, where there is a run to begin from
LOGIT_SECONDS = 2e-8  # that a network takes to predict one word of its vocabulary
BYTE_NETWORK_SPEED = 30_000.0  # bytes a second, that a network of them predicts
CHOOSING_READS = 3.0  # how often the text for choosing is read, or its like in work, after learning
COUNTED_BYTES = 4e6  # a second, by the n-gram
COUNTING_PART = 0.25  # of the time, at the most, goes to it
WORTH_COUNTING_AGAIN = 0.02  # of the text: of less, words are not counted again with what was kept for choosing
COMPARING_PART, COMPARING_SECONDS = 0.1, 3.0  # and to counting once more, to see if it is better on that text
COMPILING_SECONDS = 2.0  # that are worth a word
WORTH_KEEPING = 0.002  # of the bits, that a network must save to stay
WRITING_SECONDS = 2.0  # of one core
LEAST_SHARE = 0.2  # of one core that this process is assumed to get, on however busy a machine
UNUSED_PART = 0.2  # of the time: where more is left, it says why
PASSES = 3  # through the text that the weights are learned from


def is_open(request: Request) -> bool:
    """Whether a time, and perhaps a seed, is all that was asked for, so that everything may be tried."""
    return (
        request.task == LANGUAGE
        and "minutes" in request.settings
        and request.settings.keys() <= {"minutes", "seed", *(BEGINS_FROM_RUN if request.start else ())}
        and request.model is None
        and request.size is None
        and request.config is None
        and request.tokenization == Tokenization()
        and not request.one
        and not request.tensorboard
        and not any("=" in each for each in request.inputs)
        and (request.start is None or _joins_bytes(request.start))
    )


def _joins_bytes(start: Path) -> bool:
    from chainrule.training.tuned_part import joins_bytes  # brings in torch

    return joins_bytes(start)


def _recipe(request: Request) -> Recipe:
    """The minutes and the seed."""
    return override(Recipe(), request.settings, "the settings of training")


def working_seconds(since: float) -> float:
    """The seconds since a time, but for those in which kernels were compiled, as the same work takes less again."""
    return time.time() - since - compiling_seconds(since)


@dataclass(frozen=True)
class Clock:
    """A budget in seconds that began at some time."""

    total: float
    started_at: float

    @property
    def left(self) -> float:
        return self.total - (time.time() - self.started_at)

    @property
    def writing(self) -> float:
        """Seconds to keep for writing the run: more where other programs have taken our time so far."""
        share = time.process_time() / max(time.time() - self.started_at, 1e-3)  # of one core
        return WRITING_SECONDS / min(max(share, LEAST_SHARE), 1.0)


@dataclass(frozen=True)
class Chosen:
    """An ensemble, the share of its bits that it would need more without each part, and the seconds it takes to ask it
    for a byte."""

    model: Model
    saved: dict[str, float] = field(default_factory=dict)
    cost: float | None = None
    tuned: "Tuned | None" = None  # of a training that began from a run


def train_ensemble(request: Request, train_part: TrainPart) -> Run:
    """Train within the minutes, and return the run, whole on disk. `train_part` trains one model by itself."""
    recipe = _recipe(request)
    assert recipe.minutes is not None
    clock = Clock(recipe.minutes * 60, request.started_at)
    path = request.path or free_name(default_name(request.inputs[0]))
    check_free(path, request.overwrite)
    material = Material(request.inputs, request.validation, request.reading, request.splitting, BYTES)
    source = Task.open_data(material, NoSettings())
    try:
        with part_of("an ensemble"), new_run(path, request.overwrite) as folder:
            prepared = Task.prepare(material, NoSettings(), source, folder)
            _fill(request, path, folder, prepared, clock, train_part)
    except TooLittleText:
        return train_part(replace(request, one=True, path=path))
    except CountingIsBetter:
        say("counting alone is better than all that was tried")
        return train_part(replace(request, settings={}, start=None, path=path))
    return Run(path)


class TooLittleText(Exception):
    """Nothing of the text can be kept for choosing what the run that training begins from is worth."""


class CountingIsBetter(Exception):
    """Nothing that was tried predicts the text for choosing better than the n-gram that is made without a budget."""


def _fill(request: Request, path: Path, folder: Path, prepared: Prepared, clock: Clock, train_part: TrainPart) -> None:
    """Train, measure, and fill the run folder, which has its tokens already."""
    task, trying = Task(folder), folder / "trying"
    trying.mkdir()
    try:
        compile_kernels()
        if (compiling := compiling_seconds(clock.started_at)) > COMPILING_SECONDS:
            say(f"kernels were compiled, this first time only: {compiling:.0f} s, {clock.left:.0f} s left")
        affordable = prepared.data["text"]["train"]["bytes"] < COUNTED_BYTES * COUNTING_PART * clock.total
        began = time.time()
        counted = _count(request, trying, train_part) if affordable else None
        again = working_seconds(began)
        is_compared = counted is not None and again < max(COMPARING_PART * clock.total, COMPARING_SECONDS)
        before = Clock(clock.total - (again if is_compared else 0.0), clock.started_at)
        held_out = prepared.data["text"]["validation"]["bytes"]
        chosen = make(request, task, trying, before, train_part, held_out, is_compared)
        counting = None if counted is None else counted["bits_per_byte"]
        validation = measure(chosen, TokenShards(folder / TOKENS_FOLDER, "validation"), clock, counting)
        if chosen.tuned is not None:
            chosen.tuned.copy_reports(folder)
    finally:
        rmtree(trying, ignore_errors=True)
    if clock.left > UNUSED_PART * clock.total:
        say(f"{clock.left:.0f} of {clock.total:.0f} s are left: more reading would not help a text of this size")
    write_run(folder, _contents(request, path, chosen, task, prepared, validation))


def make(
    request: Request,
    task: Task,
    folder: Path,
    clock: Clock,
    train_part: TrainPart,
    held_out: int,
    is_compared: bool,
) -> Chosen:
    """The ensemble, in time to measure it on the bytes held out; CountingIsBetter where it is compared and worse."""
    text = split(task)
    say(f"{size(len(text.learning))} to learn from, {size(len(text.choosing))} to choose by; {clock.left:.0f} s left")
    start = None
    if request.start is not None:
        if not len(text.choosing):
            raise TooLittleText
        from chainrule.training.tuned_part import open_part

        start = open_part(request.start, text, TokenShards(task.folder / TOKENS_FOLDER, "validation"), task.tokenizer)
        text = replace(text, choosing=from_all_over(text.choosing, start.affordable(ASKING_PART * clock.total)))
    words, speed = count_words(text.learning), measure_reading(text.learning)
    learning = clock.left * (1.0 if start is None else BESIDE_START_PART)
    has_network = is_worth_a_network(text, words, learning)
    after = predict_rest(text, words if has_network else None, speed, held_out, clock) + clock.writing
    seconds = max(clock.left - after if start is None else learning, LEAST_SECONDS)
    parts = learn(text, words, speed, seconds, has_network, _recipe(request).seed)
    if not len(text.choosing):
        return Chosen(_ensemble(parts))
    tuned = None
    if start is not None:
        from chainrule.training.tuned_part import tune

        measured = min(held_out, start.affordable(ASKING_PART * clock.total))
        asking = start.seconds_per_byte * (len(text.choosing) + measured) + start.writing_seconds
        tuned = tune(request, start, text, folder, clock.left - after - asking, train_part)
        parts[FROM_RUN] = tuned.part
    asking = (len(text.choosing) + min(held_out, FEWEST_MEASURED)) / BYTE_NETWORK_SPEED
    network = None if start else train_byte_network(request, text, folder, clock.left - after - asking, train_part)
    if network is not None:
        parts[BYTE_NETWORK] = network
    model = _ensemble(parts)
    began = time.time()
    found = ask_parts(model, text.choosing, contextmixing.Model.read_more)
    cost = working_seconds(began) / len(text.choosing)
    chosen, found = choose(model, found, text.choosing)
    if is_compared and _is_beaten(chosen.model, found, request, text, folder, train_part):
        raise CountingIsBetter
    if start is None and clock.total >= HINT_SECONDS:
        _tell_of_pretrained(text, cross_fitted_bits(chosen.model, found, text.choosing) / len(text.choosing))
    parts = dict(zip(chosen.model.names, chosen.model.parts, strict=True))
    if len(text.choosing) > WORTH_COUNTING_AGAIN * len(text.learning):
        parts[WORDS] = count_words(text.whole)
    last = Model(Config(), list(parts.values()), list(parts), chosen.model.weights, chosen.model.learned_from)
    return replace(chosen, model=last, cost=cost, tuned=tuned)


def _tell_of_pretrained(text: Text, bits: float) -> None:
    """Say what beginning from a run at hand would likely gain, where it predicts the text well as it is."""
    run = find_pretrained()
    if run is None:
        return
    as_it_is = bits_per_byte(run, text.choosing_documents)
    if as_it_is < WORTH_TELLING * bits:
        gain = f", {1 - as_it_is / bits:.0%} fewer than this ensemble" if as_it_is < bits else ""
        say(f"{run.path} as it is has {as_it_is:.3f} bits per byte of such text{gain}: begin with --from {run.path}")


def ask_parts(
    model: Model, stream: np.ndarray, ask_contexts: Callable[[contextmixing.Model, np.ndarray], np.ndarray]
) -> np.ndarray:
    """What the parts predict of a stream, as `Model.ask` gives it, but that contexts need no copy of their counts."""
    with considerate_waits(), _asking_threads(model.parts):
        asked = [
            ask_contexts(part, stream) if isinstance(part, contextmixing.Model) else predict_bits(part, stream)
            for part in model.parts
        ]
    return np.stack(asked)


def _asking_threads(parts: Sequence[LanguageModel]) -> AbstractContextManager[object]:
    if not any(architecture_of(part) == "tokennetwork" for part in parts):
        return nullcontext()
    from chainrule.training.tuned_part import one_thread

    return one_thread()


def predict_rest(text: Text, words: wordgram.Model | None, speed: float, held_out: int, clock: Clock) -> float:
    """The seconds that choosing and measuring will take after learning; with `words`, by networks of them, too."""
    if not len(text.choosing):
        return 0.0
    logits = words.num_ids * len(words.encode(text.choosing)) / len(text.choosing) if words else 0.0  # a byte
    networks = 2 if clock.left > SECOND_NETWORK_SECONDS else 1
    each = 1 / speed + networks * LOGIT_SECONDS * logits
    choosing = len(text.choosing) * (CHOOSING_READS / speed + each)
    return choosing + max(min(held_out * each, EVALUATED_PART * clock.total), min(held_out, FEWEST_MEASURED) * each)


def _ensemble(parts: dict[str, LanguageModel]) -> Model:
    return Model(Config(), list(parts.values()), list(parts))


def _count(request: Request, folder: Path, train_part: TrainPart) -> Evaluation | None:
    """The figures of the n-gram that is made without a budget, of the same text."""
    part = replace(request, settings={}, start=None, path=folder / "counting", overwrite=True)
    trained = train_part(part).trained
    return None if trained is None else trained["validation"]


def _is_beaten(
    model: Model, found: np.ndarray, request: Request, text: Text, folder: Path, train_part: TrainPart
) -> bool:
    """Whether the n-gram that is made without a budget predicts the text for choosing better."""
    learning, choosing = Texts(text.learning_documents), Texts(text.choosing_documents)
    part = Request((learning.name,), validation=(choosing.name,), path=folder / "counted")
    trained = train_part(part).trained
    measured = trained["validation"] if trained else None
    if measured is None or measured["loss"] is None:
        return False
    bits = measured["loss"] * measured["tokens"] / NATS_PER_BIT
    return bits < cross_fitted_bits(model, found, text.choosing)


def choose(model: Model, found: np.ndarray, stream: np.ndarray) -> tuple[Chosen, np.ndarray]:
    """The ensemble with weights learned from a stream that its parts have predicted, without networks that save too
    little; and what the parts that stay have found."""
    bits, saved = cross_fitted_bits(model, found, stream), {}
    for i, name in enumerate(model.names):
        rest, of_rest = _without(model, found, i)
        saved[name] = cross_fitted_bits(rest, of_rest, stream) / bits - 1
        alone = float(-score_bits(found[i], stream, model.eos).astype(np.float64).sum()) / NATS_PER_BIT
        say(f"{name}: {alone / len(stream):.3f} bits per byte alone; without it the mix needs {saved[name]:.1%} more")
    for i, name in enumerate(model.names):
        if name in NETWORKS and saved[name] < WORTH_KEEPING:
            say(f"the {name} saves too little and is left out")
            return choose(*_without(model, found, i), stream)
    return Chosen(model.fit(found, stream, PASSES), saved), found


def _without(model: Model, found: np.ndarray, part: int) -> tuple[Model, np.ndarray]:
    """The ensemble without one of its parts, and what the others have found."""
    kept = [i for i in range(len(model.parts)) if i != part]
    return Model(model.config, [model.parts[i] for i in kept], [model.names[i] for i in kept]), found[kept]


def cross_fitted_bits(model: Model, found: np.ndarray, stream: np.ndarray) -> float:
    """Bits of a stream: each half with weights that were learned from the other half."""
    half, total = len(stream) // 2, 0.0
    halves = (slice(0, half), slice(half, len(stream) - 1))
    for mine, other in (halves, halves[::-1]):
        fitted = model.fit(found[:, other], stream[other.start : other.stop + 1], PASSES)
        scores = fitted.score_found(found[:, mine], stream[mine.start : mine.stop + 1])
        total -= float(scores.astype(np.float64).sum()) / NATS_PER_BIT
    return total


def from_all_over(stream: np.ndarray, most: int) -> np.ndarray:
    """The stream itself, or of a longer one whole documents from all over it, about `most` tokens together."""
    if len(stream) <= most:
        return stream
    documents = [stream[first + 1 : last + 1] for first, last in pairwise(np.flatnonzero(stream == stream[0]))]
    count = max(round(len(documents) * most / len(stream)), 1)
    chosen = np.linspace(0, len(documents) - 1, count).astype(np.int64)
    return np.concatenate([stream[:1], *(documents[i] for i in chosen)])[: 2 * most]


def measure(chosen: Chosen, shards: TokenShards, clock: Clock, counting: float | None) -> EnsembleEvaluation | None:
    """The figures of an ensemble and of each of its parts on held-out text, or on as much of it as the time allows."""
    if not shards.part.documents:
        return None
    model, whole = chosen.model, shards.tokens(0)
    seconds = max(clock.left - clock.writing, clock.total * 0.02)
    affordable = int(seconds / chosen.cost) if chosen.cost else len(whole)
    stream = from_all_over(whole, max(affordable, FEWEST_MEASURED if chosen.tuned is None else FEWEST_SLOWLY_MEASURED))
    found = ask_parts(model, stream, partial(contextmixing.Model.bit_probabilities, spoils_counts=True))
    share = (len(stream) - 1) / shards.part.tokens
    parts: list[EnsemblePart] = []
    for name, part, bits in zip(model.names, model.parts, found, strict=True):
        alone = figures_of(score_bits(bits, stream, model.eos), shards, share)["bits_per_byte"]
        saves = chosen.saved.get(name, 0.0)
        parts.append({"name": name, "architecture": architecture_of(part), "bits_per_byte": alone, "saves": saves})
    figures = figures_of(model.score_found(found, stream), shards, share)
    return {**figures, "parts": parts, "counting": counting}


def _contents(
    request: Request, path: Path, chosen: Chosen, task: Task, prepared: Prepared, validation: EnsembleEvaluation | None
) -> RunContents:
    metrics: TrainingFigures = {
        "seconds": round(time.time() - request.started_at, 3),
        "tokens": prepared.data["text"]["train"]["tokens"],
        "validation": validation,
    }
    if chosen.tuned is not None:
        metrics |= chosen.tuned.figures
    return RunContents(
        path.name,
        ARCHITECTURE,
        chosen.model,
        task.tokenizer,
        prepared.data,
        prepared.notes,
        metrics,
        request.started_at,
        training=None if chosen.tuned is None else chosen.tuned.training,
        uses=task.usages(path.name),
    )
