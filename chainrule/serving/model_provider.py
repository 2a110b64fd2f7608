"""The models that are served. The name in a request is looked up in this table and never used as a path."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from chainrule.analysis.compare.compare import PLAN
from chainrule.api.pairs import pair_task
from chainrule.errors import UserError, did_you_mean
from chainrule.models._numpy import start, step
from chainrule.models.contract import LanguageModel
from chainrule.runs.folder import Run
from chainrule.serving.errors import APIError
from chainrule.serving.responses import JsonObject
from chainrule.tasks._pairs import PairTask
from chainrule.tasks.base import LANGUAGE, find_task
from chainrule.text.base import Tokenizer

WRONG_TASK = "wrong_task"  # an error's code


@dataclass(frozen=True)
class ServedModel:
    """One run, and the id by which requests name it."""

    id: str
    run: Run
    created: int  # seconds since 1970
    pair_task: PairTask | None = None  # for runs that write one text from another

    @property
    def model(self) -> LanguageModel:
        return self.run.model

    @property
    def tokenizer(self) -> Tokenizer:
        return self.run.tokenizer

    @property
    def hash(self) -> str:
        """A hash of the weights: models with the same hash give the same output."""
        digest: str = self.run.manifest["model.safetensors"]["sha256"]
        return digest[:16]

    @property
    def context_length(self) -> int | None:
        """The most tokens of a prompt or, for runs that write one text from another, of a source."""
        if self.pair_task:
            return self.pair_task.longest(self.model)
        return getattr(self.model, "context_length", None)

    def to_json(self) -> JsonObject:
        """OpenAI's four fields, and those that the page shows."""
        return {
            "id": self.id,
            "object": "model",
            "created": self.created,
            "owned_by": "chainrule",
            "task": LANGUAGE if self.run.is_language_model else self.run.task,
            "architecture": self.run.architecture,
            "hash": self.hash,
            "parameters": self.model.num_parameters,
            "context_length": self.context_length,
            "vocabulary_size": self.tokenizer.vocabulary_size,
            "tokenizer": self.tokenizer.kind,
            "tokenizer_hash": self.tokenizer.fingerprint[:16],
            "chat": asdict(self.tokenizer.chat) if self.tokenizer.chat else None,
        }


class ModelProvider:
    """The served models, in the given order. A request that names none gets the first one of the right kind."""

    def __init__(self, runs: Sequence[Run]):
        if not runs:
            raise UserError("there is nothing to serve; name at least one run")
        names = Counter(run.name for run in runs)
        paths = {run.path.resolve(): run for run in runs}  # the same run twice is one
        self.by_id: dict[str, ServedModel] = {}
        for run in paths.values():
            id = run.name if names[run.name] == 1 else run.path.as_posix()
            created = int((run.path / "config.json").stat().st_mtime)
            self.by_id[id] = ServedModel(id, run, created, _pair_task(run))

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self.by_id.values())

    def find(self, id: str) -> ServedModel:
        if id not in self.by_id:
            shown = id if len(id) <= 80 else f"{id[:80]}…"
            hint = did_you_mean(shown, self.by_id)
            known = ", ".join(self.by_id)
            raise APIError(404, f"there is no model '{shown}'{hint} (there are: {known})", "model_not_found", "model")
        return self.by_id[id]

    @property
    def language_models(self) -> list[ServedModel]:
        models = [each for each in self if each.pair_task is None]
        if not models:
            raise APIError(404, "no language model is served here; use /v1/translate", WRONG_TASK)
        return models

    def language_model(self, id: str | None) -> ServedModel:
        """The language model with this id, or the first one."""
        model = self.language_models[0] if id is None else self.find(id)
        if model.pair_task is not None:
            what = f"'{model.id}' is a run of the task {model.run.task}, and this is for language models"
            raise APIError(400, f"{what}; use /v1/translate", WRONG_TASK, "model")
        return model

    def tokenizer(self, id: str | None) -> tuple[Tokenizer, int | None]:
        """The tokenizer of a language model, and the most tokens that it reads (None: any number).

        A request that names none gets the tokenizer that all of them share, and a length that fits into each.
        """
        models = self.language_models if id is None else [self.language_model(id)]
        if id is None and not self._has_one_tokenizer:
            names = ", ".join(each.id for each in models)
            what = f"the runs that are served here ({names}) have different tokenizers"
            raise APIError(400, f"{what}; name one of them as 'model', or serve it alone", "model_required", "model")
        return models[0].tokenizer, min((each.context_length for each in models if each.context_length), default=None)

    @cached_property
    def _has_one_tokenizer(self) -> bool:
        """Whether all language models cut text alike."""
        models = self.language_models
        return len(models) == 1 or len({each.tokenizer.fingerprint for each in models}) == 1

    def translator(self, id: str | None) -> tuple[ServedModel, PairTask]:
        """The run with this id, or the first one, that writes one text from another, and its task."""
        model = next((each for each in self if each.pair_task), None) if id is None else self.find(id)
        if model is None:
            what = "no run of the task translation or summarisation is served here"
            raise APIError(404, f"{what}; use /v1/completions", WRONG_TASK)
        if model.pair_task is None:
            what = f"'{model.id}' is a language model, and this is for runs that write one text from another"
            raise APIError(400, f"{what}; use /v1/completions", WRONG_TASK, "model")
        return model, model.pair_task

    def load(self) -> None:
        """Load every model now, so that the first request does not wait and a damaged run is an error at the start."""
        for served in self:
            served.model, served.tokenizer.token_bytes  # noqa: B018

    def warm_up(self) -> None:
        """Run one token through each model, so that kernels are compiled before the first request."""
        for served in self:
            task = served.pair_task
            condition = task.condition([np.zeros(0, np.int64)]) if task else None
            step(served.model, np.array([[served.tokenizer.eos]]), start(served.model, 1, condition))

    @property
    def parent_folders(self) -> list[Path]:
        """The folders that contain the runs, in which trainings under way are looked for, too."""
        return list(dict.fromkeys(served.run.path.resolve().parent for served in self))


def find_runs(paths: Sequence[str]) -> tuple[list[Run], tuple[Path, ...]]:
    """The runs among some folders, including those inside comparisons, and the folders that are comparisons."""
    runs, comparisons = [], []
    for path in map(Path, paths):
        if (path / PLAN).is_file():
            comparisons.append(path)
            inside = sorted(each.parent for each in path.glob("*/config.json"))
            runs += [Run(each, task=None) for each in inside if not each.name.startswith(".")]
        else:
            runs.append(Run(path, task=None))
    return runs, tuple(comparisons)


def _pair_task(run: Run) -> PairTask | None:
    task = pair_task(run)
    if task is None and not run.is_language_model:
        command = find_task(run.task).command
        raise UserError(f"'{run.path}' is a run of the task {run.task}, which is not served; use chainrule {command}")
    return task
