"""A tagger's run with the verbs of the command line: tag, evaluate."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.api.curves import plot_training
from chainrule.api.inputs import Inputs, StrPath, input_names
from chainrule.data import conllu
from chainrule.errors import UserError
from chainrule.runs.folder import Run
from chainrule.tagging.measure import check_tags, describe, measure, measure_baselines, summarise
from chainrule.tagging.words import cut_words
from chainrule.tasks.tagging import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_MISTAKES = 8
Words = Sequence[str]
Tagged = dict[str, list[str] | list[float]]  # words, and for each column: its tags, their probabilities


@dataclass(frozen=True)
class TaggerRun:
    """A run that gives every word of a sentence its tags."""

    run: Run
    task: Task

    def __repr__(self) -> str:
        return f"<run '{self.path}': a tagger of {' and '.join(self.columns)}>"

    @property
    def path(self) -> Path:
        return self.run.path

    @property
    def columns(self) -> tuple[str, ...]:
        """The kinds of tags that it gives, such as upos and xpos."""
        return tuple(self.task.tagset.purpose)

    def tag(self, sentences: str | Iterable[str | Words]) -> list[Tagged]:
        """The words of each sentence, and for each column their tags and how probable these are.

        A text has a sentence a line; of several sentences, each is a text, which is cut into words, or its words.

            run.tag("The cow eats hay")[0]["upos"] == ["DET", "NOUN", "VERB", "NOUN"]
        """
        given = sentences.splitlines() if isinstance(sentences, str) else sentences
        words = [tuple(cut_words(each.strip())[0] if isinstance(each, str) else each) for each in given]
        return self.tag_words([each for each in words if each])

    def tag_words(self, sentences: Sequence[Words]) -> list[Tagged]:
        """`tag` of sentences that are cut into words."""
        if not sentences:
            raise UserError("there are no words to tag")
        tagger = self.task.tagger(self.run.model)
        described = []
        for words, columns in zip(sentences, tagger.probabilities(sentences), strict=True):
            entry: Tagged = {"words": list(words)}
            chosen = tagger.tagset.choose(columns).T
            for name, tags, probabilities, best in zip(
                tagger.tagset.purpose, tagger.tagset.tags, columns, chosen, strict=False
            ):
                entry[name] = [tags[number] for number in best]
                entry[f"{name}_probabilities"] = [
                    round(float(row[at]), 6) for row, at in zip(probabilities, best, strict=True)
                ]
            described.append(entry)
        return described

    def plot(self, kind: str = "loss") -> "Figure":
        """The curves of its training as a figure of matplotlib: "loss", or "gradients" for their norm."""
        return plot_training(self.run, kind)

    def evaluate(self, inputs: Inputs | None = None, encoding: str = "auto") -> dict[str, Any]:
        """Accuracies on CoNLL-U, beside those of simple taggers; default: the sentences kept aside in training."""
        names = None if inputs is None else input_names(inputs)
        sentences = conllu.read(names, encoding) if names else self.task.held_out
        if not sentences:
            raise UserError(
                f"'{self.path}' has no sentence kept aside; name a file: chainrule evaluate {self.path} DEV.conllu"
            )
        columns, notes = self._measure(sentences)
        if not columns:
            raise UserError(
                f"{' and '.join(notes)}; give CoNLL-U whose words have tags, or tag it: chainrule tag {self.path}"
            )
        return {
            "run": str(self.path),
            "inputs": names or ["validation"],
            "sentences": len(sentences),
            "words": sum(len(sentence.words) for sentence in sentences),
            "columns": columns,
            "notes": notes,
        }

    def _measure(self, sentences: list[conllu.Sentence]) -> tuple[dict[str, dict[str, object]], list[str]]:
        """The figures of every column that these sentences have tags of, and notes on the others."""
        task, columns, notes = self.task, {}, []
        given = task.tagger(self.run.model).tag([sentence.words for sentence in sentences])
        for name, tags in zip(task.tagset.purpose, task.tagset.tags, strict=False):
            notes += check_tags(sentences, name, tags)
            ours = measure(name, sentences, [each[name] for each in given], task.seen)
            if not ours.confusion.all.words:
                continue
            others = measure_baselines(name, task.train, sentences, task.seen)
            beside = {baseline: summarise(each) for baseline, each in others.items()}
            columns[name] = {**describe(ours), "beside": beside, "mistakes": ours.confusion.mistakes(MOST_MISTAKES)}
        return columns, notes


def load_tagger_run(path: StrPath) -> TaggerRun:
    """An existing run of the task tagging."""
    run = Run(path, task="tagging")
    return TaggerRun(run, Task(run.path))
