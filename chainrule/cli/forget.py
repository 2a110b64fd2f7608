"""`chainrule forget`: take documents out of an n-gram model again."""

from pathlib import Path
from typing import Annotated

import typer

from chainrule.cli import options


def command(
    run: options.RunPath,
    inputs: Annotated[
        list[str], typer.Argument(metavar="TEXT...", help="Documents that were part of the training text.")
    ],
    as_: options.As = None,
    overwrite: options.Overwrite = False,
    field: options.Field = "text",
    encoding: options.Encoding = "auto",
    as_json: options.Json = False,
) -> None:
    """Make a run that has never seen these documents, by subtracting their counts."""
    import numpy as np

    from chainrule.cli.output import plural, print_json, print_notes, say
    from chainrule.data.corpus import Corpus, Reading
    from chainrule.data.split import Split
    from chainrule.errors import UserError
    from chainrule.runs.folder import Run, free_name
    from chainrule.runs.write import store

    loaded = Run(run)
    if loaded.architecture != "ngram":
        raise UserError(f"only n-gram models can forget; '{loaded.path}' is of kind {loaded.architecture}")
    data, tokenizer = dict(loaded.config["data"]), loaded.tokenizer
    splits = data.get("splits") or [{}]
    # Documents kept aside for validation were never counted; a split by position cannot tell, so all count there.
    split = Split(below=splits[0].get("below", 0.0), seed=splits[0].get("seed", 0))
    corpus = Corpus(inputs, Reading(data["unit"], field, encoding))
    counted, aside = [np.array([tokenizer.eos], np.uint32)], 0
    taken = 0
    for train, validation in split(corpus.batches()):
        aside += len(validation)
        taken += len(train)
        if len(train):
            counted.append(tokenizer.encode_documents(train))
    if not taken:
        raise UserError("none of these documents was counted: all were kept aside for validation")
    model = loaded.model.without(np.concatenate(counted))  # type: ignore[attr-defined]
    if not model.trie.count[0]:
        raise UserError("nothing would be left: these documents are all that was counted")
    data = {"inputs": data["inputs"], "forgotten": [*data.get("forgotten", []), *inputs], "unit": data["unit"]}
    path = Path(as_) if as_ else free_name(f"{loaded.name}-without")
    made = store(path, "ngram", model, tokenizer, data, overwrite)
    if as_json:
        print_json({"run": str(made.path), "documents": taken, "never_counted": aside, "model": model.describe()})
    else:
        print(made.path)
        print_notes(made.config["notes"])
        kept = f"; {plural(aside, 'document')} had been kept aside for validation" if aside else ""
        say(f"taken out: {plural(taken, 'document')}{kept}")
