"""A run that writes one text from another, with the verbs of the command line: translate, evaluate."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

from chainrule.api.curves import plot_training
from chainrule.api.inputs import Inputs, StrPath, input_names
from chainrule.config import override
from chainrule.data.settings import Reading
from chainrule.errors import UserError
from chainrule.evaluation import bleu
from chainrule.generation.settings import Beam
from chainrule.models.contract import LanguageModel
from chainrule.progress import progress
from chainrule.runs.folder import Run
from chainrule.tasks._pairs import PairTask
from chainrule.tasks.base import find_task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEFAULT_WIDTH = 5  # of the beam


@dataclass(frozen=True)
class Translation:
    """One of the best texts written from a source."""

    text: str
    score: float | None  # of the beam search; None for an empty source
    alignment: str | None = None  # '0-0 1-2': which word of the source each word came from, source first


@dataclass(frozen=True)
class PairsRun:
    """A run of a translation or a summarisation."""

    run: Run
    task: PairTask

    def __repr__(self) -> str:
        return f"<run '{self.path}': {self.run.task} by a {self.run.architecture}>"

    @property
    def path(self) -> Path:
        return self.run.path

    @property
    def model(self) -> LanguageModel:
        return self.run.model

    @overload
    def translate(self, texts: str, **beam: object) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, texts: Sequence[str], **beam: object) -> list[str]: ...
    def translate(self, texts: str | Sequence[str], **beam: object) -> str | list[str]:
        """The best text of a source, or of each of several: width=5, length_penalty=0.6, max_tokens=50."""
        sources = [texts] if isinstance(texts, str) else list(texts)
        search = override(Beam(width=DEFAULT_WIDTH), beam, "translate")
        written = [each[0].text for each in self.search(sources, search)]
        return written[0] if isinstance(texts, str) else written

    def translations(
        self, texts: Sequence[str], n_best: int = 1, alignments: bool = False, **beam: object
    ) -> list[list[Translation]]:
        """The `n_best` texts of each source, best first, with their scores; settings as in `translate`."""
        search = override(Beam(width=DEFAULT_WIDTH), {"samples": n_best, **beam}, "translate")
        return self.search(texts, search, alignments)

    def search(self, texts: Sequence[str], search: Beam, alignments: bool = False) -> list[list[Translation]]:
        """The `search.samples` best texts of each source, best first."""
        from chainrule.analysis.explain.alignment import ReadsSource, link_words  # loads torch

        with progress("translating", sum(bool(text.strip()) for text in texts), "lines") as advance:
            written = self.task.write(self.model, texts, search, search.truncate, advance)
        return [
            [
                Translation(
                    text,
                    each.found[rank].score if each.found else None,
                    link_words(self.task, cast(ReadsSource, self.model), source, text) if alignments else None,
                )
                for rank, text in enumerate(each.texts)
            ]
            for source, each in zip(texts, written, strict=True)
        ]

    def measure(
        self, written: Sequence[str], references: Sequence[str], others: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """BLEU and chrF of texts against the right ones; with `others`, whether the difference from these is real."""
        lowercase = self.task.settings.lowercase
        measured = asdict(bleu.measure(list(written), list(references), lowercase))
        if others is not None:
            found = bleu.compare(list(written), list(others), list(references), lowercase)
            measured["against"] = [asdict(each) for each in found]
        return measured

    def plot(self, kind: str = "loss") -> "Figure":
        """The curves of its training as a figure of matplotlib: "loss", or "gradients" for their norm."""
        return plot_training(self.run, kind)

    def evaluate(self, inputs: Inputs | None = None, encoding: str = "auto", delimiter: str = "auto") -> dict[str, Any]:
        """Loss, and how near its texts come to the right ones, on pairs; default: those kept aside in training."""
        names = None if inputs is None else input_names(inputs)
        reading = Reading(encoding=encoding, delimiter=delimiter)
        pairs, notes = self.task.read(names, reading) if names else (self.task.held_out, [])
        if not len(pairs):
            raise UserError(
                f"'{self.path}' has no pair kept aside; name some: chainrule evaluate {self.path} PAIRS.tsv"
            )
        measured = self.task.evaluate_on(self.model, pairs)
        return {"run": str(self.path), "inputs": names or ["validation"], **measured, "notes": notes}


def load_pairs_run(path: StrPath) -> PairsRun:
    """An existing run that writes one text from another."""
    run = Run(path, task=None)
    task = pair_task(run)
    if task is None:
        raise UserError(
            f"'{run.path}' is a run for {run.task}, not for translation or summarisation; "
            "make one with: chainrule train --task translation PAIRS.tsv"
        )
    return PairsRun(run, task)


def pair_task(run: Run) -> PairTask | None:
    """The task of a run, if that is to write one text from another."""
    if run.is_language_model:
        return None
    task = find_task(run.task)
    return task(run.path) if issubclass(task, PairTask) else None
