"""Reading one file: every format, encoding and packing, and the sentence for every kind of damage."""

import builtins
import csv
import gzip
import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chainrule.data.formats import Reader
from chainrule.data.sources import expand
from chainrule.errors import UserError

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
NO_FIXTURE_CHECK = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def reader_of(path: Path, data: bytes | str, **options: Any) -> Reader:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return Reader(expand([path])[0], **options)


def texts(reader: Reader, unit: str = "file") -> list[str]:
    return [batch.text(index) for batch in reader.batches(unit) for index in range(len(batch))]


def lines(reader: Reader, unit: str = "file") -> list[int]:
    return [line for batch in reader.batches(unit) for line in batch.lines.tolist()]


def sentence(path: Path, data: bytes | str, unit: str = "line", **options: Any) -> str:
    """The error without the folder of the file."""
    with pytest.raises(UserError) as caught:
        texts(reader_of(path, data, **options), unit)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{path.parent}/", "")


def parquet_bytes(**columns: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


# Text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@given(text=TEXTS, batch_bytes=st.integers(1, 50))
@NO_FIXTURE_CHECK
def test_a_file_is_read_by_its_byte_order_mark(tmp_path: Path, encoding: str, text: str, batch_bytes: int) -> None:
    text = f"é{text}"  # no second mark, and never only whitespace
    reader = reader_of(tmp_path / "a.txt", text.encode(encoding), batch_bytes=batch_bytes)
    assert texts(reader) == [text.replace("\r\n", "\n").replace("\r", "\n")]


@pytest.mark.parametrize("mark", ["little", "big"])
def test_both_byte_orders_are_read(tmp_path: Path, mark: str) -> None:
    suffix = "le" if mark == "little" else "be"
    for width in ("utf-16", "utf-32"):
        data = "\ufeffgroß\n😀".encode(f"{width}-{suffix}")
        assert texts(reader_of(tmp_path / "a.txt", data)) == ["groß\n😀"]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "shift_jis", "gb18030"])
@pytest.mark.parametrize("batch_bytes", [1, 3, 1000])
def test_a_named_encoding_is_used(tmp_path: Path, encoding: str, batch_bytes: int) -> None:
    text = "naïve\ncafé" if encoding in ("latin-1", "cp1252") else "日本\nのテキスト"
    reader = reader_of(tmp_path / "a.txt", text.encode(encoding), encoding=encoding, batch_bytes=batch_bytes)
    assert texts(reader, "line") == text.split("\n")


def test_carriage_returns_are_read_as_line_feeds_and_noted(tmp_path: Path) -> None:
    for batch_bytes in (1, 2, 3, 1000):
        reader = reader_of(tmp_path / "a.txt", "a\r\nb\r\nc\rd\ne\r", batch_bytes=batch_bytes)
        assert texts(reader) == ["a\nb\nc\nd\ne\n"]
        assert sorted(reader.tally.notes("a.txt")) == [
            "a.txt: 2 CR line ends read as LF",
            "a.txt: 2 CRLF line ends read as LF",
        ]


def test_one_carriage_return_is_noted_in_the_singular(tmp_path: Path) -> None:
    reader = reader_of(tmp_path / "a.txt", "a\r\nb")
    texts(reader)
    assert reader.tally.notes("a.txt") == ["a.txt: 1 CRLF line end read as LF"]


@pytest.mark.parametrize("batch_bytes", [1, 2, 5, 16, 1000])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_invalid_utf8_is_named_by_byte_and_line(tmp_path: Path, batch_bytes: int, line_end: str) -> None:
    good = f"première{line_end}deuxième{line_end}tr".encode()
    said = sentence(tmp_path / "a.txt", good + b"\xe8s\n", batch_bytes=batch_bytes)
    assert said == (f"'a.txt' is not UTF-8 at byte {len(good)} (line 3); convert it to UTF-8 or pass encoding='cp1252'")


def test_a_character_cut_off_at_the_end_is_invalid(tmp_path: Path) -> None:
    assert "'a.txt' is not UTF-8 at byte 17 (line 2)" in sentence(
        tmp_path / "a.txt", b"0123456789abcde\nx\xe4\xb8", batch_bytes=4
    )


def test_a_byte_offset_counts_the_byte_order_mark(tmp_path: Path) -> None:
    assert "not UTF-8 at byte 5 (line 2)" in sentence(tmp_path / "a.txt", b"\xef\xbb\xbfa\n\xff")
    half = "\ufeffab\n".encode("utf-16-le") + b"\x00\xd8a\x00"
    assert "'a.txt' is not UTF-16-LE at byte 8 (line 2)" in sentence(tmp_path / "a.txt", half, batch_bytes=3)


def test_the_offset_of_a_packed_file_is_that_of_the_unpacked_one(tmp_path: Path) -> None:
    data = gzip.compress(b"abc\n" * 1000 + b"\x81")
    assert "'a.txt.gz' is not UTF-8 at byte 4000 (line 1001)" in sentence(tmp_path / "a.txt.gz", data)


@pytest.mark.parametrize("batch_bytes", [1, 7, 1000])
def test_a_nul_byte_is_a_sign_of_a_binary_file(tmp_path: Path, batch_bytes: int) -> None:
    said = sentence(tmp_path / "a.txt", "é twenty bytes of text\0".encode(), batch_bytes=batch_bytes)
    assert said.startswith("'a.txt' looks like a binary file (NUL at byte 23); ")
    said = sentence(tmp_path / "a.txt", "\ufeffab\0".encode("utf-16-le"), batch_bytes=batch_bytes)
    assert said.startswith("'a.txt' looks like a binary file (NUL at byte 6); ")


def test_known_binary_files_are_called_by_their_name(tmp_path: Path) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.txt", "a")
    for data, kind in [
        (gzip.compress(b"a"), "is gzip data, not text; give it a name that ends in .gz"),
        (zstandard.compress(b"a"), "is zstd data, not text; give it a name that ends in .zst"),
        (archive.getvalue(), "is a zip archive (.zip, .docx, .xlsx or .epub), not text; unpack it"),
        (b"%PDF-1.7\n...", "is a PDF document, not text; export it as text first"),
        (b"\x89PNG\r\n\x1a\n....", "is a PNG picture, not text"),
        (parquet_bytes(text=["a"]), "is a parquet file, not text; give it a name that ends in .parquet"),
        (b"SQLite format 3\0...", "is an SQLite database, not text"),
    ]:
        assert sentence(tmp_path / "a.txt", data).startswith(f"'a.txt' {kind}")
        assert sentence(tmp_path / "a.txt", data, batch_bytes=1).startswith(f"'a.txt' {kind}")


@pytest.mark.parametrize("unit", ["line", "block", "file"])
def test_a_document_larger_than_a_batch_stays_whole(tmp_path: Path, unit: str) -> None:
    long = "word " * 1000
    reader = reader_of(tmp_path / "a.txt", f"{long}\n\nshort\n\n{long}end", batch_bytes=64)
    expected = [f"{long}\n\nshort\n\n{long}end"] if unit == "file" else [long, "short", f"{long}end"]
    assert texts(reader, unit) == expected


def test_long_files_come_in_batches(tmp_path: Path) -> None:
    reader = reader_of(tmp_path / "a.txt", "0123456789abcde\n" * 100, batch_bytes=160)
    assert [len(batch) for batch in reader.batches("line")] == [10] * 10


# Packing


@pytest.mark.parametrize("unit", ["line", "block", "file"])
def test_packed_files_read_like_plain_ones(tmp_path: Path, unit: str) -> None:
    data = ("première\nligne\n\ndeuxième\n" * 50).encode()
    plain = texts(reader_of(tmp_path / "a.txt", data), unit)
    two_members = gzip.compress(data[:100]) + gzip.compress(data[100:])
    two_frames = zstandard.compress(data[:100]) + zstandard.compress(data[100:])
    for name, packed in [("a.txt.gz", two_members), ("a.txt.zst", two_frames)]:
        assert texts(reader_of(tmp_path / name, packed), unit) == plain
        assert texts(reader_of(tmp_path / name, packed, batch_bytes=7), unit) == plain


def test_packed_files_that_are_cut_short_are_refused(tmp_path: Path) -> None:
    data = b"a line of text\n" * 1000
    assert sentence(tmp_path / "a.txt.gz", gzip.compress(data)[:-9]) == (
        "'a.txt.gz' is truncated: its gzip data has no end; copy it again"
    )
    assert sentence(tmp_path / "a.txt.zst", zstandard.compress(data)[:-1]) == (
        "'a.txt.zst' is truncated: its zstd data has no end; copy it again"
    )


def test_packed_files_that_are_damaged_are_refused(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"a line of text\n" * 1000))
    packed[-6] ^= 255
    assert sentence(tmp_path / "a.txt.gz", bytes(packed)).startswith("'a.txt.gz' is not valid gzip data (CRC")
    packed[14] ^= 255
    assert sentence(tmp_path / "a.txt.gz", bytes(packed)).startswith("'a.txt.gz' is not valid gzip data (")
    assert sentence(tmp_path / "a.txt.gz", b"plain").startswith("'a.txt.gz' is not valid gzip data (Not a gzip")
    assert sentence(tmp_path / "a.txt.zst", b"plain").startswith("'a.txt.zst' is not valid zstd data (")


def test_a_file_that_goes_away_is_named(tmp_path: Path) -> None:
    for name in ("a.txt", "a.parquet", "a.parquet.gz"):
        reader = reader_of(tmp_path / name, "text")
        (tmp_path / name).unlink()
        with pytest.raises(UserError, match=rf"^cannot read '.*/{name}': no such file or directory$"):
            texts(reader)


# JSON Lines


@given(values=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20)), ascii_only=st.booleans())
@NO_FIXTURE_CHECK
def test_json_lines_give_their_texts(tmp_path: Path, values: list[str], ascii_only: bool) -> None:
    data = "".join(json.dumps({"text": value}, ensure_ascii=ascii_only) + "\n" for value in values)
    expected = [(n, value) for n, value in enumerate(values, 1) if value.strip()]
    path = tmp_path / "a.jsonl"
    assert lines(reader_of(path, data)) == [number for number, _ in expected]
    assert texts(reader_of(path, data, batch_bytes=13)) == [
        value.replace("\r\n", "\n").replace("\r", "\n") for _, value in expected
    ]


def test_json_fields_reach_into_objects_with_dots(tmp_path: Path) -> None:
    data = '{"a": {"b": "inner"}}\n\n{"a.b": "whole name"}\n'
    assert texts(reader_of(tmp_path / "a.jsonl", data, field="a.b")) == ["inner", "whole name"]
    assert lines(reader_of(tmp_path / "a.jsonl", data, field="a.b")) == [1, 3]


def test_records_are_cut_further_when_a_unit_is_given(tmp_path: Path) -> None:
    records = ["\na\n\n\nb\n", "c\nd", "\n\ne\n\n \n\nf"]
    data = "".join(json.dumps({"text": record}) + "\n" for record in records)
    path = tmp_path / "a.jsonl"
    assert texts(reader_of(path, data), "file") == records
    assert texts(reader_of(path, data), "line") == ["a", "b", "c", "d", "e", "f"]
    assert lines(reader_of(path, data), "line") == [1, 1, 2, 2, 3, 3]
    assert texts(reader_of(path, data), "block") == ["a", "\nb", "c\nd", "e", "f"]
    assert lines(reader_of(path, data), "block") == [1, 1, 2, 3, 3]
    [batch] = reader_of(path, data).batches("block")
    assert batch.separator_bytes == 2


def test_empty_records_are_skipped_and_counted(tmp_path: Path) -> None:
    data = '{"text": ""}\n{"text": "a"}\n{"text": " \\n"}\n'
    reader = reader_of(tmp_path / "a.jsonl", data)
    assert texts(reader) == ["a"]
    assert reader.tally.notes("a.jsonl") == ["a.jsonl: 2 empty records skipped"]


def test_wrong_json_is_named_by_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    good = '{"text": "a"}\n'
    assert sentence(path, good + "{'text': 1}").startswith("a.jsonl:2 is not JSON (Expecting property name")
    assert sentence(path, good * 2 + "[" * 100_000).startswith("a.jsonl:3 is not JSON (")
    assert sentence(path, '"text"\n').startswith("a.jsonl:1 is a string, not an object; ")
    assert sentence(path, good + '{"text": 7}').startswith("a.jsonl:2 has a number in field 'text', not a string")
    assert sentence(path, '{"text": null}').startswith("a.jsonl:1 has null in field 'text', not a string")
    assert sentence(path, r'{"text": "\ud800"}').startswith("a.jsonl:1 has half a surrogate pair")


def test_a_missing_field_is_named_with_those_found(tmp_path: Path) -> None:
    data = '{"text": "a"}\n{"id": 1, "texts": "b", "meta": {"lang": "en"}}\n'
    assert sentence(tmp_path / "a.jsonl", data) == (
        "a.jsonl:2 has no field 'text'; did you mean 'texts'? found 'id', 'texts', 'meta.lang'; "
        "rename one or pass field='NAME'"
    )


# CSV and TSV


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("a.tsv", "\t")])
@given(values=st.lists(TEXTS))
@NO_FIXTURE_CHECK
def test_a_table_gives_its_text_column(tmp_path: Path, name: str, delimiter: str, values: list[str]) -> None:
    table = io.StringIO(newline="")
    rows = csv.writer(table, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    rows.writerows([("id", "text"), *enumerate(values)])
    assert texts(reader_of(tmp_path / name, table.getvalue(), batch_bytes=11)) == [
        value.replace("\r\n", "\n").replace("\r", "\n") for value in values if value.strip()
    ]


def test_a_row_is_named_by_the_line_it_starts_at(tmp_path: Path) -> None:
    data = 'text,id\n"two\nlines",1\n\nb,2\n'
    assert lines(reader_of(tmp_path / "a.csv", data)) == [2, 5]
    assert texts(reader_of(tmp_path / "a.csv", data)) == ["two\nlines", "b"]
    assert sentence(tmp_path / "a.csv", data + '"c\nd",3,4\n') == (
        "a.csv:6 has 3 columns but the header has 2; put quotes around fields that hold the delimiter"
    )
    assert sentence(tmp_path / "a.csv", data + "c\n").startswith("a.csv:6 has 1 column but the header has 2; ")


def test_a_quote_that_never_ends_is_refused(tmp_path: Path) -> None:
    said = sentence(tmp_path / "a.csv", 'text\na\n"b\nc\nd\n')
    assert said.startswith("a.csv:3 is not valid CSV (unexpected end of data); ")


def test_the_only_column_is_taken_unless_another_is_named(tmp_path: Path) -> None:
    assert texts(reader_of(tmp_path / "a.csv", "poem\na\nb\n")) == ["a", "b"]
    assert sentence(tmp_path / "a.csv", "poem\na\nb\n", field="poems") == (
        "'a.csv' has no column 'poems'; did you mean 'poem'? found 'poem'; rename one or pass field='NAME'"
    )
    assert sentence(tmp_path / "a.csv", "id,body\n1,b\n") == (
        "'a.csv' has no column 'text'; found 'id', 'body'; rename one or pass field='NAME'"
    )


def test_fields_beyond_the_default_limit_are_read(tmp_path: Path) -> None:
    long = "word " * 50_000
    assert texts(reader_of(tmp_path / "a.csv", f"text,id\n{long},1\n")) == [long]


# Parquet


def test_a_parquet_column_gives_its_strings(tmp_path: Path) -> None:
    values = ["a", None, "", "b\r\nc"] + ["x"] * 3000
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        reader = reader_of(
            tmp_path / "a.parquet", parquet_bytes(id=list(range(3004)), text=pa.array(values).cast(kind))
        )
        assert texts(reader) == ["a", "b\nc"] + ["x"] * 3000
        assert sorted(reader.tally.notes("a.parquet")) == [
            "a.parquet: 1 CRLF line end read as LF",
            "a.parquet: 1 empty record skipped",
            "a.parquet: 1 null skipped",
        ]
        assert reader.meter.position == reader.source.size
    assert lines(reader_of(tmp_path / "a.parquet", parquet_bytes(text=["a", None, "b"]))) == [1, 3]


def test_a_packed_parquet_file_is_read(tmp_path: Path) -> None:
    assert texts(reader_of(tmp_path / "a.parquet.gz", gzip.compress(parquet_bytes(only=["a", "b"])))) == [
        "a",
        "b",
    ]


def test_a_parquet_file_without_the_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    assert sentence(path, parquet_bytes(txt=["a"], id=[1])) == (
        "'a.parquet' has no column 'text'; did you mean 'txt'? found 'txt', 'id'; rename one or pass field='NAME'"
    )
    assert sentence(path, parquet_bytes(text=[1, 2])) == (
        "'a.parquet' has int64 in column 'text', not strings; convert it or pass field='NAME'"
    )
    assert sentence(path, "plain text").startswith("'a.parquet' is not a valid Parquet file (")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = parquet_bytes(text=["a"])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = sentence(tmp_path / "a.parquet", data)
    assert said == "reading 'a.parquet' needs pyarrow; run: pip install chainrule[parquet]"


def test_zstd_without_zstandard_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    said = sentence(tmp_path / "a.txt.zst", b"")
    assert said == "reading 'a.txt.zst' needs zstandard; run: pip install zstandard"


def test_a_file_that_may_not_be_opened_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(tmp_path / "a.txt", "text")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(builtins, "open", refuse)
    with pytest.raises(UserError, match=r"^cannot read '.*/a\.txt': permission denied$"):
        texts(reader)
