"""Binary files are recognised by their first bytes (magic numbers), and refused."""

from chainrule.errors import UserError

UNPACK = "unpack it first"
EXPORT = "export it as text first"
SIGNATURES = (
    (b"\x1f\x8b", "gzip data", "give it a name that ends in .gz"),
    (b"\x28\xb5\x2f\xfd", "zstd data", "give it a name that ends in .zst"),
    (b"PAR1", "a parquet file", "give it a name that ends in .parquet"),
    (b"PK\x03\x04", "a zip archive (.zip, .docx, .xlsx or .epub)", "unpack it or export it as text first"),
    (b"%PDF-", "a PDF document", EXPORT),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture", "name a file of text"),
    (b"\xff\xd8\xff", "a JPEG picture", "name a file of text"),
    (b"GIF87a", "a GIF picture", "name a file of text"),
    (b"GIF89a", "a GIF picture", "name a file of text"),
    (b"BZh91AY&SY", "bzip2 data", UNPACK),
    (b"\xfd7zXZ\x00", "xz data", UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
    (b"Rar!\x1a\x07", "a RAR archive", UNPACK),
    (b"SQLite format 3\x00", "an SQLite database", EXPORT),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Microsoft Office document", EXPORT),
    (b"\x7fELF", "a compiled program", "name a file of text"),
    (b"\x93NUMPY", "a NumPy array", "name a file of text"),
    (b"ARROW1\x00\x00", "an Arrow file", "write it as .parquet or .jsonl first"),
)


def refuse_binary(name: str, head: bytes) -> None:
    """Raise a UserError that says what a file is if it begins like a known kind of binary file."""
    for signature, kind, advice in SIGNATURES:
        if head.startswith(signature):
            raise UserError(f"'{name}' is {kind}, not text; {advice}")
