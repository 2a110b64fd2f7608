"""Filling a run folder: the same files whether a model was trained, merged or imported."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.config import to_json
from chainrule.runs.card import write_card
from chainrule.runs.folder import COUNTED, Run
from chainrule.runs.making import new_run
from chainrule.storage import save_arrays
from chainrule.tasks._pairs import Settings, save_tokenizers
from chainrule.tasks.base import FOLDER, LANGUAGE
from chainrule.text.base import EOS, Tokenizer
from chainrule.version import __version__


def write_run(
    folder: Path,
    name: str,
    architecture: str,
    model: Any,
    tokenizer: Tokenizer,
    data: dict[str, Any],
    notes: list[str],
    metrics: dict[str, Any],
    started_at: float,
    training: dict[str, Any] | None = None,
    task: str = LANGUAGE,
) -> None:
    """Everything but the token shards; `training` says how a model that learns by gradient learned."""
    tokenizer.save(folder / "tokenizer.json")
    model.save(folder / "model.safetensors")
    metrics = {"event": "trained", **metrics, "parameters": model.num_parameters}
    with open(folder / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(metrics) + "\n")
    settings = {
        "chainrule": __version__,
        **({} if task == LANGUAGE else {"task": task}),
        "architecture": architecture,
        "model": to_json(model.config),
        "tokenizer": {
            "kind": tokenizer.kind,
            "vocabulary_size": tokenizer.vocabulary_size,
            "is_closed": tokenizer.is_closed,
            "hash": tokenizer.fingerprint,
            **(
                {}
                if tokenizer.start == tokenizer.eos and tokenizer.end == EOS
                else {"start": tokenizer.start, "end": tokenizer.end}
            ),
            **({"chat": to_json(tokenizer.chat)} if tokenizer.chat else {}),
        },
        "data": data,
        **({"training": training} if training else {}),
        "started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started_at)),
        "notes": notes + model.notes(),
    }
    (folder / "config.json").write_text(json.dumps(settings, indent=1), encoding="utf-8")
    write_card(folder / "README.md", name, settings, metrics)


def store(
    path: Path,
    architecture: str,
    model: Any,
    tokenizer: Tokenizer,
    data: dict[str, Any],
    overwrite: bool,
    documents: list[int] | None = None,
    notes: list[str] | None = None,
    task: str = LANGUAGE,
    source: Tokenizer | None = None,
) -> Run:
    """A run of a model made of other models or files; `documents` are the hashes of those it has counted.

    `source`: the tokenizer of what is read, where a text is written from another.
    """
    started_at = time.time()
    with new_run(path, overwrite) as folder:
        write_run(
            folder, path.name, architecture, model, tokenizer, data, notes or [], {"validation": None}, started_at,
            task=task,
        )  # fmt: skip
        if source is not None:
            (folder / FOLDER).mkdir()
            save_tokenizers(folder, tokenizer, source, Settings())
        if documents is not None:
            save_arrays(folder / COUNTED, {"hashes": np.array(sorted(documents), np.uint64)})
    return Run(path, task)
