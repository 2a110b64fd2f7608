"""`chainrule forget`: take documents out of an n-gram model again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chainrule.cli import options

if TYPE_CHECKING:
    from collections import Counter

    from chainrule.runs.folder import Run


def command(
    run: options.RunPath,
    inputs: Annotated[list[str], typer.Argument(metavar="TEXT...", help="Documents of the training text.")],
    as_: options.As = None,
    overwrite: options.Overwrite = False,
    field: options.Field = "text",
    encoding: options.Encoding = "auto",
    delimiter: options.Delimiter = "auto",
    as_json: options.Json = False,
) -> None:
    """Remove documents from an n-gram run by subtracting their counts, as if it had never seen them."""
    import numpy as np

    from chainrule.cli.output import plural, print_json, print_notes, say
    from chainrule.data.corpus import Corpus, Reading
    from chainrule.data.split import content_hashes
    from chainrule.errors import UserError
    from chainrule.runs.folder import Run
    from chainrule.runs.making import free_name
    from chainrule.runs.write import store

    loaded = Run(run)
    if loaded.architecture != "ngram":
        raise UserError(f"only n-gram models can forget; '{loaded.path}' is of kind {loaded.architecture}")
    data, tokenizer = loaded.config["data"], loaded.tokenizer
    trained_on = _counted_documents(loaded)
    counted, taken, others = [np.array([tokenizer.eos], np.uint32)], 0, 0
    for documents in Corpus(inputs, Reading(data["unit"], field, encoding, delimiter)).batches():
        hashes = content_hashes(documents).tolist()
        is_known = np.array([trained_on[each] > 0 and not trained_on.subtract([each]) for each in hashes])
        taken += int(is_known.sum())
        others += int((~is_known).sum())
        if is_known.any():
            counted.append(tokenizer.encode_documents(documents.select(is_known)))
    if not taken:
        raise UserError(
            "none of these documents was trained on; they were kept aside for validation, or never part of the text"
        )
    model = loaded.model.without(np.concatenate(counted))  # type: ignore[attr-defined]
    if not model.trie.count[0]:
        raise UserError("these documents are the whole training text, so nothing would be left; leave some out")
    data = {"inputs": data["inputs"], "forgotten": [*data.get("forgotten", []), *inputs], "unit": data["unit"]}
    path = Path(as_) if as_ else free_name(f"{loaded.name}-without", overwrite)
    made = store(path, "ngram", model, tokenizer, data, overwrite, documents=list(trained_on.elements()))
    if as_json:
        print_json({"run": str(made.path), "documents": taken, "never_counted": others, "model": model.describe()})
    else:
        print(made.path)
        print_notes(made.config["notes"])
        rest = f"; {plural(others, 'document')} had never been counted" if others else ""
        say(f"removed: {plural(taken, 'document')}{rest}")


def _counted_documents(run: "Run") -> "Counter[int]":
    """The hashes of the documents that a run was trained on."""
    from collections import Counter

    from chainrule.errors import UserError

    hashes = run.counted_documents()
    if hashes is None:
        raise UserError(
            f"'{run.path}' has no record of its documents, so none can be removed; train it on the text itself"
        )
    return Counter(hashes)
