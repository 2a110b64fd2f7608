"""How good a run's answers are in conversations: those that training kept aside, or those of some files."""

from typing import Any

from chainrule.api.preferences import PREFERENCES
from chainrule.data.conversations import read_conversations
from chainrule.data.settings import Reading
from chainrule.errors import UserError
from chainrule.runs.folder import Run
from chainrule.tasks._conversation_rows import encode_conversations
from chainrule.tasks._dialogue_figures import bytes_per_token, measure, questions_of
from chainrule.tasks.dialogue import Settings, Task

DIALOGUE = "dialogue"
FILES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv")  # in which a run of conversations looks for such, or for pairs


def holds_conversations(run: Run, names: list[str] | None) -> bool:
    """Whether what is to be measured is conversations or pairs of answers, and not text: what a run of such kept aside,
    and files of records."""
    if run.task not in (DIALOGUE, PREFERENCES):
        return False
    return names is None or all(name.lower().removesuffix(".gz").removesuffix(".zst").endswith(FILES) for name in names)


def evaluate_conversations(run: Run, names: list[str] | None, reading: Reading, validated: int) -> dict[str, Any]:
    """The figures of `Task.evaluate`, of conversations; None: of those that were kept aside."""
    model = run.model
    if names is None:
        found = Task(run.path).evaluate(model, None) if run.task == DIALOGUE else None
        if found is None:
            raise UserError(
                f"'{run.path}' has no conversation kept aside; name some: chainrule evaluate {run.path} CHATS.jsonl"
            )
        return {"run": str(run.path), "inputs": ["validation"], "unit": "conversation", **found, "notes": []}
    read = read_conversations(names, reading)
    talks = [each.messages for each in read.all]
    usual = run.config["data"].get("most_tokens", Settings.most_tokens)
    most = min(int(str(usual)), getattr(model, "context_length", None) or int(str(usual)))
    encoded = encode_conversations(run.tokenizer, talks, "assistant", most)
    if not encoded.kept:
        raise UserError(
            f"every exchange of {', '.join(names)} has more than {most:,} tokens, which is all that is read"
        )
    kept = [talks[place] for place in encoded.kept]
    per_token = bytes_per_token(run.tokenizer, encoded.rows, kept)
    found = measure(model, run.tokenizer, encoded.rows, per_token, questions_of(kept, validated))
    found["documents"] = len(kept)
    notes = [*read.notes, *encoded.notes("", most)]
    return {"run": str(run.path), "inputs": names, "unit": "conversation", **found, "notes": notes}
