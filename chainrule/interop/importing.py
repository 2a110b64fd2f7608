"""A model that another program made, stored as a run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chainrule.errors import UserError
from chainrule.interop.base import ImportedModel
from chainrule.interop.read import read_model
from chainrule.runs.adapter import ADAPTER
from chainrule.runs.folder import LANGUAGE, MANIFEST, Run
from chainrule.runs.making import check_free, free_name
from chainrule.runs.records import CONFIG
from chainrule.runs.write import store
from chainrule.tasks._pair_files import pair_files


@dataclass(frozen=True)
class Imported:
    """The run that was made, and what was read."""

    run: Run
    found: ImportedModel


def import_run(
    path: Path,
    name: Path | None = None,
    tokenizer: Path | None = None,
    overwrite: bool = False,
    base: Path | None = None,
) -> Imported:
    """Read a model in any format that `read_model` knows, and store it as the run `name`.

    `base`: the run that an adapter is added to; without it, the one that the adapter names, if it is in runs/.
    """
    if (path / MANIFEST).is_file() and (path / CONFIG).is_file():
        raise UserError(f"'{path}' is a run already; every command takes it as it is, and needs no import")
    name = name or free_name(path.resolve().name.partition(".")[0], overwrite)
    check_free(name, overwrite)
    found = read_model(path, tokenizer, Run(base) if base else None)
    is_pairs = found.source is not None
    run = store(
        name, found.architecture, found.model, found.tokenizer, {"inputs": [str(path)], "unit": "line"}, overwrite,
        notes=found.notes, task=found.task or LANGUAGE, uses=[f"chainrule translate {name.name}"] if is_pairs else [],
        extra=_more_files(found),
    )  # fmt: skip
    return Imported(run, found)


def _more_files(found: ImportedModel) -> Callable[[Path], None] | None:
    """Writes what the run of an adapter, or of a model of pairs, keeps beside the model."""
    adapter = found.adapter
    if adapter is not None:
        return lambda folder: adapter.save(folder / ADAPTER)
    return pair_files(found.tokenizer, found.source) if found.source else None
