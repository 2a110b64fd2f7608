"""Preferences: of two answers to the same prompt, the better one becomes likelier, and the worse one less likely.

In a run, beside the tokenizer: tokens/NAME.safetensors with the rows of a part, tokens/validation.jsonl with the pairs
that were kept aside, and tokens/settings.json; with DPO also reference.safetensors, what the model that training began
from thought of the answers. Such a run is a language model like any other.
"""

import json
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from chainrule.data.batches import TrainingBatch
from chainrule.data.preferences import Preference, read_preferences
from chainrule.errors import UserError
from chainrule.evaluation.figures import Evaluation, loss_figures
from chainrule.evaluation.validation import Validate, Validation
from chainrule.generation.answers import answer, compare_answers
from chainrule.runs.records import DataConfig, PartConfig
from chainrule.tasks import base
from chainrule.tasks._dialogue_figures import fits
from chainrule.tasks._preference_figures import (
    AT_ONCE,
    PairFigures,
    keep_reference,
    load_reference,
    log_probs_of,
    measure_pairs,
)
from chainrule.tasks._preference_rows import PairRows, PreferenceBatches, encode_pairs
from chainrule.tasks._preference_settings import RATES
from chainrule.tasks._preference_settings import Settings as Settings
from chainrule.tasks.base import FOLDER, LANGUAGE, RESERVED_PART, Material, Prepared
from chainrule.tasks.dialogue import COMPARED, split_talks, written
from chainrule.text.chat import Message
from chainrule.text.rendering import shown_parts
from chainrule.text.role_tokens import with_roles

SETTINGS, HELD_OUT = "settings.json", "validation.jsonl"
EVALUATED_PART = 0.04  # of a budget goes to evaluations before the end
SCORED_PART = 0.08  # and no more than this to the evaluation at the end
EXAMPLE_TOKENS = 300
PER = "token of the chosen answers, their ends counted"


@dataclass(frozen=True)
class Pairs:
    """The pairs to learn from and those to measure on, the files they are from, and notes."""

    train: list[Preference]
    held_out: list[Preference]
    files: list[str]
    notes: list[str]


def _read(material: Material) -> Pairs:
    found = read_preferences(material.inputs, material.reading)
    if material.validation:
        other = read_preferences(material.validation, material.reading)
        return Pairs(found.all, other.all, found.files + other.files, found.notes + other.notes)
    is_held_out, notes = split_talks([pair.prompt for pair in found.all], material)
    train, held_out = ([found.all[at] for at in np.flatnonzero(is_held_out == is_out)] for is_out in (False, True))
    return Pairs(train, held_out, found.files, found.notes + notes)


def _describe(pairs: Sequence[Preference], rows: PairRows) -> PartConfig:
    texts = [f"{written(pair.prompt)}\n+ {pair.chosen.text}\n- {pair.rejected.text}" for pair in pairs]
    said = [message.text for pair in pairs for message in (*pair.prompt, *pair.answers)]
    digest = sha256("\n\n".join(texts).encode()).hexdigest()
    size = sum(len(text.encode()) for text in said)
    return {"documents": len(pairs), "tokens": rows.rows.tokens, "bytes": size, "hash": digest}


class Task(base.Task):
    command = "chat"
    can_begin_from_run = True
    needs_run = True
    settings_class: ClassVar[type] = Settings

    @classmethod
    def default_model(cls, has_budget: bool, tokenizer: str) -> str:
        return "transformer"

    @classmethod
    def check_model(cls, name: str, module: Any) -> None:
        """Whatever training can begin from will do."""
        if getattr(module, "TASK", LANGUAGE) != LANGUAGE:
            raise UserError(f"{name} is a model for {module.TASK}, not for conversations; begin from a language model")

    @classmethod
    def suggest(cls, recipe: Any, settings: Settings) -> dict[str, Any]:
        """Smaller steps where nothing but a margin is asked for: large ones spoil what the model can say."""
        return {"learning_rate": recipe.learning_rate * RATES[settings.method]}

    @classmethod
    def check_recipe(cls, recipe: Any) -> None:
        if recipe.engine != "torch":
            raise UserError(f"preferences are learned by the engine torch alone, got {recipe.engine}; leave it out")

    @classmethod
    def open_data(cls, material: Material, settings: Settings) -> Pairs:
        return _read(material)

    @classmethod
    def prepare(cls, material: Material, settings: Settings, pairs: Pairs, folder: Path) -> Prepared:
        """Render the pairs; write tokens, masks and what was kept aside."""
        assert material.tokenizer is not None
        (folder / FOLDER).mkdir()
        most = min(settings.most_tokens, material.context_length or settings.most_tokens)
        tokenizer = with_roles(material.tokenizer)
        cls.save_tokenizer(tokenizer, folder)
        (folder / FOLDER / SETTINGS).write_text(json.dumps(asdict(settings)), encoding="utf-8")
        notes, parts = [*pairs.notes], dict[str, PartConfig]()
        for name, part in (("train", pairs.train), ("validation", pairs.held_out)):
            encoded = encode_pairs(tokenizer, part, most)
            if part and not encoded.kept:
                raise UserError(f"every pair of the {name} part has more than {most:,} tokens; raise most_tokens")
            notes += _note_on_long(len(part) - len(encoded.kept), name, most)
            encoded.rows.save(folder / FOLDER / f"{name}.safetensors")
            kept = [part[place] for place in encoded.kept]
            parts[name] = _describe(kept, encoded.rows)
            if name == "validation":
                _write_pairs(folder / FOLDER / HELD_OUT, kept)
        described = {
            "inputs": list(material.inputs), "validation": list(material.validation), "unit": "pair",
            **settings.complete(), **vars(material.splitting), "text": parts,
        }  # fmt: skip
        return Prepared(cast(DataConfig, described), pairs.files, notes)

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.settings = Settings(**json.loads((folder / FOLDER / SETTINGS).read_text(encoding="utf-8")))

    @classmethod
    def usages(cls, run: str) -> list[str]:
        return [f"chainrule chat {run}", f"chainrule evaluate {run}"]

    @cached_property
    def rows(self) -> PairRows:
        return PairRows.load(self.folder / FOLDER / "train.safetensors")

    @cached_property
    def held_out_rows(self) -> PairRows:
        return PairRows.load(self.folder / FOLDER / "validation.safetensors")

    @cached_property
    def held_out(self) -> list[list[Message]]:
        """The prompts that were kept aside, each with its chosen answer."""
        found = []
        for line in (self.folder / FOLDER / HELD_OUT).read_text(encoding="utf-8").splitlines():
            pair = json.loads(line)
            found.append([Message(each["role"], each["content"]) for each in [*pair["prompt"], *pair["chosen"]]])
        return found

    def batches(self, recipe: Any) -> PreferenceBatches:
        return PreferenceBatches(self.rows, self.tokenizer.eos, recipe.batch_size * recipe.window, recipe.seed)

    def objective(self, model: Any, recipe: Any, read: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
        """The loss of the method. With LoRA, the reference is the model without its updates; otherwise what it thinks
        of all pairs as training begins is kept on disk."""
        import torch

        from chainrule.tasks._preference_loss import Objective

        reference = None
        if self.settings.has_reference:
            parts = {"validation": self.held_out_rows} | ({} if recipe.lora else {"train": self.rows})
            kept = keep_reference(self.folder, model, parts, self.tokenizer.eos)
            reference = None if recipe.lora else torch.from_numpy(kept["train"])
        return Objective(model, self.settings, reference, read)

    def validation(self, recipe: Any) -> Validate | None:
        """The same loss, of pairs from all over the validation part."""
        pairs = self.held_out_rows.some(recipe.evaluation_tokens)
        if not len(pairs):
            return None

        def validate(model: Any) -> Validation:
            found = self._measure(model, pairs)
            assert found.loss is not None
            figures = {"loss": found.loss, "perplexity": None, "bits_per_byte": None, **preference_figures(found)}
            return Validation(figures, found.loss)

        return validate

    def _measure(self, model: Any, pairs: np.ndarray) -> PairFigures:
        reference = load_reference(self.folder).get("validation")
        return measure_pairs(model, self.held_out_rows, pairs, self.settings, reference, self.tokenizer.eos)

    def evaluate(self, model: Any, recipe: Any) -> Evaluation | None:
        if not len(self.held_out_rows):
            return None
        pairs = self.held_out_rows.some(None if recipe is None else recipe.final_tokens)
        measured = self._measure(model, pairs)
        found = evaluation_of(measured, self.held_out_rows.chosen, self.tokenizer.is_lossless)
        if len(pairs) < len(self.held_out_rows):
            found["scored_tokens"] = measured.chosen_tokens
        return found

    def plan_evaluation(
        self, model: Any, recipe: Any, seconds: float, chosen: Collection[str]
    ) -> tuple[dict[str, Any], float]:
        """By how fast this model reads pairs on this machine."""
        held_out, changes = self.held_out_rows.rows.tokens, dict[str, Any]()
        if not held_out:
            return {}, RESERVED_PART * seconds
        some = self.rows.some(AT_ONCE)
        started_at = time.perf_counter()
        log_probs_of(model, self.rows, some, self.tokenizer.eos)
        speed = self.rows.sizes[some].sum() / (time.perf_counter() - started_at)
        evaluation_tokens, final_tokens = recipe.evaluation_tokens, recipe.final_tokens
        if "evaluation_tokens" not in chosen:
            affordable = int(EVALUATED_PART * seconds * speed / recipe.evaluations)
            changes["evaluation_tokens"] = evaluation_tokens = max(min(affordable, held_out), 1024)
        if "final_tokens" not in chosen and held_out > SCORED_PART * seconds * speed:
            changes["final_tokens"] = final_tokens = max(int(SCORED_PART * seconds * speed), 4096)
        return changes, (min(held_out, final_tokens or held_out) + evaluation_tokens) / speed

    def example(self) -> list[tuple[str, bool]]:
        """The first pair that is not long: the prompt, the answer that is preferred, and the other one."""
        place = next((at for at, size in enumerate(self.rows.sizes) if size <= 2 * EXAMPLE_TOKENS), 0)
        rows = self.rows.rows
        (chosen, is_asked), (rejected, is_other) = (
            (rows.ids[row][:EXAMPLE_TOKENS], rows.is_asked[row][:EXAMPLE_TOKENS]) for row in (2 * place, 2 * place + 1)
        )
        other = "".join(text for text, _ in shown_parts(self.tokenizer, rejected[is_other], is_other[is_other]))
        return [*shown_parts(self.tokenizer, chosen, is_asked), (f"\nrather than: {other}", False)]

    def compare(self, before: Any, after: Any) -> list[base.Said]:
        """Answers to some prompts that were kept aside, beside the chosen ones."""
        reads = getattr(after, "context_length", None)
        talks = [talk for talk in self.held_out if fits(self.tokenizer, talk[:-1], reads)][:COMPARED]
        prompts, expected = [talk[:-1] for talk in talks], [talk[-1].text for talk in talks]
        found = compare_answers((before, self.tokenizer), (after, self.tokenizer), prompts, expected)
        return [base.Said(each.question[-1].text, each.before.text, each.after.text, each.expected) for each in found]

    def describe(self, batch: TrainingBatch) -> str:
        said = self.tokenizer.decode(batch.inputs[0, 0][:16], skip_special_tokens=False)
        return f"a batch of pairs that begins with {said!r}"

    def sampler(self, model: Any) -> Callable[[], str] | None:
        """A prompt that was kept aside, with the model's answer to it."""
        reads = getattr(model, "context_length", None)
        asked = next((each[:-1] for each in self.held_out if fits(self.tokenizer, each[:-1], reads)), None)
        if asked is None:
            return None
        return lambda: f"{asked[-1].text}\n→ {answer(model, self.tokenizer, [asked])[0].text}"


def preference_figures(found: PairFigures) -> dict[str, float]:
    """The figures beyond the loss by their names; shares in per cent."""
    shares = {"accuracy": found.accuracy, "chosen likelier": found.likelier}
    return {name: 100 * value for name, value in shares.items() if value is not None} | (
        {} if found.margin is None else {"margin": found.margin}
    )


def evaluation_of(measured: PairFigures, chosen: Any, is_lossless: bool) -> Evaluation:
    """The loss of the chosen answers, as of any text, and in `figures` how well they are told from the others."""
    per_token = sum(chosen.answer_bytes) / max(chosen.asked, 1)
    loss = loss_figures(measured.chosen_nats / max(measured.chosen_tokens, 1), per_token if is_lossless else None)
    figures = preference_figures(measured)
    if measured.loss is not None:
        figures["preference loss"] = measured.loss
    return {
        "loss": loss["loss"],
        "perplexity": loss["perplexity"],
        "bits_per_byte": loss["bits_per_byte"],
        "impossible_tokens": 0,
        "tokens": chosen.asked,
        "documents": len(chosen),
        "bytes": sum(chosen.answer_bytes),
        "per": PER,
        "figures": figures,
    }


def _note_on_long(count: int, part: str, most: int) -> list[str]:
    if not count:
        return []
    pairs = f"{count:,} {part} pair{'s' * (count > 1)}"
    return [f"{pairs} of more than {most:,} tokens left out (see most_tokens)"]


def _write_pairs(path: Path, pairs: Sequence[Preference]) -> None:
    """As messages, a pair a line."""
    with path.open("w", encoding="utf-8") as file:
        for pair in pairs:
            sides = {"prompt": pair.prompt, "chosen": [pair.chosen], "rejected": [pair.rejected]}
            messages = {
                name: [{"role": each.role, "content": each.text} for each in side] for name, side in sides.items()
            }
            file.write(json.dumps(messages) + "\n")
