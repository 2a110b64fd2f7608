"""What the letters of a word tell: how it begins and ends, and its shape, each as a hash.

'Walking' -> the hashes of w…, wa…, wal…, walk…, walki…, …g, …ng, …ing, …king, …lking and Xx
"""

from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

import numpy as np

from chainrule.tagging.lexicon import shape

LONGEST = 5
COUNT = 2 * LONGEST + 1
NONE = 0  # where a word has fewer


def parts(word: str) -> list[str]:
    """['w…', …, '…g', …, 'Xx'], shorter words having fewer of them."""
    lower = word.lower()
    lengths = range(1, min(LONGEST, len(lower)) + 1)
    return [*[f"{lower[:n]}…" for n in lengths], *[f"…{lower[-n:]}" for n in lengths], f"={shape(word)}"]


@lru_cache(maxsize=1 << 17)
def _hashes(word: str) -> tuple[int, ...]:
    found = [1 + crc32(part.encode()) for part in parts(word)]
    return (*found, *[NONE] * (COUNT - len(found)))


def spell(sentences: Sequence[Sequence[str]], time: int) -> np.ndarray:
    """(sentences, time, COUNT): the hash of every part, NONE where there is no word or no such part."""
    found = np.full((len(sentences), time, COUNT), NONE, np.int64)
    for at, words in enumerate(sentences):
        found[at, : len(words)] = [_hashes(word) for word in words]
    return found
