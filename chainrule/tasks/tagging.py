"""A tag for every word: CoNLL-U in, a tagger out (`chainrule tag`)."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from chainrule.checks import require_number
from chainrule.config import to_json
from chainrule.data import conllu
from chainrule.data.batches import TrainingBatch
from chainrule.data.buckets import Buckets
from chainrule.data.documents import Documents
from chainrule.data.pairs import as_documents
from chainrule.data.split import Splitting, content_fractions
from chainrule.errors import UserError
from chainrule.evaluation.figures import Evaluation, loss_figures
from chainrule.evaluation.validation import Validate, Validation, figures_of
from chainrule.models.contract import IGNORE
from chainrule.runs.records import DataConfig
from chainrule.tagging.case import Sightings
from chainrule.tagging.collate import Vocabulary, collate, spelled
from chainrule.tagging.measure import measure, measure_baselines
from chainrule.tagging.spelling import NONE, rarities, rarity_of
from chainrule.tagging.tagset import TagSet
from chainrule.tasks import base
from chainrule.tasks.base import FOLDER, Material, Prepared
from chainrule.text.choice import Tokenization, make_tokenizer

TRAIN, VALIDATION = "train.conllu", "validation.conllu"
TAGS, SIGHTINGS, SETTINGS = "tags.json", "sightings.json", "settings.json"
SHOWN_SENTENCES = 3

Sentences = tuple[list[conllu.Sentence], list[conllu.Sentence], list[str]]  # for training, for validation; notes


@dataclass(frozen=True)
class Settings:
    columns: str = "upos xpos"  # of CoNLL-U, to be filled in
    beside: str = ""  # learned too where that helps, and then not used
    unknown_words: float = 0.5  # α: a word seen c times is read as an unknown one α / (α + c) of the time
    unknown_parts: float = 1.0  # the same of a part of words that c different words have

    def __post_init__(self) -> None:
        require_number("unknown_words", self.unknown_words, 0)
        require_number("unknown_parts", self.unknown_parts, 0)
        for name in (*split_names(self.columns), *split_names(self.beside)):
            if name not in conllu.COLUMNS[2:8]:
                raise UserError(f"columns must be among {', '.join(conllu.COLUMNS[2:8])}, got '{name}'")


def split_names(names: str) -> list[str]:
    return list(dict.fromkeys(names.replace(",", " ").split()))


def _tokenization(asked: Tokenization) -> Tokenization:
    """Words seen once are left out, so that what they have in common, being rare, can be learned."""
    if asked.tokenizer not in ("auto", "words"):
        raise UserError(
            f"a tagger reads the words of CoNLL-U, so it takes no tokenizer such as {asked.tokenizer}; leave it out"
        )
    return replace(asked, min_count=asked.min_count or 2, closed_vocabulary=True)


def _read(material: Material) -> Sentences:
    """Sentences to train on and to measure on, and notes."""
    encoding = material.reading.encoding
    sentences = conllu.read(material.inputs, encoding)
    if material.validation:
        return sentences, conllu.read(material.validation, encoding), []
    kept = _kept_aside(sentences, material.splitting)
    train = [sentence for sentence, is_kept in zip(sentences, kept, strict=True) if not is_kept]
    validation = [sentence for sentence, is_kept in zip(sentences, kept, strict=True) if is_kept]
    if not train:
        raise UserError("there is no sentence left to train on; lower validation_fraction or give more sentences")
    return train, validation, [] if validation else ["no sentence was kept aside, so the result is not measured"]


def _kept_aside(sentences: list[conllu.Sentence], splitting: Splitting) -> np.ndarray:
    """Which sentences are for validation: the last ones, or those that a hash of their words picks."""
    if splitting.split == "tail":
        return np.arange(len(sentences)) >= round(len(sentences) * (1 - splitting.fraction))
    fractions = content_fractions(_as_documents(sentences), splitting.split_seed)
    kept: np.ndarray = fractions < splitting.fraction
    return kept


def _as_documents(sentences: Sequence[conllu.Sentence]) -> Documents:
    """The words alone, with spaces between them."""
    return as_documents([" ".join(map(spelled, sentence.words)) for sentence in sentences], "")


def _describe_part(sentences: list[conllu.Sentence]) -> dict[str, Any]:
    text = "\n".join(" ".join(sentence.words) for sentence in sentences).encode()
    words = sum(len(sentence.words) for sentence in sentences)
    digest = hashlib.sha256(text).hexdigest()
    return {"documents": len(sentences), "tokens": words, "bytes": len(text), "hash": digest}


class SentenceBatches:
    """Batches of sentences of similar length, about batch_size × window words each."""

    def __init__(self, task: "Task", recipe: Any):
        self.sentences = [sentence.words for sentence in task.train]
        self.ids = [task.vocabulary.ids(words) for words in self.sentences]
        self.tags = [task.tagset.numbers(sentence) for sentence in task.train]
        self.padding, self.unknown, self.seed = task.vocabulary.padding, task.vocabulary.unknown, recipe.seed
        self.lengths = np.array([len(words) for words in self.sentences])
        self.buckets = Buckets(self.lengths, recipe.batch_size * recipe.window, recipe.seed)
        counts = np.bincount(np.concatenate(self.ids), minlength=task.tokenizer.vocabulary_size)
        rate = task.settings.unknown_words
        self.dropped = np.where(counts > 0, rate / np.maximum(rate + counts, 1e-9), 0.0)  # by word, how often
        self.sightings = task.sightings
        self.rarities = rarities(self.sentences, task.settings.unknown_parts)

    @property
    def batch_size(self) -> int:
        return max(self.buckets.sizes)

    @property
    def length(self) -> int:
        return int(self.lengths.max())

    @property
    def tokens_per_step(self) -> float:
        return self.tokens_per_epoch / len(self.buckets)

    @property
    def tokens_per_epoch(self) -> int:
        return int(self.lengths.sum())

    def batch(self, step: int) -> TrainingBatch:
        generator = np.random.Generator(np.random.Philox(key=[self.seed, step]))
        rows = self.buckets.rows(step)
        ids = [self.ids[row] for row in rows]
        ids = [np.where(generator.random(len(each)) < self.dropped[each], self.unknown, each) for each in ids]
        sentences = [self.sentences[row] for row in rows]
        window = collate(sentences, ids, [self.tags[row] for row in rows], self.padding, self.sightings)
        parts = window.condition["parts"]
        is_lost = generator.random(parts.shape, np.float32) < rarity_of(sentences, self.rarities, parts.shape)
        parts[is_lost] = NONE
        return window

    def epochs(self, steps: int) -> list[float]:
        return [steps / len(self.buckets)]


class Task(base.Task):
    models = ("tagger",)
    command = "tag"
    settings_class: ClassVar[type] = Settings

    @classmethod
    def open_data(cls, material: Material, settings: Settings) -> Sentences:
        """The sentences to learn from and those to measure on, and notes."""
        return _read(material)

    @classmethod
    def prepare(cls, material: Material, settings: Settings, data: Sentences, folder: Path) -> Prepared:
        (folder / FOLDER).mkdir()
        train, validation, notes = data
        tagset = TagSet.find(train, split_names(settings.columns), split_names(settings.beside))
        notes += [
            f"no word has a {name}, so that column is not learned"
            for name in split_names(settings.columns)
            if name not in tagset.columns
        ]
        tokenizer = make_tokenizer([_as_documents(train)], _tokenization(material.tokenization), "words")
        tokenizer.save(folder / "tokenizer.json")
        tagset.save(folder / FOLDER / TAGS)
        Sightings(sentence.words for sentence in train).save(folder / FOLDER / SIGHTINGS)
        (folder / FOLDER / SETTINGS).write_text(json.dumps(to_json(settings)), encoding="utf-8")
        for name, sentences in ((TRAIN, train), (VALIDATION, validation)):
            (folder / FOLDER / name).write_bytes(conllu.write(sentences).encode())
        described = {
            "inputs": list(material.inputs),
            "validation": list(material.validation),
            "unit": "sentence",
            **to_json(material.splitting),
            "columns": list(tagset.purpose),
            "text": {"train": _describe_part(train), "validation": _describe_part(validation)},
        }
        return Prepared(cast(DataConfig, described), [*material.inputs, *material.validation], notes)

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.tagset = TagSet.load(folder / FOLDER / TAGS)
        self.vocabulary = Vocabulary(self.tokenizer)
        self.sightings = Sightings.load(folder / FOLDER / SIGHTINGS)

    @cached_property
    def settings(self) -> Settings:
        return Settings(**json.loads((self.folder / FOLDER / SETTINGS).read_text(encoding="utf-8")))

    @cached_property
    def train(self) -> list[conllu.Sentence]:
        return self._sentences(TRAIN)

    @cached_property
    def held_out(self) -> list[conllu.Sentence]:
        return self._sentences(VALIDATION)

    @cached_property
    def seen(self) -> set[str]:
        """Every word that there was to learn from, those too that are not in the vocabulary."""
        return {word for sentence in self.train for word in sentence.words}

    def _sentences(self, name: str) -> list[conllu.Sentence]:
        path = self.folder / FOLDER / name
        return list(conllu.parse(path.read_bytes().decode(), str(path)))

    def complete(self, config: Any) -> Any:
        return replace(config, columns=self.tagset.sizes)

    def batches(self, recipe: Any) -> SentenceBatches:
        return SentenceBatches(self, recipe)

    def tagger(self, model: Any) -> Any:
        from chainrule.tagging.neural import NeuralTagger

        return NeuralTagger(model, self.vocabulary, self.tagset, self.sightings)

    def validation(self, recipe: Any) -> Validate | None:
        return self._validate if self.held_out else None

    def _validate(self, model: Any) -> Validation:
        """The best weights are those with the most tags of the first column right that has any to be measured by."""
        loss, accuracies = self._look(model)
        figures = {**figures_of(loss, None), **accuracies}
        return Validation(figures, 100 - next(iter(accuracies.values()), 100 - loss))

    def _look(self, model: Any) -> tuple[float, dict[str, float]]:
        """Nats per tag over all columns, and the accuracies in per cent of those that are shown."""
        tagger = self.tagger(model)
        nats, count = 0.0, 0
        correct: Counter[str] = Counter()
        asked: Counter[str] = Counter()
        found = tagger.probabilities([sentence.words for sentence in self.held_out])
        for sentence, probabilities in zip(self.held_out, found, strict=True):
            tags = self.tagset.numbers(sentence)
            is_known = tags != IGNORE  # (words, columns)
            for each, numbers, known in zip(probabilities, tags.T, is_known.T, strict=True):
                nats -= float(np.log(np.maximum(each[known, numbers[known]], 1e-30)).sum())
            count += int(is_known.sum())
            is_right = self.tagset.choose(probabilities) == tags[:, : self.tagset.shown]
            for name, right, known in zip(self.tagset.purpose, is_right.T, is_known.T, strict=False):
                correct[name] += int(right[known].sum())
                asked[name] += int(known.sum())
        accuracies = {_title(name): 100 * correct[name] / asked[name] for name in self.tagset.purpose if asked[name]}
        return nats / max(count, 1), accuracies

    def evaluate(self, model: Any, recipe: Any) -> Evaluation | None:
        """With those beside it that any tagger should beat."""
        if not self.held_out:
            return None
        nats, _ = self._look(model)
        given = self.tagger(model).tag([sentence.words for sentence in self.held_out])
        figures: dict[str, float] = {}
        for name in self.tagset.purpose:
            ours = measure(name, self.held_out, [each[name] for each in given], self.seen)
            if not ours.confusion.all.words:
                continue
            others = measure_baselines(name, self.train, self.held_out, self.seen)
            figures[_title(name)] = 100 * ours.confusion.accuracy
            for baseline, measured in others.items():
                figures[f"{name.upper()} by {baseline}"] = 100 * measured.confusion.accuracy
        loss = loss_figures(nats, None)
        return {
            "loss": loss["loss"],
            "perplexity": loss["perplexity"],
            "bits_per_byte": loss["bits_per_byte"],
            "per": "tag",
            "impossible_tokens": 0,
            "tokens": sum(len(sentence.words) for sentence in self.held_out),
            "documents": len(self.held_out),
            "figures": figures,
        }

    def describe(self, window: TrainingBatch) -> str:
        words = [self.tokenizer.token_text(int(each)) for each in window.inputs[0][:12]]
        return f"a batch that begins with {' '.join(words)!r}"

    def sampler(self, model: Any) -> Callable[[], str] | None:
        """A few sentences that were kept aside, tagged."""
        if not self.held_out:
            return None
        shown = [sentence.words for sentence in self.held_out[:SHOWN_SENTENCES]]
        first = self.tagset.columns[0]

        def tagged() -> str:
            found = self.tagger(model).tag(shown)
            return "\n".join(slashed(words, each[first]) for words, each in zip(shown, found, strict=True))

        return tagged


def slashed(words: Sequence[str], tags: Sequence[str]) -> str:
    """'the/DET cat/NOUN'"""
    return " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))


def _title(column: str) -> str:
    return f"{column.upper()} accuracy"
