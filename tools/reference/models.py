"""Every architecture in chainrule/models with its settings and its sizes."""

import dataclasses
from types import ModuleType
from typing import Any

from chainrule import registry
from tools.reference.dataclass_table import settings_table
from tools.reference.markdown import code, paragraphs, summary, table

PACKAGE = "chainrule.models"


def page() -> str:
    names = registry.names(PACKAGE)
    modules = {name: registry.find(PACKAGE, name, "model") for name in names}
    return paragraphs(
        "# Models",
        "`chainrule train --model NAME --size SIZE --set SETTING=VALUE`. One file each in `chainrule/models/`. A size "
        "is a preset of the settings; where a cell is empty, the size has the default.",
        table(["model", "what it is"], [[f"[`{name}`](#{name})", summary(module)] for name, module in modules.items()]),
        *(_model(name, module) for name, module in modules.items()),
    )


def _model(name: str, module: ModuleType) -> str:
    facts = [
        f"{label} {code(value)}"
        for label, value in (
            ("Default size:", getattr(module, "DEFAULT_SIZE", "")),
            ("default tokenizer:", getattr(module, "DEFAULT_TOKENIZER", "")),
        )
        if value
    ]
    described = f"{', '.join(facts)}." if facts else ""
    sizes = getattr(module, "SIZES", {})
    settings = settings_table(module.Config) if hasattr(module, "Config") else ""  # a model of parts may have none
    return paragraphs(f"## {name}", summary(module), described, settings, _sizes(sizes) if sizes else "")


def _sizes(sizes: dict[str, Any]) -> str:
    """One row a size, one column for each setting in which some size differs from the default."""
    fields = [
        field.name
        for field in dataclasses.fields(next(iter(sizes.values())))
        if any(getattr(config, field.name) != _default(config, field.name) for config in sizes.values())
    ]
    rows = []
    for name, config in sizes.items():
        values = [getattr(config, field) for field in fields]
        shown = [
            "" if value == _default(config, field) else code(value) for field, value in zip(fields, values, strict=True)
        ]
        rows.append([code(name), *shown])
    return table(["size", *fields], rows)


def _default(config: Any, field: str) -> object:
    return getattr(type(config)(), field)
