"""Which tokenizer a text gets: settings that need nothing but themselves, so that the command line can list them."""

from dataclasses import dataclass

from chainrule.config import setting
from chainrule.text import KINDS


@dataclass(frozen=True)
class Tokenization:
    """Which tokenizer is made or taken, and how large its vocabulary is. None: chosen from the text."""

    tokenizer: str = setting(
        "auto", "The kind of tokens: {names}; or the tokenizer of a run, or a tokenizer.json file.", flag=True,
        names=lambda: KINDS,
    )  # fmt: skip
    vocabulary_size: int | None = setting(None, "The largest vocabulary: words, characters or BPE tokens.", flag=True)
    min_count: int | None = setting(None, "Leave out words that occur less often than this.", flag=True)
    closed_vocabulary: bool = setting(False, "Replace words outside the vocabulary by <unk>.", flag=True)
    special_tokens: tuple[str, ...] = setting(
        (), "A text such as '<|user|>' that is always one token of a bpe vocabulary, never cut nor part of another; "
        "repeat the flag for several.", flag="--special-token", metavar="TEXT",
    )  # fmt: skip
