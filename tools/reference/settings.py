"""What is chosen by name: training's recipe, reading, splitting, tokenizers, smoothings, tasks, sampling, formats."""

import importlib

from chainrule import registry
from chainrule.config import fields as config_fields
from chainrule.data.corpus import Reading
from chainrule.data.split import Splitting
from chainrule.generation.settings import Sampling
from chainrule.ngram.smoothing import METHODS
from chainrule.text import KINDS
from chainrule.text.choice import Tokenization
from chainrule.training.recipe import Recipe
from tools.reference.dataclass_table import settings_table
from tools.reference.markdown import code, paragraphs, summary, table

TASKS = "chainrule.tasks"


def page() -> str:
    return paragraphs(
        "# Settings",
        "Later ones win: defaults, the size's preset, `--config FILE`, flags, `--set name=value`. In Python they are "
        "keyword arguments of the same names. Settings of each model: [models](models.md).",
        "## Training",
        "`chainrule train --set NAME=VALUE`. Without a setting, a budget of minutes chooses for itself.",
        settings_table(Recipe),
        "## Reading text",
        settings_table(Reading),
        "## Keeping text aside",
        settings_table(Splitting),
        "## Tokenizers",
        settings_table(Tokenization),
        table(["tokenizer", "what it is"], [[code(name), _module_summary("chainrule.text", name)] for name in KINDS]),
        "## Smoothings",
        "Of n-grams: `chainrule train --smoothing NAME`.",
        table(["smoothing", "what it does"], [[code(name), summary(method)] for name, method in METHODS.items()]),
        "## Tasks",
        "`chainrule train --task NAME`; the default, `language`, predicts each token of a text from those before it.",
        *(_task(name) for name in registry.names(TASKS)),
        "## Sampling",
        "`chainrule sample`, `run.sample(...)`, and the requests to the server.",
        settings_table(Sampling),
    )


def _module_summary(package: str, name: str) -> str:
    return summary(importlib.import_module(f"{package}.{name}"))


def _task(name: str) -> str:
    module = importlib.import_module(f"{TASKS}.{name}")
    task = module.Task
    models = ", ".join(code(each) for each in task.models) or "any architecture that names no other task"
    facts = f"Models: {models}. Used with `chainrule {task.command}`."
    settings = settings_table(task.settings_class) if config_fields(task.settings_class) else ""
    return paragraphs(f"### {name}", summary(module), facts, settings)
