"""The columns of CoNLL-U that a tagger learns, and the tags that each of them may have."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from chainrule.data.conllu import NOTHING, Sentence
from chainrule.errors import UserError
from chainrule.models.base import IGNORE


@dataclass(frozen=True)
class TagSet:
    """The first `shown` columns are what a tagger is for; the others are learned beside them because they help."""

    columns: tuple[str, ...]
    tags: tuple[tuple[str, ...], ...]
    shown: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.tags))

    @property
    def purpose(self) -> tuple[str, ...]:
        """The columns that are shown."""
        return self.columns[: self.shown]

    def numbers(self, sentence: Sentence) -> np.ndarray:
        """(words, columns), IGNORE where a word has no tag or one that is not known."""
        columns = [
            [table.get(tag, IGNORE) for tag in sentence.column(name)]
            for name, table in zip(self.columns, self._tables(), strict=True)
        ]
        return np.array(columns, np.int64).T

    def _tables(self) -> list[dict[str, int]]:
        return [{tag: number for number, tag in enumerate(tags)} for tags in self.tags]

    @classmethod
    def find(cls, sentences: Sequence[Sentence], shown: Sequence[str], beside: Sequence[str]) -> "TagSet":
        """Columns that nothing stands in are left out."""
        found = {
            name: tuple(sorted({tag for sentence in sentences for tag in sentence.column(name)} - {NOTHING}))
            for name in dict.fromkeys((*shown, *beside))
        }
        kept = [name for name in shown if found[name]]
        if not kept:
            raise UserError(f"no word has a tag in the columns {', '.join(shown)}; fill them in, or set columns")
        columns = kept + [name for name in beside if found[name] and name not in kept]
        return cls(tuple(columns), tuple(found[name] for name in columns), len(kept))

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "TagSet":
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            return cls(tuple(stored["columns"]), tuple(map(tuple, stored["tags"])), int(stored["shown"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"'{path}' is missing or damaged ({error}); train the run again") from None
