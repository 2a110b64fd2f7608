"""What the letters of a word tell: how it begins and ends, what is in it, and its shape, each as a hash.

'Walk' -> the hashes of the shape Xx, of w…, wa…, wal…, walk…, …k, …lk, …alk, …walk, of walk itself, and of
<wa, wal, alk, lk>, <wal, walk, alk>
"""

from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

import numpy as np

from chainrule.tagging.lexicon import shape

LONGEST = 5  # beginning or ending
INNER = (3, 4)  # letters of what is in a word
COUNT = 32  # parts of a word, at the most; its shape comes first and what is in it last
NONE = 0  # where a word has fewer


def parts(word: str) -> list[str]:
    """['=Xx', 'w…', …, '…k', …, '<walk>', '<wa', …], shorter words having fewer of them."""
    lower = word.lower()
    whole = f"<{lower}>"
    lengths = range(1, min(LONGEST, len(lower)) + 1)
    inner = [whole[at : at + n] for n in INNER for at in range(len(whole) - n + 1)]
    ends = [*[f"{lower[:n]}…" for n in lengths], *[f"…{lower[-n:]}" for n in lengths]]
    return [f"={shape(word)}", *ends, f"{whole}=", *inner][:COUNT]


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
