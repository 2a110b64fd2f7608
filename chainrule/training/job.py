"""A training by gradient as it is written to training.json before it starts: all that resuming needs."""

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule import registry
from chainrule.config import override
from chainrule.errors import UserError
from chainrule.evaluation.figures import CountingFigures
from chainrule.runs.folder import RESUMABLE, InputFacts, hash_file
from chainrule.runs.making import sync
from chainrule.runs.records import DataConfig
from chainrule.tasks.base import FOLDER, LANGUAGE, Task, find_task
from chainrule.tasks.language import SOURCES, Sources
from chainrule.training.adapt import choose_weights
from chainrule.training.engine import check_engine
from chainrule.training.recipe import Recipe
from chainrule.training.start import Start, begin_from

if TYPE_CHECKING:
    from chainrule.models._neural import NeuralModel

SOURCES_PATH = f"{FOLDER}/{SOURCES}"
UNREAD = ".documents.safetensors"  # beside the tokens: where they come from, which training does not ask


@dataclass(frozen=True)
class Job:
    architecture: str
    model: dict[str, Any]  # settings of the architecture
    recipe: dict[str, Any]
    data: DataConfig  # as config.json of the run will have it
    notes: list[str]
    started_at: float
    overwrite: bool  # whether the run replaces an older one of its name
    files: list[InputFacts]  # what was read
    tokens: dict[str, str]  # the hash of each file that training reads: tokenizer, index and token shards
    why: list[str]  # what was chosen for the user, and for what reason
    counting: CountingFigures | None = None  # of a budget: what it has to beat
    budget_seconds: float | None = None  # of minutes, what is left for the loop
    task: str = LANGUAGE
    start: dict[str, str] | None = None  # the run that training begins from, see Start

    def write(self, folder: Path) -> None:
        new = folder / f"{RESUMABLE}.tmp"
        new.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
        sync(new)
        new.replace(folder / RESUMABLE)

    @classmethod
    def read(cls, folder: Path) -> "Job":
        path = folder / RESUMABLE
        try:
            values = _modern(json.loads(path.read_text(encoding="utf-8")), folder)
            return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"'{path}' is missing or damaged ({error}); train again with --overwrite") from None

    def build(self) -> tuple[Any, Any, Recipe]:
        """The architecture's module, its configuration, and the recipe."""
        module = registry.find("chainrule.models", self.architecture, "model")
        config = override(next(iter(module.SIZES.values())), self.model, RESUMABLE)
        return module, config, override(Recipe(), self.recipe, RESUMABLE)

    def build_model(self, task: Task) -> "NeuralModel":
        """The model before the first step of training."""
        module, config, recipe = self.build()
        if self.start is None:
            return task.build(module, config, recipe.seed)
        return choose_weights(begin_from(Start(**self.start).open(), config, task.tokenizer), recipe)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Everything that the weights depend on, stored in every checkpoint. The engine is left out: torch and the tape
        give the same gradients."""
        names = ("architecture", "model", "recipe", "tokens", *(("start",) if self.start else ()))
        fingerprint: dict[str, Any] = json.loads(json.dumps({name: getattr(self, name) for name in names}))
        fingerprint["recipe"].pop("engine", None)
        return fingerprint

    def on_engine(self, engine: str) -> "Job":
        """The same job with another engine."""
        _, config, _ = self.build()
        check_engine(engine, self.architecture, config)
        changed = replace(self, recipe=self.recipe | {"engine": engine})
        find_task(self.task).check_recipe(changed.build()[2])
        return changed

    def check_belongs(self, fingerprint: dict[str, Any]) -> None:
        """Refuse a checkpoint that was made with other settings, naming the first one that differs."""
        mine = self.fingerprint
        for name, value in mine.items():
            theirs = fingerprint.get(name)
            if name == "tokens" and isinstance(theirs, dict) and SOURCES_PATH not in theirs:
                value = {path: digest for path, digest in value.items() if path != SOURCES_PATH}  # of version 0.1
            if theirs == value:
                continue
            if name != "tokens" and isinstance(value, dict) and isinstance(theirs, dict):
                name = next(key for key in value | theirs if value.get(key) != theirs.get(key))
                value, theirs = value.get(name), theirs.get(name)
            raise UserError(
                f"{name} has changed since training began: it is {value} in {RESUMABLE}, but the checkpoint was made "
                f"with {theirs}; restore it, or train again with --overwrite"
            )

    def check_unchanged(self, folder: Path) -> None:
        """Refuse to resume if the prepared tokens, or the files they came from, have changed."""
        found = hash_tokens(folder)
        for name in sorted(found.keys() | self.tokens.keys()):
            if found.get(name) != self.tokens.get(name):
                raise UserError(f"'{folder / name}' has changed since training began; train again with --overwrite")
        for file in self.files:
            path = Path(file["path"])
            if path.is_file() and (path.stat().st_size != file["bytes"] or hash_file(path) != file["sha256"]):
                raise UserError(
                    f"'{path}' has changed since training began; restore the old text, or train again on the new one"
                )

    def check_settings(self, asked: dict[str, Any]) -> None:
        """Refuse settings that differ from those the training began with."""
        known = {"task": self.task, "model": self.architecture, **self.recipe, **self.model}
        for name, value in asked.items():
            if name in known and not _is_same(known[name], value):
                raise UserError(
                    f"{name} is {known[name]} in the unfinished training, but {value} was asked for; "
                    "leave it out to resume, or train another run"
                )
            if name not in known:
                raise UserError(
                    f"'{name}' cannot be given when resuming, which keeps the settings that training began with"
                )


def _modern(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Before version 0.2, the sources of a mixture stood in training.json; now they are a file beside the tokens."""
    if not isinstance(values, dict):
        raise TypeError(f"it holds a {type(values).__name__}")
    values["recipe"] = {
        name: tuple(each) if isinstance(each, list) else each for name, each in values["recipe"].items()
    }
    sources = Sources(tuple(values.get("first_shards", (0,))), tuple(values.get("weights", (1.0,))))
    file = folder / FOLDER / SOURCES
    if len(sources.first_shards) > 1:
        if not file.exists():
            sources.write(folder / FOLDER)
        values["tokens"].setdefault(SOURCES_PATH, hash_file(file))
    return values


def _is_same(known: Any, asked: Any) -> bool:
    try:
        return str(known).lower() == str(asked).lower() or float(known) == float(asked)
    except (TypeError, ValueError):
        return False


def hash_tokens(folder: Path) -> dict[str, str]:
    """{'tokens/train-00000.bin': sha256, ...} of what training reads in its folder."""
    found = sorted((folder / FOLDER).glob("*"))
    read = [folder / "tokenizer.json", *(path for path in found if not path.name.endswith(UNREAD))]
    return {path.relative_to(folder).as_posix(): hash_file(path) for path in read if path.is_file()}
