"""What a shell offers when Tab is pressed: runs, unfinished trainings, and the names of models, tasks and formats."""

from collections.abc import Callable, Iterable
from pathlib import Path

from chainrule import registry

MADE_OF_OTHERS = (
    "cache",
    "ensemble",
    "mix",
    "tokennetwork",
    "wordnetwork",
)  # models that are not trained by themselves


def model_names() -> list[str]:
    """The models that `chainrule train` trains."""
    return registry.names("chainrule.models", without=(*registry.NOT_NAMED, *MADE_OF_OTHERS))


def task_names() -> list[str]:
    return list(dict.fromkeys(["language", *registry.names("chainrule.tasks")]))


def format_names() -> list[str]:
    """The formats of `chainrule export`."""
    from chainrule.interop.base import exporters

    return list(exporters())


def complete(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Offers those of the names that begin as the word at the cursor does."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def runs(incomplete: str) -> list[str]:
    """Run folders: those in runs/ by their bare names, too, and in a folder that was begun to be named."""
    from chainrule.runs.folder import HOME
    from chainrule.runs.records import CONFIG

    return _match(incomplete, HOME, f"*/{CONFIG}", lambda file: file.parent)


def unfinished_runs(incomplete: str) -> list[str]:
    """Trainings that `chainrule train --resume` takes."""
    from chainrule.runs.folder import HOME, RESUMABLE, unfinished

    prefix, suffix = unfinished(Path("*")).name.split("*")
    pattern = f"{prefix}*{suffix}/{RESUMABLE}"

    def finished(file: Path) -> Path:
        return file.parent.with_name(file.parent.name.removeprefix(prefix).removesuffix(suffix))

    return _match(incomplete, HOME, pattern, finished)


def _match(incomplete: str, home: Path, pattern: str, found: Callable[[Path], Path]) -> list[str]:
    folder = Path(f"{incomplete}x").parent if "/" in incomplete else home
    paths = sorted(found(file) for file in folder.glob(pattern))
    whole = [str(path) for path in paths if str(path).startswith(incomplete)]
    return whole or [path.name for path in paths if path.name.startswith(incomplete)]
