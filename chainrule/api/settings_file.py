"""Settings of a training in a JSON file: by their names, or as the config.json of a run, to train with them again."""

from pathlib import Path
from typing import cast

from chainrule.config import fields, read_file
from chainrule.errors import UserError
from chainrule.runs.folder import LANGUAGE
from chainrule.runs.records import RunConfig
from chainrule.tasks.base import find_task
from chainrule.text import KINDS
from chainrule.training.resolve import MADE_OF_RUNS

SPLITTING = ("validation_fraction", "split", "split_seed")


def read_settings(file: Path) -> dict[str, object]:
    """Everything that `train` takes, by its name: {"model": "lstm", "width": 128, "minutes": 5, "tokenizer": "bpe"}."""
    values = read_file(file)
    if "architecture" not in values:
        return values
    try:
        return _settings_of_run(cast(RunConfig, values), file)
    except (KeyError, TypeError, AttributeError):
        raise UserError(f"'{file}' is not the config.json of a run, nor a file of settings by their names") from None


def _settings_of_run(config: RunConfig, file: Path) -> dict[str, object]:
    """What trains such a run again; the text is not among it."""
    architecture, task, data = config["architecture"], config.get("task", LANGUAGE), dict(config["data"])
    if architecture in MADE_OF_RUNS:
        raise UserError(
            f"'{file}' is of a model of kind {architecture}, which has no settings to train with; "
            f"make another with: {MADE_OF_RUNS[architecture]}"
        )
    own = {*SPLITTING, *fields(find_task(task).settings_class), *(("unit", "field") if task == LANGUAGE else ())}
    recipe = config["training"]["recipe"] if "training" in config else {}
    return {
        "task": task,
        "model": architecture,
        **config["model"],
        **{name: value for name, value in recipe.items() if value is not None},
        **_tokenizer(config, file),
        **{name: value for name, value in data.items() if name in own},
    }


def _tokenizer(config: RunConfig, file: Path) -> dict[str, object]:
    """A tokenizer of the same kind; one that was imported is taken as it is."""
    own = config["tokenizer"]
    if own["kind"] not in KINDS:
        return {"tokenizer": str(file.parent)}
    is_limited = own["kind"] == "bpe" or own["is_closed"]  # else the vocabulary is as large as the text makes it
    size = {"vocabulary_size": own["vocabulary_size"]} if is_limited else {}
    return {"tokenizer": own["kind"], "closed_vocabulary": own["is_closed"], **size}
