"""The models of a comparison: kinds with settings, written 'ngram:order=3,smoothing=katz', or existing runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chainrule import registry
from chainrule.errors import UserError
from chainrule.runs.folder import HOME, Run
from chainrule.training.resolve import MADE_OF_RUNS

LADDER = (
    "ngram:order=1", "ngram:order=2", "ngram:order=3", "ngram:order=5", "ngram:order=5,smoothing=witten-bell",
    "ngram:order=5,smoothing=katz", "mlp", "bow", "attention", "elman", "ugrnn", "gru", "lstm", "transformer",
)  # fmt: skip
UNNAMED = ("order", "smoothing", "size")  # settings of which a label shows the value alone: ngram-3


@dataclass(frozen=True)
class Entrant:
    """One model of a comparison: to be trained, or an existing run."""

    label: str
    model: str | None = None  # the kind to train; None: an existing run
    settings: tuple[tuple[str, str], ...] = ()
    run: Run | None = None

    @property
    def fingerprint(self) -> dict[str, object]:
        """What identifies it: two entrants with the same fingerprint give the same figures."""
        hashes = None if self.run is None else {name: entry["sha256"] for name, entry in self.run.manifest.items()}
        return {"model": self.model, "settings": [list(each) for each in self.settings], "files": hashes}


def file_name(label: str) -> str:
    """The label with characters that file names should not have replaced."""
    return "".join(c if c.isalnum() or c in "._=-" else "-" for c in label)


def read_entrants(written: Sequence[str]) -> list[Entrant]:
    """The entrants written so; the whole ladder where none is written. A name that comes twice is refused."""
    entrants = [_read(each) for each in written] or [_read_model(each) for each in LADDER]
    for number, entrant in enumerate(entrants):
        if file_name(entrant.label) in {file_name(other.label) for other in entrants[:number]}:
            raise UserError(f"'{entrant.label}' takes part twice; give each model once, or with other settings")
    return entrants


def _read(written: str) -> Entrant:
    """A kind of model, or a run; a run that is named like a kind is written with its folder, runs/lstm."""
    models = registry.names("chainrule.models", without=(*registry.NOT_NAMED, *MADE_OF_RUNS))
    is_run = (Path(written) / "config.json").is_file() or (HOME / written / "config.json").is_file()
    if "/" in written or (is_run and written not in models):
        return Entrant(str(Path(written)).removeprefix(f"{HOME}/"), run=Run(written))
    return _read_model(written)


def _read_model(written: str) -> Entrant:
    name, _, rest = written.partition(":")
    registry.find("chainrule.models", name, "model", without=(*registry.NOT_NAMED, *MADE_OF_RUNS))
    settings = []
    for part in filter(None, rest.split(",")):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise UserError(f"'{written}' is not understood at '{part}'; write NAME:SETTING=VALUE,SETTING=VALUE")
        settings.append((key, value))
    label = "-".join([name, *(value if key in UNNAMED else f"{key}={value}" for key, value in settings)])
    return Entrant(label, name, tuple(settings))
