"""What a plan is about: a published preset, or the model of a run."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.analysis.plan.parameters import Parameters, count_parameters
from chainrule.analysis.plan.shapes import Shape, shape_of
from chainrule.errors import UserError, did_you_mean
from chainrule.models._presets import PUBLISHED, Preset

if TYPE_CHECKING:
    from chainrule.runs.folder import Run

COUNTING = ("ngram", "infinigram")


@dataclass(frozen=True)
class PlannedModel:
    name: str
    source: str
    shape: Shape | None  # None: not a Transformer, so its parts are not known here
    parameters: Parameters
    vocabulary_size: int
    training_tokens: int | None = None
    batch_tokens: int | None = None
    learning_rate: float | None = None
    published_parameters: int | None = None
    note: str = ""

    def with_context(self, context_length: int) -> "PlannedModel":
        """Learned positions are parameters, so that these change too, and are no longer the published ones."""
        if self.shape is None:
            raise UserError(f"'{self.name}' is not a Transformer, so --context-length does not apply to it")
        if context_length == self.shape.context_length:
            return self
        shape = replace(self.shape, context_length=context_length)
        return replace(self, shape=shape, parameters=count_parameters(shape), published_parameters=None, note="")


def find_subject(name: str) -> PlannedModel:
    if name.lower() in PUBLISHED:
        return of_preset(name.lower(), PUBLISHED[name.lower()])
    from chainrule.runs.folder import HOME, Run  # reads text and tokens, which a preset has no need of

    if not Path(name).exists() and not (HOME / name).exists():
        runs = [str(path.parent) for path in HOME.glob("*/config.json")]
        hint = did_you_mean(name.lower(), [*PUBLISHED, *runs])
        raise UserError(f"'{name}' is neither a preset nor a run{hint} (chainrule plan lists the presets)")
    return of_run(Run(name))


def of_preset(name: str, preset: Preset) -> PlannedModel:
    shape = shape_of(preset.settings, preset.vocabulary_size)
    return PlannedModel(
        name,
        preset.source,
        shape,
        count_parameters(shape),
        preset.vocabulary_size,
        preset.training_tokens,
        preset.batch_tokens,
        preset.learning_rate,
        preset.published_parameters,
        preset.note,
    )


def of_run(run: "Run") -> PlannedModel:
    if run.architecture in COUNTING:
        raise UserError(
            f"'{run.path}' is an {run.architecture}: it counts its text once, so there is no training to plan; "
            f"see: chainrule show {run.path}"
        )
    vocabulary_size = run.config["tokenizer"].get("vocabulary_size")
    if not isinstance(vocabulary_size, int):
        raise UserError(f"'{run.path}/config.json' does not say how large the vocabulary is; train the run again")
    shape, total = None, _last(run, "parameters")
    if run.architecture == "transformer":
        shape = shape_of(run.config["model"], vocabulary_size)
        parameters = count_parameters(shape)
    elif total:
        parameters = Parameters(total, total, total)
    else:
        raise UserError(f"'{run.path}/metrics.jsonl' does not say how many parameters the model has; train it again")
    source = f"{run.architecture} of {', '.join(run.config['data']['inputs'])}"
    tokens = _last(run, "tokens", "step") or _last(run, "tokens")
    return PlannedModel(str(run.path), source, shape, parameters, vocabulary_size, tokens)


def _last(run: "Run", name: str, event: str | None = None) -> int | None:
    """The last number of this name that training wrote down, at events of this kind."""
    found = [each.get(name) for each in run.metrics if event in (None, each.get("event"))]
    return next((value for value in reversed(found) if isinstance(value, int) and value > 0), None)
