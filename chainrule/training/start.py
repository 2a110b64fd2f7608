"""Training that begins from a run: with its tokenizer, its architecture and its weights instead of random ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule import registry
from chainrule.config import override
from chainrule.errors import UserError
from chainrule.runs.folder import Run
from chainrule.text.base import Tokenizer

if TYPE_CHECKING:
    from chainrule.models._neural import NeuralModel

WEIGHTS = "model.safetensors"
CHANGEABLE = ("dropout",)  # settings of a model that end so may be changed: all others are built into its weights


@dataclass(frozen=True)
class Start:
    """The run that a training begins from, as it is written down for resuming."""

    run: str
    weights: str  # their hash

    @classmethod
    def of(cls, run: Run) -> "Start":
        return cls(str(run.path.resolve()), run.manifest[WEIGHTS]["sha256"])

    def open(self) -> Run:
        """The run again, if it has not changed."""
        path = Path(self.run)
        if not path.exists():
            raise UserError(f"the run that training began from, '{path}', is gone; restore it, or train again")
        run = Run(path)
        if run.manifest[WEIGHTS]["sha256"] != self.weights:
            raise UserError(f"the run that training began from, '{path}', has changed; restore it, or train again")
        return run


def open_start(name: Path) -> Run:
    """A run that training can begin from: a single network of language."""
    run = Run(name, task=None)
    if not run.is_language_model:
        raise UserError(f"'{run.path}' is a run for {run.task}; training begins from a language model")
    module = registry.find("chainrule.models", run.architecture, "model")
    if not module.Model.learns_by_gradient:
        raise UserError(
            f"'{run.path}' is of kind {run.architecture}, which has no weights that learn by gradient; begin from a "
            "network, such as one that was trained with --minutes 5 --one, or an imported one"
        )
    return run


def config_of(run: Run, named: Mapping[str, Any]) -> Any:
    """The settings of its model, of which only dropout can be changed."""
    module = registry.find("chainrule.models", run.architecture, "model")
    config = override(next(iter(module.SIZES.values())), run.config["model"], f"'{run.path}'", from_text=False)
    changed = override(config, named, f"the settings of {run.architecture}")
    for name in named:
        if not name.endswith(CHANGEABLE) and getattr(changed, name) != getattr(config, name):
            raise UserError(
                f"{name} is {getattr(config, name)} in '{run.path}', and training that begins from it cannot change "
                "that; leave it out"
            )
    return changed


def begin_from(run: Run, config: Any, tokenizer: Tokenizer) -> "NeuralModel":
    """The model of a run, to go on learning. Tokens that the run's own tokenizer does not have begin as the mean of all
    others."""
    import torch

    module = registry.find("chainrule.models", run.architecture, "model")
    old: NeuralModel = module.Model.load(run.path / WEIGHTS)
    if tokenizer.vocabulary_size == old.vocabulary_size and config == old.config:
        return old.train()
    with torch.device("meta"):
        model: NeuralModel = module.Model(config, tokenizer.vocabulary_size, tokenizer.eos)
    new = {name: each.shape for name, each in model.state_dict().items()}
    weights = {name: _grow(each, new[name], old.vocabulary_size) for name, each in old.state_dict().items()}
    model.load_state_dict(weights, assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    return model.train()


def _grow(weight: Any, shape: Any, vocabulary_size: int) -> Any:
    """With rows for the tokens that are new, after those of the old ones."""
    import torch

    more = shape[0] - len(weight) if len(shape) else 0
    if not more:
        return weight
    known = weight[:vocabulary_size]
    return torch.cat([known, known.mean(0, keepdim=True).expand(more, *known.shape[1:]), weight[vocabulary_size:]])
