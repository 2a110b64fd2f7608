"""`--from RUN --minutes M`: the run goes on learning the text, and what counting knows is mixed in where that pays.

Part of the training text is kept for choosing: by it, the network keeps its best weights, and an n-gram of the same
tokens and a cache get their share. The validation text chooses nothing; what the run was before is measured on it, too.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copyfile, rmtree

import numpy as np

from chainrule.data.shards import TokenShards
from chainrule.data.texts import Texts
from chainrule.evaluation.figures import Evaluation, MixEvaluation, MixPart
from chainrule.evaluation.stream import figures_of
from chainrule.kernels.waiting import considerate_waits
from chainrule.models import cache, ngram
from chainrule.models._mix_weights import fit_weights
from chainrule.models.contract import LanguageModel, architecture_of
from chainrule.models.mix import Config, Model
from chainrule.progress import say
from chainrule.runs.adapter import ADAPTER
from chainrule.runs.folder import TOKENS_FOLDER, Run
from chainrule.runs.making import check_free, free_name, new_run
from chainrule.runs.records import TrainingFigures
from chainrule.runs.write import RunContents, write_run
from chainrule.tasks.base import LANGUAGE, NoSettings, Prepared
from chainrule.tasks.language import Task
from chainrule.training.ensemble_parts import Text, TrainPart, part_of, split
from chainrule.training.request import Request, default_name
from chainrule.training.resolve import material, resolve

NETWORK, COUNTED, CACHE = "network", "n-gram", "cache"
DECAYS = (0.98, 0.99, 0.995, 0.998)  # of the caches that are tried
WORTH_KEEPING = 0.002  # of the bits, that counting must save to stay
WRITING_SECONDS, WRITING_PER_PARAMETER = 2.0, 2e-8


def is_within_minutes(request: Request) -> bool:
    """Whether a run is to go on learning from a text within minutes, and is free to be mixed."""
    is_text = request.task == LANGUAGE and not any("=" in each for each in request.inputs)
    return request.start is not None and is_text and "minutes" in request.settings and not request.one


class TooSmall(Exception):
    """The text is too small for a part of it to be kept for choosing."""


@dataclass(frozen=True)
class Scored:
    """Models of the same tokens, by name, and their log-probabilities of the tokens of a stream (models, tokens)."""

    parts: dict[str, LanguageModel]
    log_p: np.ndarray

    def select(self, *names: str) -> "Scored":
        rows = [list(self.parts).index(name) for name in names]
        return Scored({name: self.parts[name] for name in names}, self.log_p[rows])

    @property
    def cross_fitted_nats(self) -> float:
        """Of each half of the stream, by weights that were fitted to the other half."""
        half = self.log_p.shape[1] // 2
        halves = (self.log_p[:, :half], self.log_p[:, half:])
        return -sum(float(_mix(mine, fit_weights(other)).sum()) for mine, other in (halves, halves[::-1]))


def finetune(request: Request, train_part: TrainPart) -> Run:
    """Train within the minutes, and return the run, whole on disk. `train_part` trains the network."""
    path = request.path or free_name(default_name(request.inputs[0]), request.overwrite)
    check_free(path, request.overwrite)
    resolved = resolve(request)
    assert resolved.start is not None and resolved.recipe is not None and resolved.recipe.minutes is not None
    given, ends_at = material(request, resolved), request.started_at + 60 * resolved.recipe.minutes
    source = Task.open_data(given, NoSettings())
    try:
        with part_of("a training that mixes"), new_run(path, request.overwrite) as folder:
            prepared = Task.prepare(given, NoSettings(), source, folder)
            _fill(request, path, folder, prepared, resolved.start, ends_at, train_part)
    except TooSmall:
        return train_part(replace(request, one=True, path=path))
    return Run(path)


def _fill(
    request: Request, path: Path, folder: Path, prepared: Prepared, start: Run, ends_at: float, train_part: TrainPart
) -> None:
    task, trying = Task(folder), folder / "trying"
    text, held_out = split(task), TokenShards(folder / TOKENS_FOLDER, "validation")
    if not len(text.choosing):
        raise TooSmall
    before, seconds_per_token = _measure_before(start, held_out)
    scoring = (2 * len(text.choosing) + held_out.part.tokens) * seconds_per_token
    writing = WRITING_SECONDS + 2 * start.model.num_parameters * WRITING_PER_PARAMETER
    try:
        network = _learn(request, text, trying, ends_at - time.time() - scoring - writing, train_part)
        chosen = _mix_in_counts(network.model, text)
        if (network.path / ADAPTER).is_file():
            copyfile(network.path / ADAPTER, folder / ADAPTER)
        write_run(folder, _contents(request, path, task, prepared, network, chosen, before, held_out))
    finally:
        rmtree(trying, ignore_errors=True)


def _measure_before(start: Run, held_out: TokenShards) -> tuple[Evaluation | None, float]:
    """The figures of the run as it is on the validation text, and the seconds it takes for a token."""
    if not held_out.part.documents:
        return None, 0.0
    began = time.perf_counter()
    with considerate_waits():
        scores = start.model.score(held_out.tokens(0))
    seconds = (time.perf_counter() - began) / len(scores)
    found = figures_of(scores, held_out, 1.0)
    say(f"{start.name} as it is: {_bits(found)} of the text for validation")
    return found, seconds


def _bits(found: Evaluation) -> str:
    if found["bits_per_byte"] is None:
        return f"perplexity {found['perplexity']:.1f}"
    return f"{found['bits_per_byte']:.3f} bits per byte"


def _learn(request: Request, text: Text, folder: Path, seconds: float, train_part: TrainPart) -> Run:
    """The run gone on with, whose best weights are chosen by the text for choosing."""
    learning, choosing = Texts(text.learning_documents), Texts(text.choosing_documents)
    return train_part(
        replace(
            request,
            inputs=(learning.name,),
            validation=(choosing.name,),
            settings={**request.settings, "minutes": max(seconds, 1.0) / 60},
            one=True,
            path=folder,
            overwrite=False,
            started_at=time.time(),
        )
    )


def _mix_in_counts(network: LanguageModel, text: Text) -> LanguageModel:
    """The network with an n-gram and a cache of the same tokens, as far as they save bits of the text for choosing."""
    with considerate_waits():
        parts: dict[str, LanguageModel] = {NETWORK: network, COUNTED: _count(network, text.learning)}
        log_p = np.stack([part.score(text.choosing) for part in parts.values()])
    parts[CACHE], of_cache = max(_caches(network, text), key=lambda found: _likelihood(log_p, found[1]))
    scored = Scored(parts, np.vstack([log_p, of_cache]))
    alone = -float(scored.log_p[0].sum())
    kept = [NETWORK]
    for name in (COUNTED, CACHE):
        best = scored.select(*kept).cross_fitted_nats if len(kept) > 1 else alone
        share = best / scored.select(*kept, name).cross_fitted_nats - 1
        say(f"{name}: without it the mix needs {share:.1%} more")
        if share > WORTH_KEEPING:
            kept.append(name)
    if len(kept) == 1:
        return network
    return _weigh(scored.select(*kept), text)


def _weigh(scored: Scored, text: Text) -> LanguageModel:
    """Weights by the text for choosing, which the n-gram counts afterwards, too."""
    parts = dict(scored.parts)
    if COUNTED in parts:
        parts[COUNTED] = _count(parts[NETWORK], text.whole)
    return Model(Config(), list(parts.values()), list(parts), fit_weights(scored.log_p)[None])


def _count(network: LanguageModel, stream: np.ndarray) -> LanguageModel:
    return ngram.Model(ngram.SIZES[ngram.DEFAULT_SIZE], network.vocabulary_size, network.eos).fit([stream])


def _caches(network: LanguageModel, text: Text) -> Iterator[tuple[LanguageModel, np.ndarray]]:
    """Caches that fade at different rates, and their scores of the text for choosing."""
    counts = np.bincount(text.learning, minlength=network.vocabulary_size) + 1e-3
    for decay in DECAYS:
        part = cache.Model(cache.Config(decay), network.vocabulary_size, network.eos, counts / counts.sum())
        yield part, part.score(text.choosing)


def _likelihood(log_p: np.ndarray, more: np.ndarray) -> float:
    together = np.vstack([log_p, more])
    return float(_mix(together, fit_weights(together)).sum())


def _mix(log_p: np.ndarray, weights: Sequence[float] | np.ndarray) -> np.ndarray:
    mixed: np.ndarray = np.logaddexp.reduce(log_p.astype(np.float64) + np.log(weights)[:, None])
    return mixed


def _measure(chosen: LanguageModel, held_out: TokenShards) -> Evaluation | MixEvaluation | None:
    """The figures of what was chosen, and of a mix those of each part."""
    if not held_out.part.documents:
        return None
    stream, model = held_out.tokens(0), chosen
    with considerate_waits():
        if not isinstance(model, Model):
            return figures_of(model.score(stream), held_out, 1.0)
        log_p = np.stack([part.score(stream) for part in model.parts])
    weights = model.weights[0]
    parts: list[MixPart] = [
        {
            "name": name,
            "architecture": architecture_of(part),
            "weight": float(weight),
            **figures_of(each, held_out, 1.0),
        }
        for name, part, weight, each in zip(model.names, model.parts, weights, log_p, strict=True)
    ]
    return {**figures_of(_mix(log_p, weights), held_out, 1.0), "parts": parts, "against": None}


def _contents(
    request: Request,
    path: Path,
    task: Task,
    prepared: Prepared,
    network: Run,
    chosen: LanguageModel,
    before: Evaluation | None,
    held_out: TokenShards,
) -> RunContents:
    """The run: the network's training, and the figures of all of it."""
    validation, learned = _measure(chosen, held_out), network.trained
    assert learned is not None
    metrics: TrainingFigures = {
        **{name: value for name, value in learned.items() if name not in ("event", "parameters")},  # type: ignore[typeddict-item]
        "seconds": round(time.time() - request.started_at, 3),
        "tokens": prepared.data["text"]["train"]["tokens"],
        "validation": validation,
        "before": before,
    }
    return RunContents(
        path.name,
        architecture_of(chosen),
        chosen,
        task.tokenizer,
        prepared.data,
        prepared.notes,
        metrics,
        request.started_at,
        training=network.config.get("training"),
        uses=task.usages(path.name),
    )
