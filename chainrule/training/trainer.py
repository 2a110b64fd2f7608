"""The training loop: read a batch, update the weights, evaluate and store checkpoints; the same for every task."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite, log

import torch
from torch import Tensor, nn

from chainrule.data.batches import TrainingBatch
from chainrule.errors import Diverged, Stopped
from chainrule.evaluation.validation import Validate
from chainrule.kernels.waiting import considerate_waits
from chainrule.layers.clip import clip_by_global_norm
from chainrule.layers.softmax import Candidates, Sampler
from chainrule.models._neural import NeuralModel
from chainrule.models.contract import IGNORE, Batch, State
from chainrule.nest import flatten, map_arrays, put_rows, select_rows, unflatten
from chainrule.training.average import Swapped, copy_weights
from chainrule.training.callbacks import Callback
from chainrule.training.checkpoint import Checkpoint, Checkpoints
from chainrule.training.context import Position, TrainingContext
from chainrule.training.engine import advance_by
from chainrule.training.interrupt import StopRequest, stop_requests
from chainrule.training.memory import give_back_freed_memory, memory_bytes
from chainrule.training.optimizer import Optimizer
from chainrule.training.origin import OUTPUT, Origin, watched
from chainrule.training.recipe import Recipe
from chainrule.training.record import Records
from chainrule.training.worker_pool import WorkerPool, check_workers, shared, threads

SECONDS_BEFORE_AN_EVALUATION_IS_STORED = 5.0
SECONDS_BETWEEN_SAMPLES = 30.0
PROBES = 24  # over the whole budget
MIX = 1_000_003  # keeps the random numbers of neighbouring seeds apart


def probes_due(progress: float) -> int:
    """How many probes are due by then: the n-th at (n / PROBES)², as most is learned in the beginning."""
    return int(PROBES * min(progress, 1.0) ** 0.5 + 1e-9)


class Trainer:
    def __init__(
        self,
        model: NeuralModel,
        recipe: Recipe,
        context: TrainingContext,
        callback: Callback,
        checkpoints: Checkpoints | None,
    ):
        check_workers(recipe.workers)
        self.model, self.recipe, self.context = model, recipe, context
        self.callback, self.checkpoints = callback, checkpoints
        self.optimizer = Optimizer(model, recipe)
        self.schedule = recipe.rate_schedule
        self.position = Position()
        self.state: State | None = None  # of a recurrent model, between windows
        if model.carries_state:
            self.state = model.start(context.batches.batch_size)
        self.average = copy_weights(self._named()) if recipe.ema else None
        self.best: dict[str, Tensor] | None = None
        self.sampler = None
        if recipe.sampled_softmax and recipe.engine == "torch" and context.counts is not None:
            self.sampler = Sampler(torch.from_numpy(context.counts), recipe.sampled_head, recipe.sampled_tail)
        self._parameters = [each for each in model.parameters() if each.requires_grad]
        self._has_frozen = len(self._parameters) < len(list(model.parameters()))
        self._advance = context.objective or advance_by(recipe.engine, model)
        self._workers: WorkerPool | None = None
        self._row_count = 0  # of the batch that is being read
        self._asked = 0  # of its tokens
        self._examples: int | None = None  # that its loss is the mean over
        self._threads = torch.get_num_threads()
        self._records = Records()
        self._sampled_at = 0.0

    def run(self) -> NeuralModel:
        """Train until the budget is used up; the model then has the best weights that were found."""
        self.model.train()
        began = self.context.clock() - self.position.seconds
        saved_at, position = self.position.seconds, self.position
        with stop_requests() as request, self.workers_running():
            if self.position.step == 0:
                if self.context.is_trained and self.context.validate is not None:
                    self._evaluate(self.context.validate)
                self._probe()
            while not self.context.budget.is_over(self.position.step, self.position.seconds):
                self.step()
                self.position.seconds = self.context.clock() - began
                self._record()
                has_evaluated = self._evaluate_if_due()
                self._probe_if_due()
                self.position.seconds = self.context.clock() - began
                is_over = self.context.budget.is_over(self.position.step, self.position.seconds)
                is_worth = self._is_worth_storing(self.position.seconds - saved_at, has_evaluated)
                if self.checkpoints and is_worth and not (is_over and self.context.budget.seconds):
                    self.save()
                    saved_at = self.position.seconds
                self._stop_if_asked(request)
                if self.recipe.patience and position.worse >= self.recipe.patience:
                    self.callback.message(f"stopped early: the last {position.worse} evaluations found nothing better")
                    break
            self._finish()
        return self.model

    def _is_worth_storing(self, seconds: float, has_evaluated: bool) -> bool:
        limit = self.recipe.checkpoint_seconds
        return seconds > (min(limit, SECONDS_BEFORE_AN_EVALUATION_IS_STORED) if has_evaluated else limit)

    def _stop_if_asked(self, request: StopRequest) -> None:
        if request.signal is None:
            return
        if self.checkpoints:
            self.save()
        raise Stopped(f"stopped after step {self.position.step}", 128 + request.signal)

    @contextmanager
    def workers_running(self) -> Iterator[None]:
        """A context in which the worker processes that the recipe asks for run beside this one."""
        batches = self.context.batches
        others = min(self.recipe.workers, batches.batch_size) - 1
        if others < 1:
            with considerate_waits():
                yield
            return
        most = -(-batches.batch_size // (others + 1)) * batches.length
        if self.state is not None:
            self.state = unflatten(self.state, {name: shared(each) for name, each in flatten(self.state).items()})
        with threads(1):
            self._workers = WorkerPool(self.model, lambda *order: self._read(*order)[0], others, most)
            try:
                yield
            finally:
                self._workers.close()
                self._workers = None

    def step(self) -> None:
        """Read a batch and update the weights."""
        position, recipe = self.position, self.recipe
        progress = self.context.budget.progress(position.step, position.seconds)
        if self._workers:
            self._workers.begin(position.step, progress)
        nats, count = self._read(0, position.step, progress)
        if self._workers:
            nats += self._workers.wait()
        norm = clip_by_global_norm(self._parameters, recipe.clip)
        self._refuse_divergence(nats, norm)
        factor = self.schedule.factor(progress)
        self.optimizer.step(factor)
        if self.average is not None:
            decay = min(recipe.ema, (1 + position.step) / (10 + position.step))
            torch._foreach_lerp_(list(self.average.values()), [p.data for p in self._named().values()], 1 - decay)
        position.step += 1
        rate, is_clipped = self.optimizer.peak * factor, norm > recipe.clip > 0
        self._records.add(nats, self._asked, norm, is_clipped, rate, self._examples)
        self._count_epoch(nats, count)

    def _read(self, rank: int, step: int, progress: float) -> tuple[float, int]:
        """One process's part of a step: add up the gradient of its rows; returns their nats and how many tokens, or
        other examples, the batch's loss is the mean over.

        Its random numbers, as of dropout, depend on the seed, the step and the rank alone.
        """
        seed = self.recipe.seed * MIX + step
        torch.default_generator.manual_seed(seed)
        is_sampled = self.sampler is not None and progress < self.recipe.sampled_softmax
        candidates = self.sampler.draw() if self.sampler and is_sampled else None
        if rank:
            torch.default_generator.manual_seed((seed * MIX + rank) % 2**63)
        batch = self.context.batches.batch(step)
        self._row_count = len(batch.inputs)
        return self._gradient(batch, candidates, self._rows(rank))

    def _rows(self, rank: int) -> Tensor:
        """The rows of the current batch that this process reads."""
        workers = min(self.recipe.workers, self.context.batches.batch_size)
        return torch.arange(self._row_count).tensor_split(workers)[rank]

    def _gradient(
        self, batch: TrainingBatch, candidates: Candidates | None, rows: Tensor | None = None
    ) -> tuple[float, int]:
        """Accumulate the gradient of the batch's mean loss over these rows (default: all), a micro-batch at a time."""
        inputs, targets = torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets)
        condition = map_arrays(torch.from_numpy, batch.condition)
        self._asked, self._examples = int((batch.targets != IGNORE).sum()), batch.examples
        count = self._asked if batch.examples is None else batch.examples
        nats = 0.0
        rows = torch.arange(len(inputs)) if rows is None else rows
        for piece in rows.tensor_split(self.recipe.micro_batches):
            if not len(piece):
                continue
            state = None
            if self.state is not None:
                state = self.model.start(len(piece)) if batch.is_fresh else select_rows(self.state, piece)
            with torch.autocast("cpu", torch.bfloat16, enabled=self.recipe.precision == "bfloat16"):
                micro_batch = Batch(inputs[piece], targets[piece], select_rows(condition, piece))
                loss, state = self._advance(micro_batch, state, candidates)
            (loss.total / count).backward()
            nats += float(loss.total.detach())
            if self.state is not None:
                put_rows(self.state, piece, state)
        return nats, count

    def _refuse_divergence(self, nats: float, norm: float) -> None:
        """Raise Diverged if the loss or gradient is not finite; called before the update spoils the weights."""
        if isfinite(nats) and isfinite(norm):
            return
        batch = self.context.batches.batch(self.position.step)
        what = f"the loss is {nats}" if not isfinite(nats) else f"the gradient's norm is {norm}"
        where = self._find_origin().describe()
        kept = self.checkpoints.steps() if self.checkpoints else []
        last = f"the checkpoint of step {kept[-1]} is kept" if kept else "no checkpoint was stored yet"
        raise Diverged(
            f"{what} at step {self.position.step} ({self.context.describe_batch(batch)}){where}, so training stopped "
            f"before that update; {last}. Look at that text, or train anew with lower rates "
            "(learning_rate, matrix_learning_rate)"
        )

    def _find_origin(self) -> Origin:
        """The module in which this step first became infinite or NaN: reads the batch again with hooks.

        A state that was handed on has been written over by now, so the batch is read as if nothing came before it.
        """
        if self.state is not None:
            self.state = self.model.start(self.context.batches.batch_size)
        progress = self.context.budget.progress(self.position.step, self.position.seconds)
        ranks = range(min(self.recipe.workers, self.context.batches.batch_size))
        with watched(self.model) as origin:
            nats = sum(self._read(rank, self.position.step, progress)[0] for rank in ranks)
        if not isfinite(nats) and origin.value is None:
            origin.value = OUTPUT
        return origin

    def _count_epoch(self, nats: float, count: int) -> None:
        position, batches = self.position, self.context.batches
        before, after = (max(batches.epochs(step)) for step in (position.step - 1, position.step))
        position.epoch_nats += nats
        position.epoch_tokens += count
        if int(after) > int(before):
            mean = position.epoch_nats / position.epoch_tokens
            self.callback.on_event({"event": "epoch", "epoch": int(after), "step": position.step, "loss": mean})
            position.epoch_nats, position.epoch_tokens = 0.0, 0

    def _record(self) -> None:
        is_last = self.context.budget.is_over(self.position.step, self.position.seconds)
        if not is_last and not self._records.is_due(self.position.seconds, self.context.budget):
            return
        batches, position = self.context.batches, self.position
        record = self._records.averages(position.seconds)
        self._records = Records(since=position.seconds)
        per_byte = self.context.bytes_per_token
        self.callback.on_event(
            {
                "event": "step",
                "step": position.step,
                "tokens": round(position.step * batches.tokens_per_step),
                "epochs": [round(each, 4) for each in batches.epochs(position.step)],
                "progress": min(self.context.budget.progress(position.step - 1, position.seconds), 1.0),
                "seconds": round(position.seconds, 3),
                "bits_per_byte": record["loss"] / log(2) / per_byte if per_byte else None,
                "memory_bytes": memory_bytes(),
                **record,
            }
        )

    def _evaluate_if_due(self) -> bool:
        position, budget = self.position, self.context.budget
        progress = min(budget.progress(position.step - 1, position.seconds), 1.0)
        due = int(progress * self.recipe.evaluations + 1e-9)
        if budget.is_over(position.step, position.seconds):
            due = self.recipe.evaluations
        if due <= position.evaluated or self.context.validate is None:
            return False
        position.evaluated = due
        self._evaluate(self.context.validate)
        return True

    def _evaluate(self, validate: Validate) -> None:
        position = self.position
        give_back_freed_memory()
        with self._averaged(), threads(self._threads):
            found = validate(self.model)
            is_best = isfinite(found.rank) and (position.best_loss is None or found.rank < position.best_loss)
            position.worse = 0 if is_best else position.worse + 1
            if is_best:
                position.best_loss, position.best_step = found.rank, position.step
                self.best = {name: each.detach().clone() for name, each in self._named().items()}
            self.callback.on_event(
                {
                    "event": "evaluation",
                    "step": position.step,
                    "seconds": round(position.seconds, 3),
                    **found.figures,
                    "is_best": is_best,
                }
            )
            if self.context.sample is not None and self._has_time_to_sample():
                self.model.eval()
                self.callback.on_event({"event": "sample", "step": position.step, "text": self.context.sample()})
        self.model.train()

    def _probe_if_due(self) -> None:
        position, budget = self.position, self.context.budget
        is_over = budget.is_over(position.step, position.seconds)
        due = probes_due(1.0 if is_over else budget.progress(position.step - 1, position.seconds))
        if due > position.probed:
            position.probed = due
            self._probe()

    def _probe(self) -> None:
        if self.context.probe is not None:
            with self._averaged(), threads(self._threads):
                contexts = self.context.probe()
            self.callback.on_event({"event": "probe", "step": self.position.step, "contexts": contexts})

    def _has_time_to_sample(self) -> bool:
        """Whether a sample may be drawn now: at most one in half a minute."""
        seconds = self.position.seconds - self._sampled_at
        if seconds < SECONDS_BETWEEN_SAMPLES:
            return False
        self._sampled_at = self.position.seconds
        return True

    def _averaged(self) -> "Swapped":
        return Swapped(self._named(), self.average)

    def _finish(self) -> None:
        with torch.no_grad():
            chosen = self.best if self.best is not None else self.average
            for name, parameter in self._named().items() if chosen is not None else ():
                parameter.copy_(chosen[name])  # type: ignore[index]
        self.model.eval()

    @property
    def tokens_seen(self) -> int:
        return round(self.position.step * self.context.batches.tokens_per_step)

    @property
    def epochs_seen(self) -> list[float]:
        """One figure per source of the data."""
        return self.context.batches.epochs(self.position.step)

    def _named(self) -> dict[str, nn.Parameter]:
        """The parameters that learn; the others are those of the run that training began from."""
        return {name: each for name, each in self.model.named_parameters() if each.requires_grad}

    def save(self) -> None:
        assert self.checkpoints is not None
        frozen = {name for name, each in self.model.named_parameters() if not each.requires_grad}
        learned = {name: each for name, each in self.model.state_dict().items() if name not in frozen}
        tensors = {f"model/{name}": tensor for name, tensor in learned.items()}
        tensors |= {f"optimizer/{name}": tensor for name, tensor in self.optimizer.state().items()}
        tensors |= {f"average/{name}": tensor for name, tensor in (self.average or {}).items()}
        tensors |= {f"best/{name}": tensor for name, tensor in (self.best or {}).items()}
        tensors |= {f"state/{name}": tensor for name, tensor in flatten(self.state).items()}
        facts = {"step": self.position.step, "position": vars(self.position), "records": vars(self._records)}
        self.checkpoints.save(Checkpoint(tensors, facts | self.context.facts))

    def load(self, checkpoint: Checkpoint) -> None:
        """Resume from a checkpoint."""
        parts: dict[str, dict[str, Tensor]] = {}
        for name, tensor in checkpoint.tensors.items():
            part, _, rest = name.partition("/")
            parts.setdefault(part, {})[rest] = tensor
        self.model.load_state_dict(parts["model"], strict=not self._has_frozen)
        self.optimizer.load(parts.get("optimizer", {}))
        if self.average is not None:
            self.average = {name: parts["average"][name] for name in self.average}  # in the order of the parameters
        self.best = parts.get("best")
        if self.model.carries_state and "state" in parts:
            self.state = unflatten(self.state, parts["state"])
        self._records = Records(**checkpoint.facts["records"])
        self.position = Position.read(checkpoint.facts["position"])
