"""`chainrule mix`: makes a run that mixes other runs."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chainrule.analysis.mix.fit import add_cache, fit
from chainrule.analysis.mix.gain import measure_gain
from chainrule.analysis.mix.text import read_text
from chainrule.analysis.mix.tokens import check_same_tokens
from chainrule.data.corpus import Corpus, Reading
from chainrule.errors import Argument, UserError
from chainrule.models.contract import learns
from chainrule.models.mix import Config, Model
from chainrule.runs.folder import KeptAside, Run
from chainrule.runs.making import check_free, free_name, new_run
from chainrule.runs.records import DataConfig, TrainingFigures
from chainrule.runs.write import RunContents, write_run

ON = Argument("on", "TEXT")


@dataclass(frozen=True)
class MixRequest:
    """Which runs to mix, how, and on which text to fit the weights."""

    runs: tuple[Run, ...]
    config: Config = field(default_factory=Config)
    cache: bool = False
    on: tuple[str, ...] = ()  # the text to fit on; empty: the validation text of the runs
    test: tuple[str, ...] = ()
    path: Path | None = None
    overwrite: bool = False
    started_at: float = field(default_factory=time.time)


def mix(request: MixRequest) -> Run:
    """Make the run; its last metrics are the figures on the text that it was fitted on and on the test text."""
    path = request.path or free_name("mix", request.overwrite)
    check_free(path, request.overwrite)
    _check(request)
    first = request.runs[0]
    fitted_on, tested_on = _text_to_fit_on(request), _corpus(first, request.test) if request.test else None
    with new_run(path, request.overwrite) as folder:  # from here on the name is taken
        model = Model(request.config, [run.model for run in request.runs], [str(run.path) for run in request.runs])
        text = read_text(model, first.tokenizer, fitted_on.batches())
        if request.cache:
            model, text = add_cache(model, text)
        model = fit(model, text)
        validation = measure_gain(model, text)
        test = measure_gain(model, read_text(model, first.tokenizer, tested_on.batches())) if tested_on else None
        metrics: TrainingFigures = {
            "seconds": round(time.time() - request.started_at, 3),
            "validation": validation,
            "test": test,
        }
        data, notes = _describe_data(request), _notes(fitted_on, tested_on)
        contents = RunContents(
            path.name, "mix", model, first.tokenizer, data, notes, metrics, request.started_at
        )  # fmt: skip
        write_run(folder, contents)
    return Run(path)


def _check(request: MixRequest) -> None:
    if len(request.runs) + request.cache < 2:
        raise UserError(f"a mix needs at least two parts, got {len(request.runs)} run; name another", Argument("cache"))
    check_same_tokens(request.runs)
    for run in request.runs:
        if not run.model.is_normalised:
            raise UserError(
                f"'{run.path}' gives scores that do not sum to one, so it cannot be mixed; use another smoothing"
            )
    if request.config.dynamic and not any(learns(run.model) for run in request.runs):
        raise UserError(
            "none of these runs was trained by gradient descent, which dynamic evaluation needs; leave dynamic out"
        )


def _text_to_fit_on(request: MixRequest) -> Corpus | KeptAside:
    """The text that was named, or the validation text that all runs share and that none was trained on."""
    if request.on:
        return _corpus(request.runs[0], request.on)
    kept = [run.config["data"].get("text", {}).get("validation") for run in request.runs]
    for run, part in zip(request.runs, kept, strict=True):
        if part is None or not part["documents"] or not run.has_shards:
            raise UserError(
                f"'{run.path}' has no text kept aside to fit the weights on; name one that it has not seen",
                ON,
            )
        if kept[0] and part["hash"] != kept[0]["hash"]:
            raise UserError(
                f"'{request.runs[0].path}' and '{run.path}' kept different texts aside, and one may have learned what "
                "the other kept; name a text that none of them has seen",
                ON,
            )
    return KeptAside(request.runs[0])


def _corpus(run: Run, inputs: Sequence[str]) -> Corpus:
    """A text that is cut as `chainrule evaluate` cuts it; otherwise it is read as the run's own text was."""
    data, usual = run.config["data"], Reading()
    own = (data.get("field", usual.field), data.get("encoding", usual.encoding), data.get("delimiter", usual.delimiter))
    return Corpus(inputs, Reading(usual.unit, *own))


def _describe_data(request: MixRequest) -> DataConfig:
    return {
        "inputs": list(dict.fromkeys(each for run in request.runs for each in run.config["data"]["inputs"])),
        "unit": request.runs[0].config["data"]["unit"],
        "mixed": [str(run.path) for run in request.runs] + ["cache"] * request.cache,
        "fitted_on": list(request.on) or ["validation"],
    }


def _notes(fitted_on: Corpus | KeptAside, tested_on: Corpus | None) -> list[str]:
    bias = "the weights were fitted on the validation text, so its figures flatter the mix a little"
    return [*fitted_on.notes, *(tested_on.notes if tested_on else []), bias]
