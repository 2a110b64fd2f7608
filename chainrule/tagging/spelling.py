"""Features of a word's spelling: how it begins and ends, the letters within, and its case, each as a hash.

'walk' -> the hashes of w…, wa…, wal…, walk…, …k, …lk, …alk, …walk, of walk itself, and of <wa, wal, alk, lk>, <wal,
walk, alk>
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from zlib import crc32

import numpy as np

from chainrule.tagging import case

LONGEST = 5  # beginning or ending
INNER = (3, 4)  # letters of a piece from within a word
PARTS = 31  # of a word at most; the pieces from within come last and are cut off first
NONE = 0  # the hash of no part, where a word has fewer


def parts(word: str) -> list[str]:
    """['w…', …, '…k', …, '<walk>=', '<wa', …], of the word in lower case; short words have fewer."""
    lower = word.lower()
    whole = f"<{lower}>"
    lengths = range(1, min(LONGEST, len(lower)) + 1)
    inner = [whole[at : at + n] for n in INNER for at in range(len(whole) - n + 1)]
    return [*[f"{lower[:n]}…" for n in lengths], *[f"…{lower[-n:]}" for n in lengths], f"{whole}=", *inner][:PARTS]


def spell(
    sentences: Sequence[Sequence[str]], time: int, sightings: case.Sightings, is_learned: bool = False
) -> dict[str, np.ndarray]:
    """The hashes of the parts and cases of all words: (sentences, time, several), NONE where there is none."""
    sizes = {"parts": PARTS, "cases": case.COUNT}
    found = {name: np.full((len(sentences), time, size), NONE, np.int64) for name, size in sizes.items()}
    for at, words in enumerate(sentences):
        found["parts"][at, : len(words)] = [hashes(word) for word in words]
        found["cases"][at, : len(words)] = [list(map(_hash, each)) for each in case.cases(words, sightings, is_learned)]
    return found


@lru_cache(maxsize=1 << 17)
def hashes(word: str) -> tuple[int, ...]:
    """The hashes of a word's parts, PARTS of them."""
    found = [1 + crc32(part.encode()) for part in parts(word)]
    return (*found, *[NONE] * (PARTS - len(found)))


@lru_cache(maxsize=1 << 14)
def _hash(name: str) -> int:
    return 1 + crc32(name.encode())


def rarities(sentences: Iterable[Sequence[str]], rate: float) -> dict[str, np.ndarray]:
    """How often each part of each word is dropped in training: rate / (rate + the number of words that have it)."""
    words = {word for each in sentences for word in each}
    counts = Counter(part for lower in {word.lower() for word in words} for part in set(hashes(lower)))
    return {
        word: np.array([rate / max(rate + counts[part], 1e-9) if part else 0.0 for part in hashes(word)], np.float32)
        for word in words
    }


def rarity_of(
    sentences: Sequence[Sequence[str]], rarities: dict[str, np.ndarray], shape: tuple[int, ...]
) -> np.ndarray:
    """The rarities laid out as `spell` lays out the parts: (sentences, time, PARTS)."""
    found = np.zeros(shape, np.float32)
    for at, words in enumerate(sentences):
        found[at, : len(words)] = [rarities[word] for word in words]
    return found
