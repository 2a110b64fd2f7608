"""The columns of CoNLL-U that a tagger learns, and the tags that each of them may have."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from chainrule.data.conllu import NOTHING, Sentence
from chainrule.errors import UserError
from chainrule.models.contract import IGNORE


@dataclass(frozen=True)
class TagSet:
    """The first `shown` columns are the tagger's purpose; the others are learned with them because that helps."""

    columns: tuple[str, ...]
    tags: tuple[tuple[str, ...], ...]
    shown: int
    together: tuple[tuple[int, ...], ...] = ()  # combinations of the shown columns' tags that some word had, by number

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.tags))

    @property
    def purpose(self) -> tuple[str, ...]:
        """The columns that are shown."""
        return self.columns[: self.shown]

    def numbers(self, sentence: Sentence) -> np.ndarray:
        """The tags of a sentence by number, (words, columns); IGNORE where a word has no tag or an unknown one."""
        columns = [
            [table.get(tag, IGNORE) for tag in sentence.column(name)]
            for name, table in zip(self.columns, self._tables(), strict=True)
        ]
        return np.array(columns, np.int64).T

    def choose(self, probabilities: Sequence[np.ndarray]) -> np.ndarray:
        """The most probable known combination of the shown columns' tags: (words, tags) each -> (words, shown)."""
        known = np.array(self.together).reshape(-1, self.shown)
        if self.shown == 1 or not len(known):
            return np.stack([each.argmax(1) for each in probabilities[: self.shown]], 1)
        logs = [np.log(np.maximum(each, 1e-30)) for each in probabilities[: self.shown]]
        scores: np.ndarray = sum(each[:, tags] for each, tags in zip(logs, known.T, strict=True))
        chosen: np.ndarray = known[scores.argmax(1)]
        return chosen

    def _tables(self) -> list[dict[str, int]]:
        return [{tag: number for number, tag in enumerate(tags)} for tags in self.tags]

    @classmethod
    def find(cls, sentences: Sequence[Sentence], shown: Sequence[str], beside: Sequence[str]) -> "TagSet":
        """The tags that occur in these columns; columns without any are left out."""
        found = {
            name: tuple(sorted({tag for sentence in sentences for tag in sentence.column(name)} - {NOTHING}))
            for name in dict.fromkeys((*shown, *beside))
        }
        kept = [name for name in shown if found[name]]
        if not kept:
            raise UserError(f"no word has a tag in the columns {', '.join(shown)}; fill them in, or set columns")
        columns = kept + [name for name in beside if found[name] and name not in kept]
        made = cls(tuple(columns), tuple(found[name] for name in columns), len(kept))
        numbers = np.concatenate([made.numbers(sentence)[:, : len(kept)] for sentence in sentences])
        whole = np.unique(numbers[(numbers != IGNORE).all(1)], axis=0)
        return replace(made, together=tuple(map(tuple, whole.tolist())))

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "TagSet":
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            tags, together = (tuple(map(tuple, stored.get(name, ()))) for name in ("tags", "together"))
            return cls(tuple(stored["columns"]), tags, int(stored["shown"]), together)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"'{path}' is missing or damaged ({error}); train the run again") from None
