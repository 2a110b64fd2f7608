"""Parquet tables: one string column, one document per row. Needs pyarrow, which is imported only here."""

from collections.abc import Iterator
from typing import Any, BinaryIO

from chainrule.data.records import FIELD, Record, choose_column
from chainrule.data.streams import Meter
from chainrule.data.tally import Tally
from chainrule.errors import UserError

ROWS_AT_ONCE = 1024


def read_parquet(name: str, file: BinaryIO, field: str, size: int, meter: Meter, tally: Tally) -> Iterator[Record]:
    """The rows of one string column; nulls are skipped and counted. `size` is the file's, for the meter."""
    arrow, parquet = _import_pyarrow(name)
    try:
        table = parquet.ParquetFile(file)
        column = table.schema_arrow.field(choose_column(name, table.schema_arrow.names, field))
        _check_type(arrow, name, column)
        rows = max(table.metadata.num_rows, 1)
        number = 0
        for batch in table.iter_batches(batch_size=ROWS_AT_ONCE, columns=[column.name]):
            for text in batch.column(0).to_pylist():
                number += 1
                if text is None:
                    tally.add("null{s} skipped")
                else:
                    yield number, text
            meter.position = size * number // rows
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise UserError(f"'{name}' is not a valid Parquet file ({reason}); write it again") from error


def _import_pyarrow(name: str) -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UserError(f"reading '{name}' needs pyarrow; run: pip install chainrule[parquet]") from error
    return pyarrow, pyarrow.parquet


def _check_type(arrow: Any, name: str, column: Any) -> None:
    kind = column.type.value_type if arrow.types.is_dictionary(column.type) else column.type
    if not (arrow.types.is_string(kind) or arrow.types.is_large_string(kind) or arrow.types.is_string_view(kind)):
        raise UserError(f"'{name}' has {column.type} in column '{column.name}', not strings; convert it", FIELD)
