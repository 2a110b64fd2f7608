"""File names: which format an ending stands for, and which endings are looked for in a folder."""

import os

RECORD_FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
TEXT_ENDINGS = [
    ".txt",
    ".text",
    ".md",
    ".markdown",
    ".rst",
    ".adoc",
    ".org",
    ".tex",
    ".log",
    ".srt",
    ".html",
    ".xml",
    ".yaml",
    ".toml",
    ".ini",
    ".py",
    ".pyi",
    ".c",
    ".h",
    ".cc",
    ".cpp",
    ".hpp",
    ".cs",
    ".css",
    ".go",
    ".hs",
    ".java",
    ".jl",
    ".js",
    ".kt",
    ".lua",
    ".ml",
    ".php",
    ".pl",
    ".r",
    ".rb",
    ".rs",
    ".scala",
    ".sh",
    ".sql",
    ".swift",
    ".ts",
]
COMPRESSIONS = {".gz": "gz", ".zst": "zst"}


def split_name(name: str) -> tuple[str, str]:
    """'poems.jsonl.gz' -> ('jsonl', 'gz'); an ending nobody knows is plain text."""
    base, compression = _unpacked_name(name)
    return RECORD_FORMATS.get(os.path.splitext(base)[1], "text"), compression


def has_known_ending(name: str) -> bool:
    """Whether a file found in a folder is one to read."""
    ending = os.path.splitext(_unpacked_name(name)[0])[1]
    return ending in RECORD_FORMATS or ending in TEXT_ENDINGS


def describe_endings() -> str:
    """All known endings in one phrase, for an error."""
    return f"{', '.join([*TEXT_ENDINGS, *RECORD_FORMATS])}, each also with .gz or .zst after it"


def _unpacked_name(name: str) -> tuple[str, str]:
    base, ending = os.path.splitext(name.lower())
    return (base, COMPRESSIONS[ending]) if ending in COMPRESSIONS else (name.lower(), "")
