"""How text is read and split: settings that need nothing but themselves, so that the command line can list them."""

from dataclasses import dataclass

from chainrule.checks import require_choice
from chainrule.config import setting
from chainrule.data.decoding import check_encoding
from chainrule.data.delimiters import find_delimiter
from chainrule.data.records import DEFAULT_FIELD
from chainrule.errors import UserError, did_you_mean

UNITS = ("auto", "file", "block", "line")
LONGEST_END = 255  # bytes of a text that ends documents
SPLITS = ("documents", "tail")
DEFAULT_FRACTION = 0.1  # of a text, for validation


@dataclass(frozen=True)
class Reading:
    """How text is read: what makes a document, where records keep their text, what encoding files are in."""

    unit: str = setting(
        "auto", "What one document is: {names}; or a text that ends one, such as '<|endoftext|>'.", flag=True,
        names=lambda: UNITS,
    )  # fmt: skip
    field: str = setting(
        DEFAULT_FIELD, "The field or column that holds the text, in .jsonl, .csv, .tsv and .parquet.", flag=True
    )
    encoding: str = setting(
        "auto", "The encoding of text that is not UTF-8 and has no byte-order mark; auto also knows Windows-1252.",
        flag=True,
    )  # fmt: skip
    delimiter: str = setting(
        "auto", "What separates the columns of .csv files: a character, or tab; auto tells by the first lines.",
        flag=True,
    )  # fmt: skip

    def check(self) -> None:
        """Refuse settings that do not exist."""
        if self.unit not in UNITS and not any(each.isprintable() and not each.isalnum() for each in self.unit.strip()):
            raise UserError(
                f"unit '{self.unit}' is not known{did_you_mean(self.unit, UNITS)} (units: {', '.join(UNITS)}; "
                "or a text that ends documents and has other signs than letters, such as <|endoftext|>)"
            )
        if len(self.unit.encode()) > LONGEST_END:
            raise UserError(
                f"a text that ends documents has at most {LONGEST_END} bytes, got {len(self.unit.encode())}"
            )
        check_encoding(self.encoding)
        find_delimiter(self.delimiter)


@dataclass(frozen=True)
class Splitting:
    """How validation text is kept aside: `documents` by the hash of their text, or the `tail` of the corpus."""

    validation_fraction: float | None = setting(
        None, "The share of the text to keep aside for validation; default: 0.1, of less than 500 bytes nothing.",
        flag=True,
    )  # fmt: skip
    split: str = setting(
        "documents",
        "What to keep aside: documents (chosen by a hash of their content) or tail (the last part).",
        flag=True,
    )
    split_seed: int = setting(
        0, "The seed by which documents are chosen for validation; --seed does not affect it.", flag=True
    )

    def __post_init__(self) -> None:
        if not 0 <= self.fraction < 1:
            raise UserError(f"the validation fraction must be at least 0 and below 1, got {self.validation_fraction}")
        require_choice("split", self.split, SPLITS)

    @property
    def fraction(self) -> float:
        """The share to keep aside of a text that is large enough."""
        return DEFAULT_FRACTION if self.validation_fraction is None else self.validation_fraction
