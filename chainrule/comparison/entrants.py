"""Who takes part: kinds of models with their settings, written 'ngram:order=3,smoothing=katz', or runs that exist."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chainrule import lookup
from chainrule.errors import UserError
from chainrule.runs.folder import HOME

LADDER = (
    "ngram:order=1", "ngram:order=2", "ngram:order=3", "ngram:order=5", "ngram:order=5,smoothing=witten-bell",
    "ngram:order=5,smoothing=katz", "mlp", "bow", "attention", "elman", "ugrnn", "gru", "lstm", "transformer",
)  # fmt: skip


@dataclass(frozen=True)
class Entrant:
    label: str
    model: str | None = None  # None: a run that exists
    settings: tuple[tuple[str, str], ...] = ()
    run: str | None = None


def file_name(label: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in label)


def read_entrants(written: Sequence[str]) -> list[Entrant]:
    """The ladder where nothing is written; names that come twice are refused."""
    entrants = [_read(each) for each in (written or LADDER)]
    for number, entrant in enumerate(entrants):
        if file_name(entrant.label) in {file_name(other.label) for other in entrants[:number]}:
            raise UserError(f"'{entrant.label}' takes part twice; give each model once, or with other settings")
    return entrants


def _read(written: str) -> Entrant:
    path = Path(written)
    for folder in (path, HOME / path):
        if (folder / "config.json").is_file():
            return Entrant(path.name, run=str(folder))
    name, _, rest = written.partition(":")
    lookup.find("chainrule.models", name, "model or run")
    settings = []
    for part in filter(None, rest.split(",")):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise UserError(f"'{written}' is not understood at '{part}'; write NAME:SETTING=VALUE,SETTING=VALUE")
        settings.append((key, value))
    label = "-".join([name, *(value for key, value in settings)])
    return Entrant(label, name, tuple(settings))
