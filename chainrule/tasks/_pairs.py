"""What tasks of pairs share: two texts, a tokenizer for both or one for each, batches by tokens, and beams that write.

In a run: tokenizer.json of the target, tokens/source.json where the source has its own, tokens/NAME.safetensors with
the ids of a part, and tokens/validation.json with its texts, to measure against.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from chainrule.checks import require_sizes
from chainrule.data.batches import TrainingBatch
from chainrule.data.buckets import group_by_size
from chainrule.data.corpus import DEFAULT_READING
from chainrule.data.pairs import Fields, Pairs, as_documents, in_one_line, read_pairs
from chainrule.data.settings import Reading
from chainrule.data.split import decide
from chainrule.errors import Argument, UserError
from chainrule.evaluation.figures import Evaluation, LossFigures, loss_figures
from chainrule.evaluation.validation import Validate, Validation
from chainrule.generation.beam import Beam, BeamStep, Hypothesis
from chainrule.generation.search import search
from chainrule.kernels.threads import threads_for
from chainrule.models.contract import Batch
from chainrule.progress import Advance
from chainrule.runs.records import DataConfig
from chainrule.storage import load_arrays, save_arrays
from chainrule.tasks._batches import Ends, PairBatches, condition_of, training_batch
from chainrule.tasks.base import FOLDER, Material, Prepared, Task
from chainrule.text.base import Tokenizer
from chainrule.text.choice import Tokenization, make_tokenizer

SOURCE_TOKENIZER = "source.json"
TEXTS = "validation.json"
SETTINGS = "settings.json"
DEFAULT_TOKENIZER = "bpe"
SENTENCES_AT_ONCE, SOURCE_TOKENS_AT_ONCE = 64, 4096  # whose beams are one batch
LOSS_TOKENS = 4096  # of one batch whose loss is measured
SHOWN = 3  # translations in a sample


@dataclass(frozen=True)
class Settings:
    lowercase: bool = False  # whether both sides are read in small letters
    shared: bool = True  # one vocabulary for both sides
    source: str = "source"  # the names of the two columns or fields
    target: str = "target"
    most_tokens: int = 100  # pairs with a longer side are left out
    validated: int = 400  # pairs that are written anew at every look at the validation part

    def __post_init__(self) -> None:
        require_sizes(self, "most_tokens", "validated")


@dataclass(frozen=True)
class Written:
    """The best targets of one source, best first."""

    texts: list[str]
    found: list[Hypothesis]
    steps: list[BeamStep]


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs to measure a model on: their texts, and the ids of these without eos."""

    sources: list[str]
    targets: list[str]
    source_ids: list[np.ndarray]
    target_ids: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def tokens(self) -> int:
        """Of the targets, each with its eos."""
        return sum(len(each) + 1 for each in self.target_ids)

    @property
    def bytes(self) -> int:
        """Of the targets, each with its line end."""
        return sum(len(text.encode()) + 1 for text in self.targets)


def save_tokenizers(folder: Path, target: Tokenizer, source: Tokenizer, settings: Settings) -> None:
    """What a run needs to write one text from another."""
    target.save(folder / "tokenizer.json")
    if source is not target:
        source.save(folder / FOLDER / SOURCE_TOKENIZER)
    (folder / FOLDER / SETTINGS).write_text(json.dumps(vars(settings)), encoding="utf-8")


def _read(material: Material, settings: Settings) -> tuple[Pairs, Pairs, list[str]]:
    """The pairs to learn from and those to measure by, and what is to be said of them."""
    fields = Fields(settings.source, settings.target)
    pairs = _normal(read_pairs(material.inputs, fields, material.reading), settings)
    if not material.validation:
        return _split(pairs, material)
    held_out = _normal(read_pairs(material.validation, fields, material.reading), settings)
    return pairs, held_out, pairs.notes + held_out.notes


def _short_enough(
    sources: list[np.ndarray], targets: list[np.ndarray], most: int, part: str
) -> tuple[np.ndarray, list[str]]:
    """Which pairs have no side of more tokens, and a note on the others."""
    lengths = np.array([max(map(len, both)) for both in zip(sources, targets, strict=True)], np.int64)
    kept = np.flatnonzero(lengths <= most)
    if len(lengths) and not len(kept):
        raise UserError(f"every {part} pair has a side of more than {most} tokens; raise most_tokens")
    left_out = len(lengths) - len(kept)
    words = f"{left_out:,} {part} pairs with a side of more than {most} tokens were left out (see most_tokens)"
    return kept, [words] if left_out else []


def _normal(pairs: Pairs, settings: Settings) -> Pairs:
    if not settings.lowercase:
        return pairs
    return replace(
        pairs, sources=[each.lower() for each in pairs.sources], targets=[each.lower() for each in pairs.targets]
    )


def _split(pairs: Pairs, material: Material) -> tuple[Pairs, Pairs, list[str]]:
    """By the source's text, so that a sentence and its other translations never part."""
    documents = as_documents(pairs.sources, material.inputs[0])
    split = decide(iter([documents]), material.splitting, "line")
    held_out = np.zeros(len(pairs), bool)
    for _, validation in split(iter([documents])):
        held_out[validation.lines - 1] = True
    if held_out.all():
        raise UserError("there is no pair left to train on after the split; lower validation_fraction")
    notes = pairs.notes + ([split.note] if split.note else [])
    return pairs.select(~held_out), pairs.select(held_out), notes


def _tokenizers(train: Pairs, tokenization: Tokenization, is_shared: bool) -> tuple[Tokenizer, Tokenizer]:
    """Of the target and of the source."""
    sides = [as_documents([f" {text}" for text in side], "pairs") for side in (train.targets, train.sources)]
    if is_shared:
        both = make_tokenizer(sides, tokenization, DEFAULT_TOKENIZER)
        return both, both
    target, source = (make_tokenizer([side], tokenization, DEFAULT_TOKENIZER) for side in sides)
    return target, source


def _encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[np.ndarray]:
    if not texts:
        return []
    stream = tokenizer.encode_documents(as_documents([_spaced(tokenizer, text) for text in texts], "pairs"))
    ends = np.flatnonzero(stream == tokenizer.eos)
    return [each[each != tokenizer.eos].astype(np.int64) for each in np.split(stream, ends + 1)[:-1]]


def _encode_one(tokenizer: Tokenizer, text: str) -> np.ndarray:
    return tokenizer.encode(_spaced(tokenizer, text)).astype(np.int64) if text else np.zeros(0, np.int64)


def _spaced(tokenizer: Tokenizer, text: str) -> str:
    """Every text begins with a space, so that its first word is the same as within a sentence."""
    return text if tokenizer.adds_spaces else f" {text}"


def _save(path: Path, sources: list[np.ndarray], targets: list[np.ndarray]) -> None:
    arrays = {}
    for name, side in (("source", sources), ("target", targets)):
        arrays[name] = np.concatenate([*side, np.zeros(0, np.int64)]).astype(np.uint32)
        arrays[f"{name}_ends"] = np.cumsum([len(each) for each in side], dtype=np.int64)
    save_arrays(path, arrays)


def _load(path: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    arrays, _ = load_arrays(path)
    source, target = (
        np.split(np.asarray(arrays[name], np.int64), arrays[f"{name}_ends"][:-1]) if len(arrays[f"{name}_ends"]) else []
        for name in ("source", "target")
    )
    return source, target


def _describe(part: Pairs, targets: list[np.ndarray]) -> dict[str, Any]:
    from hashlib import sha256

    text = "\n".join(part.targets).encode()
    return {
        "documents": len(part),
        "tokens": sum(len(each) + 1 for each in targets),
        "bytes": len(text),
        "hash": sha256("\n".join(part.sources).encode() + b"\0" + text).hexdigest(),
    }


class PairTask(Task):
    """Learns to write the target of a source; measured by the loss, and by what a greedy decoder writes."""

    models = ("conditional",)
    command = "translate"
    settings_class: ClassVar[type] = Settings

    @classmethod
    def open_data(cls, material: Material, settings: Settings) -> tuple[Pairs, Pairs, list[str]]:
        """The pairs to learn from and those to measure on, and notes."""
        return _read(material, settings)

    @classmethod
    def prepare(
        cls, material: Material, settings: Settings, data: tuple[Pairs, Pairs, list[str]], folder: Path
    ) -> Prepared:
        """Read the pairs, split them, make vocabularies, write token ids."""
        (folder / FOLDER).mkdir()
        train, held_out, notes = data
        target, source = _tokenizers(train, material.tokenization, settings.shared)
        save_tokenizers(folder, target, source, settings)
        parts = {}
        for name, part in (("train", train), ("validation", held_out)):
            sources, targets = _encode(source, part.sources), _encode(target, part.targets)
            kept, note = _short_enough(sources, targets, settings.most_tokens, name)
            part, sources, targets = part.select(kept), [sources[i] for i in kept], [targets[i] for i in kept]
            notes += note
            _save(folder / FOLDER / f"{name}.safetensors", sources, targets)
            parts[name] = _describe(part, targets)
            if name == "validation":
                texts = {"source": part.sources, "target": part.targets}
                (folder / FOLDER / TEXTS).write_text(json.dumps(texts, ensure_ascii=False), encoding="utf-8")
        described = {
            "inputs": list(material.inputs), "validation": list(material.validation), "unit": "pair", **vars(settings),
            **vars(material.splitting), "text": parts,
        }  # fmt: skip
        return Prepared(cast(DataConfig, described), train.files, notes)

    def __init__(self, folder: Path):
        super().__init__(folder)
        own = folder / FOLDER / SOURCE_TOKENIZER
        self.source_tokenizer = Tokenizer.load(own) if own.is_file() else self.tokenizer
        self.settings = Settings(**json.loads((folder / FOLDER / SETTINGS).read_text(encoding="utf-8")))

    @cached_property
    def held_out(self) -> EncodedPairs:
        """The validation part; imported models have none."""
        if not (self.folder / FOLDER / TEXTS).is_file():
            return EncodedPairs([], [], [], [])
        texts = json.loads((self.folder / FOLDER / TEXTS).read_text(encoding="utf-8"))
        return EncodedPairs(texts["source"], texts["target"], *_load(self.folder / FOLDER / "validation.safetensors"))

    def read(self, inputs: Sequence[str], reading: Reading = DEFAULT_READING) -> tuple[EncodedPairs, list[str]]:
        """Any other pairs, as those that were learned from, and notes on them."""
        pairs = _normal(read_pairs(inputs, Fields(self.settings.source, self.settings.target), reading), self.settings)
        ids = _encode(self.source_tokenizer, pairs.sources), _encode(self.tokenizer, pairs.targets)
        return EncodedPairs(pairs.sources, pairs.targets, *ids), pairs.notes

    @property
    def _is_shared(self) -> bool:
        return self.source_tokenizer is self.tokenizer

    @property
    def _ends(self) -> Ends:
        return self.source_tokenizer.eos, self.tokenizer.eos

    def complete(self, config: Any) -> Any:
        size = None if self._is_shared else self.source_tokenizer.vocabulary_size
        longest = max(config.longest, self.settings.most_tokens + 1)  # eos is one more
        return replace(config, source_vocabulary_size=size, longest=longest)

    def batches(self, recipe: Any) -> PairBatches:
        sources, targets = _load(self.folder / FOLDER / "train.safetensors")
        return PairBatches(sources, targets, self._ends, recipe.batch_size * recipe.window, recipe.seed)

    def validation(self, recipe: Any) -> Validate | None:
        return self._validate if len(self.held_out) else None

    def _validate(self, model: Any) -> Validation:
        figures = self._figures(model, self.held_out)
        some = self.settings.validated
        quality = self.measure(model, self.held_out.sources[:some], self.held_out.targets[:some], Beam(width=1))
        rank = figures["loss"] if quality is None else -next(iter(quality.values()))
        assert rank is not None
        return Validation(cast(dict[str, float | None], {**figures, **(quality or {})}), rank)

    def _figures(self, model: Any, part: EncodedPairs) -> LossFigures:
        """Loss in nats per token of the targets, eos included, and what follows from it."""
        import torch

        was_training = model.training
        model.eval()
        total, count = 0.0, 0
        longest = self.longest(model)
        with torch.no_grad():
            sizes = [max(map(len, both)) + 1 for both in zip(part.source_ids, part.target_ids, strict=True)]
            for rows in group_by_size(sizes, LOSS_TOKENS):
                sources = [part.source_ids[i][:longest] for i in rows]
                window = training_batch(sources, [part.target_ids[i] for i in rows], self._ends)
                loss = model.loss(Batch(window.inputs, window.targets, window.condition))
                total, count = total + float(loss.total), count + loss.count
        model.train(was_training)
        return loss_figures(total / max(count, 1), part.bytes / part.tokens if self.tokenizer.is_lossless else None)

    def measure(self, model: Any, sources: list[str], targets: list[str], beam: Beam) -> dict[str, float] | None:
        """How near what it writes comes to these targets; first what the task ranks by."""
        raise NotImplementedError

    def evaluate(self, model: Any, recipe: Any) -> Evaluation | None:
        return self.evaluate_on(model, self.held_out) if len(self.held_out) else None

    def evaluate_on(self, model: Any, part: EncodedPairs) -> Evaluation:
        loss = self._figures(model, part)
        return {
            "loss": loss["loss"],
            "perplexity": loss["perplexity"],
            "bits_per_byte": loss["bits_per_byte"],
            "impossible_tokens": 0,
            "tokens": part.tokens,
            "documents": len(part),
            "bytes": part.bytes,
            "figures": self.measure(model, part.sources, part.targets, Beam(width=5)) or {},
        }

    def describe(self, window: TrainingBatch) -> str:
        return f"a batch that begins with {self.tokenizer.decode(window.inputs[0][1:13])!r}"

    def sampler(self, model: Any) -> Callable[[], str] | None:
        sources = self.held_out.sources[:SHOWN]
        if not sources:
            return None

        def write() -> str:
            written = self.write(model, sources, Beam(width=1), truncate=True)
            return "\n".join(f"{source} → {each.texts[0]}" for source, each in zip(sources, written, strict=True))

        return write

    def encode_source(self, text: str) -> np.ndarray:
        """As one of `encode_sources`; nothing of the text is remembered."""
        return _encode_one(self.source_tokenizer, self._as_read(text))

    def encode_sources(self, texts: Sequence[str]) -> list[np.ndarray]:
        encoded = _encode(self.source_tokenizer, [self._as_read(text) for text in texts])
        return [ids if text.strip() else ids[:0] for text, ids in zip(texts, encoded, strict=True)]

    def encode_target(self, text: str) -> np.ndarray:
        return _encode_one(self.tokenizer, self._as_read(text))

    def _as_read(self, text: str) -> str:
        text = in_one_line(text)
        return text.lower() if self.settings.lowercase else text

    def condition(self, sources: Sequence[np.ndarray]) -> dict[str, Any]:
        return condition_of(sources, self._ends[0])

    def longest(self, model: Any) -> int:
        """How many tokens of a source it reads, beside the eos."""
        return int(model.config.longest) - 1

    def beam_for(self, source: np.ndarray, beam: Beam) -> Beam:
        """No target is much longer than its source."""
        return replace(beam, max_tokens=min(beam.max_tokens, 2 * len(source) + 20))

    def text_of(self, found: Hypothesis) -> str:
        return self.tokenizer.decode(found.words).strip()

    def write(
        self, model: Any, texts: Sequence[str], beam: Beam, truncate: bool = False, advance: Advance | None = None
    ) -> list[Written]:
        """The best targets of every source, many sources at a time; of an empty one, an empty text.

        `advance` hears how many more are done.
        """
        was_training = model.training
        model.eval()
        sources = self._readable(model, self.encode_sources(texts), truncate)
        found: list[Written | None] = [None if len(each) else Written([""], [], []) for each in sources]
        asked = [i for i, each in enumerate(sources) if len(each)]
        for group in group_by_size([len(sources[i]) for i in asked], SOURCE_TOKENS_AT_ONCE, SENTENCES_AT_ONCE):
            rows = [asked[i] for i in group]
            beams = [self.beam_for(sources[row], beam) for row in rows]
            tree: list[list[BeamStep]] = []
            condition = self.condition([sources[row] for row in rows])
            with threads_for(model, len(rows) * beam.width):
                texts_found = search(model, condition, self.tokenizer.eos, beams, tree)
            for row, each, steps in zip(rows, texts_found, tree, strict=True):
                found[row] = Written([self.text_of(one) for one in each], each, steps)
            if advance is not None:
                advance(len(rows))
        model.train(was_training)
        return [each for each in found if each is not None]

    def _readable(self, model: Any, sources: list[np.ndarray], truncate: bool) -> list[np.ndarray]:
        longest = self.longest(model)
        for line, source in enumerate(sources, start=1):
            if len(source) > longest and not truncate:
                found = f"line {line} has {len(source)} tokens but this model reads {longest}"
                raise UserError(f"{found}; shorten it", remedy=Argument("truncate"))
        return [source[:longest] for source in sources]
