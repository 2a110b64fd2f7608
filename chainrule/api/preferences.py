"""How well a run tells better answers from worse ones: in the pairs that training kept aside, or in those of files."""

from pathlib import Path
from typing import Any

import numpy as np

from chainrule.data.preferences import read_preferences
from chainrule.data.settings import Reading
from chainrule.errors import UserError
from chainrule.runs.folder import Run
from chainrule.tasks._preference_figures import log_probs_of, measure_pairs
from chainrule.tasks._preference_rows import PairRows, encode_pairs
from chainrule.tasks.preferences import Settings, Task, evaluation_of

PREFERENCES = "preferences"


def evaluate_preferences(run: Run, names: list[str] | None, reading: Reading) -> dict[str, Any]:
    """The figures of `Task.evaluate`, of pairs of answers; None: of those that were kept aside. A run that learned no
    preferences is asked which answer is the likelier one."""
    model = run.model
    if names is None:
        found = Task(run.path).evaluate(model, None) if run.task == PREFERENCES else None
        if found is None:
            raise UserError(f"'{run.path}' has no pairs of answers kept aside; name a file of some")
        return {"run": str(run.path), "inputs": ["validation"], "unit": "pair", **found, "notes": []}
    read = read_preferences(names, reading)
    settings = Task(run.path).settings if run.task == PREFERENCES else Settings()
    most = min(settings.most_tokens, getattr(model, "context_length", None) or settings.most_tokens)
    encoded = encode_pairs(run.tokenizer, read.all, most)
    if not encoded.kept:
        raise UserError(f"every pair of {', '.join(names)} has more than {most:,} tokens, which is all that is read")
    rows, notes = encoded.rows, [*read.notes]
    if len(encoded.kept) < len(read.all):
        notes.append(f"{len(read.all) - len(encoded.kept):,} pairs of more than {most:,} tokens left out")
    reference = None
    if run.task == PREFERENCES and settings.has_reference:
        reference, missing = _reference(run, rows)
        notes += missing
    measured = measure_pairs(model, rows, np.arange(len(rows)), settings, reference, run.tokenizer.eos)
    found = evaluation_of(measured, rows.chosen, run.tokenizer.is_lossless)
    return {"run": str(run.path), "inputs": names, "unit": "pair", **found, "notes": notes}


def _reference(run: Run, rows: PairRows) -> tuple[np.ndarray | None, list[str]]:
    """What the run that training began from thinks of these answers; a note where that run is gone."""
    from chainrule.training.start import begin_from

    start = Path(str(run.config["training"].get("start")))
    try:
        model = begin_from(Run(start), run.model.config, run.tokenizer)
    except UserError:
        name = f"'{start.name}', which training began from, is gone"
        return None, [f"{name}, so only the likelier answer of each pair is told, and no margin"]
    return log_probs_of(model, rows, np.arange(len(rows)), run.tokenizer.eos)[0], []
