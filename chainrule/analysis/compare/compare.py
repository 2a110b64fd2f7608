"""`chainrule compare`: train each model for the same time, measure all on the same documents, write the report.

One folder holds everything: a run for each model, what was measured, and the report. The same command given again
takes up a comparison that was interrupted.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chainrule import registry
from chainrule.analysis.compare.entrants import Entrant, file_name
from chainrule.analysis.compare.expectations import check_expectations
from chainrule.analysis.compare.measure import CommonText, ModelScores, load, measure, save
from chainrule.analysis.compare.notebook import NotebookReport
from chainrule.analysis.compare.table import make_table
from chainrule.analysis.compare.write import write_report
from chainrule.config import to_json
from chainrule.data.corpus import Corpus, Reading
from chainrule.data.documents import Documents
from chainrule.data.prepare import TextSource, choose_tokenizer
from chainrule.data.split import Splitting
from chainrule.errors import Argument, Stopped, UserError
from chainrule.evaluation.score import NATS_PER_BIT
from chainrule.models.contract import Counts
from chainrule.runs.folder import HOME, RESUMABLE, Run, describe_files, unfinished
from chainrule.text.choice import Tokenization
from chainrule.training.pipeline import train
from chainrule.training.recipe import BUDGETS
from chainrule.training.request import Request, default_name

PLAN = "comparison.json"
DEFAULT_TOKENIZER = "bpe"  # one for all, so that models and not tokens are compared


@dataclass(frozen=True)
class Comparison:
    """A request to compare: the text, the models and the time for each."""

    inputs: tuple[str, ...]
    entrants: tuple[Entrant, ...]
    minutes: float = 1.0  # for each model that learns by gradient; counting has no limit
    test: tuple[str, ...] = ()  # text to measure on; empty: the validation part of the inputs
    validation: tuple[str, ...] = ()
    reading: Reading = field(default_factory=Reading)
    splitting: Splitting = field(default_factory=Splitting)
    tokenization: Tokenization = field(default_factory=Tokenization)
    seed: int = 0  # of the first weights and the order of the text, in every model that names none

    def __post_init__(self) -> None:
        if not 0 < self.minutes < 1e5:
            raise UserError(f"minutes must be above zero, got {self.minutes}")
        if not self.inputs and not self.test:
            raise UserError("there is nothing to measure on; name a text, or a test text for existing runs")
        if "-" in (*self.inputs, *self.test, *self.validation):
            raise UserError(
                "standard input can be read only once, and every model reads the text; save it as a file first"
            )
        learners = [each.label for each in self.entrants if each.model is not None]
        if learners and not self.inputs:
            raise UserError(f"{', '.join(learners)} must be trained first; name the text to train on")


def default_path(inputs: Iterable[str]) -> Path:
    """The folder of a comparison that was given no name: runs/poems-comparison."""
    first = next(iter(inputs), "runs")
    return HOME / f"{default_name(first)}-comparison"


def compare(
    asked: Comparison, path: Path, overwrite: bool = False, tell: Callable[[str], None] = lambda line: None
) -> NotebookReport:
    """Make the comparison in `path`, write its report into `path`/report and return it.

    `tell` receives a line for people when a model begins and when it is done.
    """
    source = TextSource(asked.inputs, asked.reading, asked.splitting, asked.validation) if asked.inputs else None
    text = CommonText(_common_documents(asked, source))
    if overwrite:
        _remove(path)
    _begin(_fingerprint(asked, source), path)
    measured: list[ModelScores] = []
    failed: list[str] = []
    for number, entrant in enumerate(asked.entrants, 1):
        found = load(entrant, text, path / "measured")
        if found is None:
            tell(f"{number} of {len(asked.entrants)}: {entrant.label}")
            try:
                found = measure(entrant.label, _obtain(entrant, asked, source, path), text)
            except (Stopped, KeyboardInterrupt) as stop:
                said = f"the comparison stopped at {entrant.label}; give the same command to go on"
                raise Stopped(said, stop.exit_code if isinstance(stop, Stopped) else 130) from None
            except UserError as error:
                failed.append(f"{entrant.label}: {error}")
                tell(failed[-1])
                continue
            save(found, entrant, text, path / "measured")
        measured.append(found)
        tell(_line(found, text))
    table = make_table(measured, text, failed)
    report = NotebookReport(
        list(asked.inputs), asked.minutes, table, check_expectations(measured, text, table), measured
    )
    write_report(report, path / "report")
    return report


def _fingerprint(asked: Comparison, source: TextSource | None) -> dict[str, object]:
    """What must be unchanged for a comparison to be taken up again: all settings but the models, and the text."""
    files = [file.path for corpus in source.corpora for file in corpus.files] if source else []
    fingerprint: dict[str, object] = {
        "inputs": asked.inputs,
        "validation": asked.validation,
        "test": asked.test,
        "minutes": asked.minutes,
        "data": to_json(asked.reading) | to_json(asked.splitting),
        "tokenization": to_json(asked.tokenization),
        "seed": asked.seed,
        "text": [file["sha256"] for file in describe_files(files)],
    }
    as_json: dict[str, object] = json.loads(json.dumps(fingerprint))  # as it is when it is read again
    return as_json


def _begin(fingerprint: dict[str, object], path: Path) -> None:
    """Make the folder, or check that it holds this very comparison; a folder with anything else is refused."""
    file = path / PLAN
    if file.is_file():
        try:
            known = _modern(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError, AttributeError):
            known = None
        if known != fingerprint:
            what = "of another text, or with other settings" if known else "that is damaged"
            raise UserError(f"'{path}' has a comparison {what}; choose another name", Argument("overwrite"))
        return
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"'{path}' exists and is not a comparison; choose another name")
    try:
        path.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(fingerprint, indent=1), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot make the folder '{path}': {error.strerror}") from None


def _modern(known: dict[str, Any]) -> dict[str, Any]:
    """In the first version one seed was that of the split and of the weights; settings that came later had defaults."""
    if "seed" in known["data"]:
        known["seed"] = known["data"]["split_seed"] = known["data"].pop("seed")
    known["data"] = {**to_json(Reading()), **known["data"]}
    known["tokenization"] = json.loads(json.dumps(to_json(Tokenization()))) | known["tokenization"]
    return known


def _remove(path: Path) -> None:
    if not path.exists():
        return
    if not (path / PLAN).is_file():
        raise UserError(f"'{path}' is not a comparison, so it is not overwritten; choose another name")
    shutil.rmtree(path)


def _common_documents(asked: Comparison, source: TextSource | None) -> Iterable[Documents]:
    if asked.test:
        return Corpus(asked.test, asked.reading).batches()
    assert source is not None
    return (validation for _, _, validation in source.pairs(lambda amount: None))


def _obtain(entrant: Entrant, asked: Comparison, source: TextSource | None, path: Path) -> Run:
    """The run of an entrant: an existing one, one finished before, one resumed, or one trained now."""
    if entrant.run is not None:
        return entrant.run
    folder = path / file_name(entrant.label)
    if (folder / "config.json").is_file():
        return Run(folder)
    if (unfinished(folder) / RESUMABLE).is_file():
        from chainrule.training.pipeline import resume

        return resume(folder, {})
    assert source is not None
    return train(_request(entrant, asked, source, folder))


def _request(entrant: Entrant, asked: Comparison, source: TextSource, folder: Path) -> Request:
    assert entrant.model is not None
    chosen = dict(entrant.settings)
    own, size = chosen.pop("tokenizer", None), chosen.pop("size", None)
    settings: dict[str, object] = {"seed": asked.seed, **chosen}
    module = registry.find("chainrule.models", entrant.model, "model")
    if not issubclass(module.Model, Counts) and not any(name in settings for name in BUDGETS):
        settings["minutes"] = asked.minutes
    return Request(
        inputs=asked.inputs,
        validation=asked.validation,
        model=entrant.model,
        size=size,
        settings=settings,
        reading=asked.reading,
        splitting=asked.splitting,
        tokenization=Tokenization(own) if own else _shared_tokens(asked, source, folder.parent),
        path=folder,
        started_at=time.time(),
    )


def _shared_tokens(asked: Comparison, source: TextSource, path: Path) -> Tokenization:
    """The tokenizer of all models that have none of their own, trained before the time of any model begins."""
    file = path / "tokenizer.json"
    if not file.is_file():
        tokenizer = choose_tokenizer(source, asked.tokenization, DEFAULT_TOKENIZER)
        tokenizer.save(file.with_suffix(".tmp"))
        file.with_suffix(".tmp").replace(file)
    return Tokenization(str(file))


def _line(found: ModelScores, text: CommonText) -> str:
    if not found.is_normalised:
        return f"{found.label}: scores that do not sum to one"
    bits = float(found.nats.sum()) / NATS_PER_BIT / text.total_bytes
    quality = f"{bits:.4f} bits per byte" if found.is_lossless else f"perplexity {found.perplexity:.2f}"
    return f"{found.label}: {quality}, {found.parameters:,} parameters"
