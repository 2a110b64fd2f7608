"""Language modelling: every token is predicted from those before it. Text in, token shards, bits per byte out."""

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chainrule.config import to_json
from chainrule.data.batches import Ring, StreamBatches, TrainingBatch
from chainrule.data.prepare import PreparedText, TextSource, choose_tokenizer, prepare_text
from chainrule.data.shards import Part, TokenShards
from chainrule.errors import UserError
from chainrule.evaluation.figures import CountingFigures, Evaluation
from chainrule.evaluation.stream import evaluate_shards, spread
from chainrule.progress import progress
from chainrule.runs.records import DataConfig, PartConfig
from chainrule.tasks import base
from chainrule.tasks._counting import measure_counting
from chainrule.tasks.base import FOLDER, LANGUAGE, Material, Prepared

if TYPE_CHECKING:
    from chainrule.models._neural import NeuralModel

COUNTING_MODEL = "ngram"  # without a budget: seconds
BUDGET_MODEL = "transformer"
BUDGET_MODELS = {"words": "lstm"}  # by tokenizer, where another was measured to be better
SOURCES = "sources.json"  # of a mixture of texts: where each begins among the shards, and its weight
SAMPLE_TOKENS = 120
COMPARED, COMPARED_WORDS, COMPARED_TOKENS = 4, 8, 30  # documents; tokens that are given of each, and written after them
EVALUATED_PART = 0.04  # of the budget goes to evaluations before the end
SCORED_PART = 0.1  # and no more than this to the validation text at the end


@dataclass(frozen=True)
class Sources:
    """The texts of a mixture: the first shard of each, and its weight in the mix."""

    first_shards: tuple[int, ...] = (0,)
    weights: tuple[float, ...] = (1.0,)

    def write(self, folder: Path) -> None:
        (folder / SOURCES).write_text(dumps(to_json(self)), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> "Sources":
        """One text unless the folder says otherwise."""
        path = folder / SOURCES
        if not path.is_file():
            return cls()
        values = loads(path.read_text(encoding="utf-8"))
        return cls(tuple(values["first_shards"]), tuple(values["weights"]))


class Task(base.Task):
    command = "sample"
    can_begin_from_run = True
    reading_options = ("unit", "field")

    @classmethod
    def default_model(cls, has_budget: bool, tokenizer: str) -> str:
        """Counting takes seconds; a budget asks for a model that learns by gradient."""
        return BUDGET_MODELS.get(tokenizer, BUDGET_MODEL) if has_budget else COUNTING_MODEL

    @classmethod
    def check_model(cls, name: str, module: Any) -> None:
        task = getattr(module, "TASK", LANGUAGE)
        if task != LANGUAGE:
            raise UserError(
                f"{name} is a model for {task}, not for plain text; train it with: chainrule train --task {task} FILE"
            )

    @classmethod
    def open_data(cls, material: Material, settings: base.NoSettings) -> TextSource:
        may_repeat = not material.reads_once
        return TextSource(material.inputs, material.reading, material.splitting, material.validation, may_repeat)

    @classmethod
    def prepare(cls, material: Material, settings: base.NoSettings, source: TextSource, folder: Path) -> Prepared:
        tokenizer = material.tokenizer or choose_tokenizer(source, material.tokenization, material.default_tokenizer)
        text = prepare_text(source, tokenizer, folder / FOLDER)
        cls.save_tokenizer(tokenizer, folder)
        if text.mixture:
            Sources(text.first_shards, tuple(each.weight for each in text.mixture.sources)).write(folder / FOLDER)
        files = [each.path for corpus in source.corpora for each in corpus.files]
        return Prepared(_describe(material, source, text), files, text.notes)

    def __init__(self, folder: Path):
        super().__init__(folder)
        self._shards, self._held_out = (TokenShards(folder / FOLDER, name) for name in ("train", "validation"))
        part, hides_text = self._held_out.part, self._held_out.changed_documents(self.tokenizer)
        self.bytes_per_token = None if hides_text else part.text_bytes / max(part.tokens, 1)

    @classmethod
    def usages(cls, run: str) -> list[str]:
        return [f"chainrule sample {run} --prompt 'The'", f"chainrule evaluate {run} other.txt"]

    @cached_property
    def counts(self) -> np.ndarray:  # type: ignore[override]
        counts = np.zeros(self.tokenizer.vocabulary_size, np.int64)
        for stream in self._streams():
            counts += np.bincount(stream, minlength=len(counts))
        return counts

    def _streams(self) -> Iterator[np.ndarray]:
        for shard in range(len(self._shards)):
            yield self._shards.tokens(shard)

    def fit(self, model: Any) -> Any:
        """A counting model sees every shard once; the validation text may set its interpolation weights."""
        held_out = self._held_out.tokens(0) if self._held_out.part.documents else None
        with progress("counting", self._shards.part.tokens, "tokens") as advance:
            model.fit(self._streams(), held_out, advance)
        return model

    def build(self, module: Any, config: Any, seed: int) -> "NeuralModel":
        """With random weights, but for the output bias: it starts at the frequencies of the tokens."""
        model: NeuralModel = super().build(module, config, seed)
        model.set_output_bias(self.counts)
        return model

    def prime(self, model: "NeuralModel", recipe: Any) -> None:
        """Embeddings by counting neighbours, at the scale of the random ones that they replace."""
        if recipe.first_vectors == "counted":
            from chainrule.tasks._vectors import vectors_by_counting

            table = model.token_table().detach()[: len(self.counts)]
            table.copy_(vectors_by_counting(self._streams(), self.counts, table.shape[1]) * table.std())

    def batches(self, recipe: Any) -> StreamBatches:
        sources = Sources.read(self.folder / FOLDER)
        ends = [*sources.first_shards[1:], len(self._shards)]
        rings = [
            Ring([self._shards.tokens(shard) for shard in range(first, end)])
            for first, end in zip(sources.first_shards, ends, strict=True)
        ]
        return StreamBatches(
            rings,
            sources.weights,
            recipe.batch_size,
            recipe.window,
            recipe.chain,
            recipe.seed,
            recipe.top_layers is not None,
        )

    def validation(self, recipe: Any) -> np.ndarray | None:
        """Pieces from all over the validation text."""
        if not self._held_out.part.documents:
            return None
        return spread(self._held_out.tokens(0), recipe.evaluation_tokens)

    def evaluate(self, model: Any, recipe: Any) -> Evaluation | None:
        most = None if recipe is None else recipe.final_tokens
        return evaluate_shards(model, self.tokenizer, self._held_out, most)

    def plan_evaluation(
        self, model: Any, recipe: Any, seconds: float, chosen: Collection[str]
    ) -> tuple[dict[str, Any], float]:
        """By how fast this model scores text on this machine."""
        scored = self._shards.tokens(0)[: max(4 * recipe.window, 1024)]
        started_at = time.perf_counter()
        model.score(scored)
        speed = (len(scored) - 1) / (time.perf_counter() - started_at)
        held_out, changes = self._held_out.part.tokens, {}
        evaluation_tokens, final_tokens = recipe.evaluation_tokens, recipe.final_tokens
        if "evaluation_tokens" not in chosen:
            affordable = int(EVALUATED_PART * seconds * speed / recipe.evaluations)
            changes["evaluation_tokens"] = evaluation_tokens = max(min(affordable, held_out), 1024)
        if "final_tokens" not in chosen and held_out > SCORED_PART * seconds * speed:
            changes["final_tokens"] = final_tokens = max(int(SCORED_PART * seconds * speed), 4096)
        return changes, (min(held_out, final_tokens or held_out) + evaluation_tokens) / speed

    def measure_counting(self, seconds: float) -> CountingFigures | None:
        return measure_counting(self._shards, self._held_out, self.tokenizer, seconds)

    def compare(self, before: Any, after: Any) -> list[base.Said]:
        """How some documents that were kept aside go on after their first words."""
        from chainrule.generation import Sampling, sample

        part = self._held_out
        if not part.part.documents:
            return []
        settings = Sampling(temperature=0.0, max_tokens=COMPARED_TOKENS, seed=0)
        found = []
        for document in documents_of(part.tokens(0), COMPARED, COMPARED_WORDS):
            asked = self.tokenizer.decode(document[:COMPARED_WORDS])
            first, second = (sample(each, self.tokenizer, asked, settings)[0].text for each in (before, after))
            found.append(base.Said(asked, first, second))
        return found

    def describe(self, batch: TrainingBatch) -> str:
        return f"a batch that begins with {self.tokenizer.decode(batch.inputs[0][:12])!r}"

    def sampler(self, model: Any) -> Callable[[], str]:
        from chainrule.generation import Sampling, sample

        settings = Sampling(temperature=0.8, max_tokens=SAMPLE_TOKENS, seed=0)
        return lambda: sample(model, self.tokenizer, "", settings)[0].text

    def prober(self, model: Any) -> Callable[[], list[dict[str, Any]]] | None:
        from chainrule.tasks._probe import Contexts

        shards = self._held_out if self._held_out.part.documents else self._shards
        contexts = Contexts.choose(shards.tokens(0), self.tokenizer.eos)
        return None if contexts is None else lambda: contexts.look(model, self.tokenizer)


def documents_of(stream: np.ndarray, count: int, longer_than: int) -> list[np.ndarray]:
    """The first documents of a stream eos d1 eos ... eos that have more tokens."""
    ends = np.flatnonzero(stream == stream[0])
    found = (stream[first + 1 : last] for first, last in pairwise(ends) if last - first - 1 > longer_than)
    return list(islice(found, count))


def _describe(material: Material, source: TextSource, text: PreparedText) -> DataConfig:
    """The text, as config.json of the run tells of it."""
    data: DataConfig = {
        "inputs": list(material.inputs),
        "validation": list(material.validation),
        **cast(DataConfig, to_json(material.reading)),
        "unit": text.unit,
        **cast(DataConfig, to_json(material.splitting)),
        "splits": [to_json(split) for split in source.splits],
        "text": {name: _describe_part(part) for name, part in text.parts.items()},
    }
    if text.mixture:
        epochs = text.mixture.epochs(text.mixture.tokens_without_repeats)
        data["mixture"] = [
            {"name": each.name, "bytes": each.size, "weight": share, "epochs": epochs[each.name]}
            for each, share in zip(text.mixture.sources, text.mixture.shares, strict=True)
        ]
    return data


def _describe_part(part: Part) -> PartConfig:
    return {"documents": part.documents, "tokens": part.tokens, "bytes": part.text_bytes, "hash": part.text_hash}
