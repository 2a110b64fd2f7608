"""The figures of each row of a table's column: what `evaluate` gives each document, with empty rows in their places."""

from collections.abc import Iterable, Sequence
from typing import Any, NotRequired, TypedDict

from chainrule.data.corpus import Corpus
from chainrule.data.texts import Texts
from chainrule.errors import UserError
from chainrule.evaluation.score import NATS_PER_BIT
from chainrule.evaluation.text import DocumentFigures, Measurable, per_document, score_text


class RowFigures(TypedDict):
    """How well one row was predicted; None where it is empty."""

    row: int  # from 0
    id: NotRequired[object]
    tokens: int  # without the end of the text
    unknown_tokens: int
    log_probability: float | None  # natural logarithm, the end of the text included
    bits: float | None  # the same, as bits to write the text
    bits_per_byte: float | None  # also None where the text is not what its tokens spell


def score_rows(run: Measurable, texts: Iterable[object], ids: Iterable[object] | None = None) -> list[RowFigures]:
    """One row of figures for each text, in their order; None, NaN and white space are empty texts."""
    rows = [_read(number, each) for number, each in enumerate(texts)]
    found: dict[int, DocumentFigures] = {}
    if any(each.strip() for each in rows):
        documents = Texts(rows)  # it must exist as long as it is read
        scores = score_text(run, Corpus([documents.name]))
        found = {each["line"] - 1: each for each in per_document(scores)}
    figures = [_figures(number, found.get(number)) for number in range(len(rows))]
    return figures if ids is None else _with_ids(figures, list(ids))


def choose_columns(table: Any, column: str | None, ids: Any) -> tuple[Any, Any]:
    """The texts and their ids: of a table (anything with columns by name), or as they are given."""
    names = list(table) if hasattr(table, "columns") or isinstance(table, dict) else None
    if names is None:
        if column is not None:
            raise UserError("column is the name of a column of a table, and these texts are none; leave it out")
        return table, ids
    for name in [column, *([ids] if isinstance(ids, str) else [])]:
        if name not in names:
            given = "name the column of the texts: column=..." if name is None else f"there is no column {name!r}"
            raise UserError(f"{given} (columns: {', '.join(map(str, names))})")
    return table[column], table[ids] if isinstance(ids, str) else ids


def _read(number: int, value: object) -> str:
    if isinstance(value, str):
        return value
    if _is_missing(value):
        return ""
    raise UserError(f"texts must be strings, but row {number} is of type {type(value).__name__}")


def _is_missing(value: object) -> bool:
    """None and what tables write for it: NaN, which is not equal to itself, and NA, of which that cannot be told."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def _figures(row: int, found: DocumentFigures | None) -> RowFigures:
    if found is None:
        nothing = {"log_probability": None, "bits": None, "bits_per_byte": None}
        return {"row": row, "tokens": 0, "unknown_tokens": 0, **nothing}  # type: ignore[typeddict-item]
    return {
        "row": row,
        "tokens": found["tokens"],
        "unknown_tokens": found["unknown_tokens"],
        "log_probability": -found["nats"],
        "bits": found["nats"] / NATS_PER_BIT,
        "bits_per_byte": found["bits_per_byte"],
    }


def _with_ids(figures: Sequence[RowFigures], ids: Sequence[object]) -> list[RowFigures]:
    if len(ids) != len(figures):
        raise UserError(f"there are {len(figures)} texts but {len(ids)} ids; give one id for each text")
    return [{**each, "id": id} for each, id in zip(figures, ids, strict=True)]
