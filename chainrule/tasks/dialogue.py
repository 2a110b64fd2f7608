"""Conversations: the assistant's answers are learned, each from all that was said before it, by any model of text that
learns by gradient.

In a run, beside the tokenizer: tokens/NAME.safetensors with the rows of a part, tokens/validation.jsonl with the
conversations that were kept aside, and tokens/settings.json. Such a run is a language model like any other.
"""

import json
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from chainrule.checks import require_choice, require_sizes
from chainrule.data.batches import TrainingBatch
from chainrule.data.conversations import read_conversations
from chainrule.data.documents import Documents
from chainrule.data.pairs import as_documents
from chainrule.data.split import decide
from chainrule.errors import UserError
from chainrule.evaluation.figures import Evaluation
from chainrule.evaluation.validation import Validate, Validation, figures_of
from chainrule.generation.answers import answer, compare_answers
from chainrule.models.contract import Counts
from chainrule.runs.records import DataConfig, PartConfig
from chainrule.tasks import base
from chainrule.tasks._conversation_rows import ConversationBatches, Rows, Talk, encode_conversations
from chainrule.tasks._dialogue_figures import LOSS_TOKENS, bytes_per_token, fits, loss_of_rows, measure, questions_of
from chainrule.tasks.base import FOLDER, LANGUAGE, RESERVED_PART, Material, Prepared
from chainrule.text.base import Tokenizer
from chainrule.text.chat import Message
from chainrule.text.choice import make_tokenizer
from chainrule.text.rendering import LEARN_FROM, shown_parts
from chainrule.text.role_tokens import with_roles

SETTINGS, HELD_OUT = "settings.json", "validation.jsonl"
ANSWERING_PART = 0.05  # of a budget goes to the answers at the end
EVALUATED_PART = 0.04  # and this to evaluations before it
EXAMPLE_TOKENS = 300
COMPARED = 8  # questions whose answers before and after are shown


@dataclass(frozen=True)
class Settings:
    learn_from: str = "assistant"  # what is learned: all answers, the last of each conversation, or all that is said
    most_tokens: int = 1024  # longer conversations are cut at turns
    validated: int = 100  # questions of the validation part that are answered at the end

    def __post_init__(self) -> None:
        require_choice("learn_from", self.learn_from, LEARN_FROM)
        require_sizes(self, "most_tokens", "validated")


@dataclass(frozen=True)
class Talks:
    """The conversations to learn from and those to measure on, the files they are from, and notes."""

    train: list[Talk]
    held_out: list[Talk]
    files: list[str]
    notes: list[str]


def _read(material: Material) -> Talks:
    found = read_conversations(material.inputs, material.reading)
    talks: list[Talk] = [each.messages for each in found.all]
    if material.validation:
        other = read_conversations(material.validation, material.reading)
        kept: list[Talk] = [each.messages for each in other.all]
        return Talks(talks, kept, found.files + other.files, found.notes + other.notes)
    is_held_out, notes = split_talks(talks, material)
    train, held_out = ([talks[at] for at in np.flatnonzero(is_held_out == is_out)] for is_out in (False, True))
    return Talks(train, held_out, found.files, found.notes + notes)


def split_talks(talks: Sequence[Talk], material: Material) -> tuple[np.ndarray, list[str]]:
    """Which conversations are kept aside, by a hash of all that is said in them, so that equal ones never part."""
    is_held_out = np.zeros(len(talks), bool)
    if len(talks) == 1:
        return is_held_out, ["nothing is kept aside for validation of a single conversation"]
    documents = as_documents([written(talk) for talk in talks], material.inputs[0])
    split = decide(iter([documents]), material.splitting, "line")
    for _, validation in split(iter([documents])):
        is_held_out[validation.lines - 1] = True
    if is_held_out.all():
        raise UserError("there is no conversation left to train on after the split; lower validation_fraction")
    return is_held_out, [split.note] if split.note else []


def written(talk: Talk) -> str:
    """A conversation as text: 'user: Hello\\nassistant: Hi'"""
    return "\n".join(f"{message.role}: {message.text}" for message in talk)


def _said(talks: Sequence[Talk]) -> Documents:
    """Every message, and who says it, to train a tokenizer on."""
    return as_documents([text for talk in talks for message in talk for text in (message.role, message.text)], "")


def _tokenizer(material: Material, talks: Sequence[Talk]) -> Tokenizer:
    if material.tokenizer is not None:
        return with_roles(material.tokenizer)
    return with_roles(make_tokenizer([_said(talks)], material.tokenization, material.default_tokenizer))


def _describe(talks: Sequence[Talk], rows: Rows) -> PartConfig:
    text = "\n\n".join(map(written, talks)).encode()
    said = sum(len(message.text.encode()) for talk in talks for message in talk)
    return {"documents": len(talks), "tokens": rows.tokens, "bytes": said, "hash": sha256(text).hexdigest()}


class Task(base.Task):
    command = "chat"
    can_begin_from_run = True
    settings_class: ClassVar[type] = Settings

    @classmethod
    def default_model(cls, has_budget: bool, tokenizer: str) -> str:
        return "transformer"

    @classmethod
    def check_model(cls, name: str, module: Any) -> None:
        task = getattr(module, "TASK", LANGUAGE)
        if task != LANGUAGE:
            raise UserError(f"{name} is a model for {task}, not for conversations; choose one such as transformer")
        if issubclass(module.Model, Counts):
            raise UserError(
                f"{name} counts all that it reads, so it cannot learn the answers alone; choose a model that learns by "
                "gradient, such as transformer"
            )

    @classmethod
    def open_data(cls, material: Material, settings: Settings) -> Talks:
        return _read(material)

    @classmethod
    def prepare(cls, material: Material, settings: Settings, talks: Talks, folder: Path) -> Prepared:
        """Split, cut and render the conversations; write tokens, masks and what was kept aside."""
        (folder / FOLDER).mkdir()
        most = min(settings.most_tokens, material.context_length or settings.most_tokens)
        tokenizer = _tokenizer(material, talks.train)
        cls.save_tokenizer(tokenizer, folder)
        (folder / FOLDER / SETTINGS).write_text(json.dumps(asdict(settings)), encoding="utf-8")
        notes, parts = [*talks.notes], dict[str, PartConfig]()
        for name, part, learn_from in (
            ("train", talks.train, settings.learn_from),
            ("validation", talks.held_out, "assistant"),
        ):
            encoded = encode_conversations(tokenizer, part, learn_from, most)
            if part and not encoded.kept:
                raise UserError(f"every exchange of the {name} part has more than {most:,} tokens; raise most_tokens")
            notes += encoded.notes(name, most)
            encoded.rows.save(folder / FOLDER / f"{name}.safetensors")
            kept = [part[place] for place in encoded.kept]
            parts[name] = _describe(kept, encoded.rows)
            if name == "validation":
                _write_talks(folder / FOLDER / HELD_OUT, kept)
        described = {
            "inputs": list(material.inputs), "validation": list(material.validation), "unit": "conversation",
            **vars(settings), **vars(material.splitting), "text": parts,
        }  # fmt: skip
        return Prepared(cast(DataConfig, described), talks.files, notes)

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.settings = Settings(**json.loads((folder / FOLDER / SETTINGS).read_text(encoding="utf-8")))

    @classmethod
    def usages(cls, run: str) -> list[str]:
        return [f"chainrule chat {run}", f"chainrule evaluate {run}"]

    @cached_property
    def rows(self) -> Rows:
        return Rows.load(self.folder / FOLDER / "train.safetensors")

    @cached_property
    def held_out_rows(self) -> Rows:
        return Rows.load(self.folder / FOLDER / "validation.safetensors")

    @cached_property
    def held_out(self) -> list[Talk]:
        """The conversations that were kept aside."""
        path = self.folder / FOLDER / HELD_OUT
        lines = path.read_text(encoding="utf-8").splitlines()
        return [[Message(each["role"], each["content"]) for each in json.loads(line)["messages"]] for line in lines]

    @cached_property
    def bytes_per_token(self) -> float | None:  # type: ignore[override]
        return bytes_per_token(self.tokenizer, self.held_out_rows, self.held_out)

    @cached_property
    def counts(self) -> np.ndarray:  # type: ignore[override]
        return self.rows.counts(self.tokenizer.vocabulary_size)

    def complete(self, config: Any) -> Any:
        """Long enough for every row, which `prepare` has cut where a run to begin from reads less."""
        reads, longest = getattr(config, "context_length", None), max(self.rows.longest, self.held_out_rows.longest)
        return config if reads is None or reads >= longest else replace(config, context_length=longest)

    def build(self, module: Any, config: Any, seed: int) -> Any:
        """With random weights, but for the output bias: it starts at the frequencies of what is asked for."""
        model = super().build(module, config, seed)
        model.set_output_bias(self.counts)
        return model

    def batches(self, recipe: Any) -> ConversationBatches:
        return ConversationBatches(self.rows, self.tokenizer.eos, recipe.batch_size * recipe.window, recipe.seed)

    def validation(self, recipe: Any) -> Validate | None:
        """The loss of the answers in conversations from all over the validation part."""
        rows = self.held_out_rows.some(recipe.evaluation_tokens)
        if not len(rows):
            return None

        def validate(model: Any) -> Validation:
            loss = loss_of_rows(model, rows, self.tokenizer.eos)
            return Validation(figures_of(loss, self.bytes_per_token), loss)

        return validate

    def evaluate(self, model: Any, recipe: Any) -> Evaluation | None:
        if not self.held_out:
            return None
        rows = self.held_out_rows.some(None if recipe is None else recipe.final_tokens)
        minutes = None if recipe is None else recipe.minutes
        seconds = None if minutes is None else ANSWERING_PART * 60 * minutes
        questions = questions_of(self.held_out, self.settings.validated)
        found = measure(model, self.tokenizer, rows, self.bytes_per_token, questions, seconds)
        found["documents"], found["tokens"] = len(self.held_out), self.held_out_rows.asked
        if rows is not self.held_out_rows:
            found["scored_tokens"] = rows.asked
        return found

    def plan_evaluation(
        self, model: Any, recipe: Any, seconds: float, chosen: Collection[str]
    ) -> tuple[dict[str, Any], float]:
        """By how fast this model reads conversations on this machine."""
        if not self.held_out:
            return {}, RESERVED_PART * seconds
        some = self.rows.some(LOSS_TOKENS)
        started_at = time.perf_counter()
        loss_of_rows(model, some, self.tokenizer.eos)
        speed = some.tokens / (time.perf_counter() - started_at)
        held_out, changes = self.held_out_rows.tokens, dict[str, Any]()
        evaluation_tokens, final_tokens = recipe.evaluation_tokens, recipe.final_tokens
        if "evaluation_tokens" not in chosen:
            affordable = int(EVALUATED_PART * seconds * speed / recipe.evaluations)
            changes["evaluation_tokens"] = evaluation_tokens = max(min(affordable, held_out), 1024)
        if "final_tokens" not in chosen and held_out > 2 * EVALUATED_PART * seconds * speed:
            changes["final_tokens"] = final_tokens = max(int(2 * EVALUATED_PART * seconds * speed), 4096)
        scoring = (min(held_out, final_tokens or held_out) + evaluation_tokens) / speed
        return changes, scoring + ANSWERING_PART * seconds

    def example(self) -> list[tuple[str, bool]]:
        """The first conversation that is not long; of a long one, its beginning."""
        lengths = [len(each) for each in self.rows.ids]
        row = next((place for place, length in enumerate(lengths) if length <= EXAMPLE_TOKENS), 0)
        ids, is_asked = (each[row][:EXAMPLE_TOKENS] for each in (self.rows.ids, self.rows.is_asked))
        parts = shown_parts(self.tokenizer, ids, is_asked)
        return [*parts, (" …", False)] if lengths[row] > EXAMPLE_TOKENS else parts

    def compare(self, before: Any, after: Any) -> list[base.Said]:
        """Answers to some questions that were kept aside."""
        reads = getattr(after, "context_length", None)
        talks = [talk for talk in self.held_out if fits(self.tokenizer, talk[:-1], reads)][:COMPARED]
        found = compare_answers(
            (before, self.tokenizer),
            (after, self.tokenizer),
            [talk[:-1] for talk in talks],
            [talk[-1].text for talk in talks],
        )
        return [base.Said(each.question[-1].text, each.before.text, each.after.text, each.expected) for each in found]

    def describe(self, batch: TrainingBatch) -> str:
        said = self.tokenizer.decode(batch.inputs[0][:16], skip_special_tokens=False)
        return f"a batch that begins with {said!r}"

    def sampler(self, model: Any) -> Callable[[], str] | None:
        """A question that was kept aside, with the answer to it."""
        reads = getattr(model, "context_length", None)
        asked = next((each for each in questions_of(self.held_out, 100) if fits(self.tokenizer, each, reads)), None)
        if asked is None:
            return None
        return lambda: f"{asked[-1].text}\n→ {answer(model, self.tokenizer, [asked])[0].text}"


def _write_talks(path: Path, talks: Sequence[Talk]) -> None:
    """As OpenAI writes them, one a line."""
    with path.open("w", encoding="utf-8") as file:
        for talk in talks:
            messages = [{"role": message.role, "content": message.text} for message in talk]
            file.write(json.dumps({"messages": messages}) + "\n")
