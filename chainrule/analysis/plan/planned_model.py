"""The model that a plan is about: a published preset, or the model of a run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule import registry
from chainrule.analysis.plan.parameters import Parameters, count_parameters
from chainrule.config import from_json
from chainrule.errors import UserError, did_you_mean
from chainrule.models._presets import PUBLISHED, Preset
from chainrule.models._transformer_config import Config
from chainrule.models.contract import Counts, learns

if TYPE_CHECKING:
    from chainrule.runs.folder import Run

REQUIRED = ("width", "num_layers", "num_heads", "context_length")  # of a run's settings, if it is a Transformer
# Settings of a Transformer that `to_json` gives as they are, beside the widths that follow from them.
SHAPE = (
    "norm", "norm_placement", "activation", "positions", "position_join", "tied", "bias", "qk_norm", "ngram_order",
    "ngram_rows", "output_bias", "attention_bias",
)  # fmt: skip


@dataclass(frozen=True)
class PlannedModel:
    name: str
    source: str
    config: Config | None  # None: not a Transformer, so only the number of its parameters is known
    parameters: Parameters
    vocabulary_size: int
    training_tokens: int | None = None
    batch_tokens: int | None = None
    learning_rate: float | None = None
    published_parameters: int | None = None
    note: str = ""

    def with_context(self, context_length: int) -> "PlannedModel":
        """The same model with another context. Learned positions are parameters, so their number changes too."""
        if self.config is None:
            raise UserError(f"'{self.name}' is not a Transformer, so context_length does not apply to it")
        if context_length == self.config.context_length:
            return self
        config = replace(self.config, context_length=context_length)
        parameters = count_parameters(config, self.vocabulary_size)
        return replace(self, config=config, parameters=parameters, published_parameters=None, note="")

    def to_json(self) -> dict[str, object]:
        facts: dict[str, object] = {name: value for name, value in vars(self).items() if name != "config"}
        facts["parameters"] = asdict(self.parameters)
        return facts | {"shape": None if self.config is None else shape_facts(self.config, self.vocabulary_size)}


def shape_facts(config: Config, vocabulary_size: int) -> dict[str, object]:
    """What a Transformer's counts follow from, with every width worked out."""
    widths = {
        "width": config.width,
        "num_layers": config.num_layers,
        "num_heads": config.num_heads,
        "context_length": config.context_length,
        "vocabulary_size": vocabulary_size,
        "num_key_value_heads": config.key_value_heads,
        "head_width": config.width_of_head,
        "hidden_width": config.width_of_feedforward,
    }
    return widths | {name: getattr(config, name) for name in SHAPE}


def find_subject(name: str) -> PlannedModel:
    """The preset or the run of that name."""
    if name.lower() in PUBLISHED:
        return of_preset(name.lower(), PUBLISHED[name.lower()])
    from chainrule.runs.folder import HOME, Run  # imports much that a preset does not need

    if not Path(name).exists() and not (HOME / name).exists():
        runs = [str(path.parent) for path in HOME.glob("*/config.json")]
        hint = did_you_mean(name.lower(), [*PUBLISHED, *runs])
        raise UserError(f"'{name}' is neither a preset nor a run{hint} (chainrule plan lists the presets)")
    return of_run(Run(name))


def of_preset(name: str, preset: Preset) -> PlannedModel:
    return PlannedModel(
        name,
        preset.source,
        preset.config,
        count_parameters(preset.config, preset.vocabulary_size),
        preset.vocabulary_size,
        preset.training_tokens,
        preset.batch_tokens,
        preset.learning_rate,
        preset.published_parameters,
        preset.note,
    )


def of_run(run: "Run") -> PlannedModel:
    """The model of a run; one that counts or is made of runs is refused, for it is not trained step by step."""
    untrained = _why_untrained(run)
    if untrained:
        raise UserError(
            f"'{run.path}' is of kind {run.architecture}: {untrained}, so there is no training to plan; "
            f"see: chainrule show {run.path}"
        )
    vocabulary_size = run.config["tokenizer"].get("vocabulary_size")
    if not isinstance(vocabulary_size, int):
        raise UserError(f"'{run.path}/config.json' does not say how large the vocabulary is; train the run again")
    config, total = None, _last(run, "parameters")
    if run.architecture == "transformer":
        config = read_config(run.config["model"])
        parameters = count_parameters(config, vocabulary_size)
    elif total:
        parameters = Parameters(total, total, total)
    else:
        raise UserError(f"'{run.path}/metrics.jsonl' does not say how many parameters the model has; train it again")
    source = f"{run.architecture} of {', '.join(run.config['data']['inputs'])}"
    tokens = _last(run, "tokens", "step") or _last(run, "tokens")
    return PlannedModel(str(run.path), source, config, parameters, vocabulary_size, tokens)


def read_config(settings: Mapping[str, object]) -> Config:
    """The settings of a Transformer as a run's config.json has them."""
    missing = [name for name in REQUIRED if name not in settings]
    if missing:
        raise UserError(f"these settings do not describe a Transformer: {', '.join(missing)} missing")
    return from_json(Config, settings, "the run's settings")


def _why_untrained(run: "Run") -> str | None:
    """Why its model has no steps of training to plan; None where it has. A run that was trained says so itself."""
    if "training" in run.config:
        return None
    model = registry.find("chainrule.models", run.architecture, "model").Model
    if learns(model):
        return None
    return "it counts its text once" if issubclass(model, Counts) else "it is made of runs"


def _last(run: "Run", name: str, event: str | None = None) -> int | None:
    """The last positive number of this name in the metrics, at events of this kind if one is given."""
    found = [each.get(name) for each in run.metrics if event in (None, each.get("event"))]
    return next((value for value in reversed(found) if isinstance(value, int) and value > 0), None)
