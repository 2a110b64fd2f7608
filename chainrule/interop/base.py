"""What a format of other programs is: how its files are recognised and read, how they are written and verified.

Every module of this package without a leading underscore is a format, except this one and those that use them all:
`read`, `write`, `importing` and `export`. A format defines FORMAT and is found by its file name, so that a new format
is a new file; that of gguf-adapter is `gguf_adapter`. A module is imported to be listed; what needs torch or another
large library is imported inside its functions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule import registry

if TYPE_CHECKING:
    from chainrule.interop._parity import Question
    from chainrule.models.contract import LanguageModel
    from chainrule.runs.adapter import Adapter
    from chainrule.runs.folder import Run
    from chainrule.text.base import Tokenizer

NOT_FORMATS = (*registry.NOT_NAMED, "read", "write", "importing", "export")
FULL_PRECISION = "f32"


@dataclass(frozen=True)
class ImportedModel:
    """A model read from files of another program, with everything that a run of it needs."""

    architecture: str
    model: "LanguageModel"
    tokenizer: "Tokenizer"
    notes: list[str]
    format: str
    task: str | None = None  # None: a language model
    source: "Tokenizer | None" = None  # of the texts that it reads, where it writes one text from another
    adapter: "Adapter | None" = None  # that was added to a run, which gave the rest


@dataclass(frozen=True)
class Importer:
    """Reads a format.

    `read` takes the path and, where the format keeps it elsewhere, the path of the tokenizer. For what is no model by
    itself there is `read_onto`: it takes the path and the run to which it is added, or None where that is the one that
    the files name.
    """

    recognise: Callable[[Path], bool]  # whether an existing file or folder is of this format
    read: Callable[[Path, Path | None], ImportedModel]
    read_onto: Callable[[Path, "Run | None"], ImportedModel] | None = None
    is_last_resort: bool = False  # asked only where no other format recognises the path
    installed: Mapping[str, Callable[[], Path]] = field(default_factory=dict)  # models in installed packages, by name


@dataclass(frozen=True)
class Exporter:
    """Writes a format.

    `write` takes a run, the path of the file or of an empty folder, and the number type of the weights; it returns
    notes for people. `verify` takes the same afterwards and says which programs are to read the files back, so that
    their logits are compared with the run's; without it, files are written unchecked.
    """

    write: Callable[["Run", Path, str], list[str]]
    verify: Callable[["Run", Path, str], list["Question"]] | None = None
    check: Callable[["Run"], None] = lambda run: None  # raises a UserError about a run that the format cannot hold
    has_format: Callable[[Path], bool] = lambda path: False  # without `verify`: whether a file may be overwritten
    is_file: bool = True  # else a folder
    suffix: str = ""  # of the default name: the run's name and this
    dtypes: tuple[str, ...] = (FULL_PRECISION,)  # number types of weights
    can_stream: bool = False  # whether it may be written to a pipe
    read_by: str = ""  # 'onnxruntime reads it'
    library: str = ""  # of the model card: library_name
    usage: Callable[[str], list[str]] = lambda name: []  # lines of the model card on how to use a file of this name
    usage_language: str = "python"

    def default_name(self, run_name: str, dtype: str) -> str:
        """'poems.gguf', 'poems-q8_0.gguf', 'poems-onnx'."""
        return f"{run_name if dtype == FULL_PRECISION else f'{run_name}-{dtype}'}{self.suffix}"


@dataclass(frozen=True)
class Format:
    name: str  # that of its module, with hyphens
    description: str  # for people: 'a .gguf file'
    importer: Importer | None = None
    exporter: Exporter | None = None


def find_format(name: str) -> Format:
    """The format of that name, or a UserError that says which there are."""
    module = name.replace("-", "_")
    return _format(registry.find("chainrule.interop", module, "format", without=NOT_FORMATS))


def all_formats() -> list[Format]:
    return [find_format(name) for name in registry.names("chainrule.interop", without=NOT_FORMATS)]


def importers() -> dict[str, Importer]:
    """Of every format that can be read, by its name."""
    return {each.name: each.importer for each in all_formats() if each.importer is not None}


def exporters() -> dict[str, Exporter]:
    """Of every format that can be written, by its name."""
    return {each.name: each.exporter for each in all_formats() if each.exporter is not None}


def _format(module: object) -> Format:
    found = getattr(module, "FORMAT", None)
    assert isinstance(found, Format), f"{module} defines no FORMAT"
    return found
