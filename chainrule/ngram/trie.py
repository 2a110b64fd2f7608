"""Every n-gram of a corpus with its count, as one trie in plain arrays, sorted level by level.

Node 0 is the empty context, node 1 + w the word w, and the children of a node stand side by side in the
order of their last word. `suffix` leads from an n-gram to the same one without its first word, which is
where back-off goes, what Kneser-Ney counts, and how a scorer moves on after a full match.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from chainrule.errors import UserError
from chainrule.kernels.jit import in_parallel, inlined, kernel, ranges

ROOT = 0
MISSING = np.uint32(0xFFFFFFFF)
LARGEST = 0xFFFFFFFE  # count or node that 32 bits can hold


def check_nodes(nodes: int) -> None:
    if nodes > LARGEST:
        raise UserError(
            f"there are {nodes:,} n-grams, but {LARGEST:,} is the most; lower the order or train on less text"
        )


@dataclass
class Trie:
    order: int
    vocabulary_size: int
    eos: int
    level_starts: np.ndarray  # int64 (order + 2): level k holds the k-grams [level_starts[k], level_starts[k + 1])
    word: np.ndarray  # uint32 (nodes): the last word of each n-gram
    first_child: np.ndarray  # uint32 (nodes below the top level + 1): children are [first_child[i], first_child[i + 1])
    suffix: np.ndarray  # uint32 (nodes)
    count: np.ndarray  # uint32 (nodes): how often each n-gram occurs; the root's is the number of tokens

    def level(self, k: int) -> slice:
        return slice(int(self.level_starts[k]), int(self.level_starts[k + 1]))

    @property
    def sizes(self) -> list[int]:
        """How many different n-grams there are of each order from 1."""
        is_counted = self.count[ROOT] > 0  # an imported model knows its n-grams, but not how often they occurred
        present = int(np.count_nonzero(self.count[self.level(1)])) if is_counted else self.vocabulary_size
        return [present] + [int(n) for n in np.diff(self.level_starts)[2:]]

    def arrays(self) -> dict[str, np.ndarray]:
        """What is stored. `suffix` and `count` are needed to go on counting, the rest to answer questions."""
        return {
            "level_starts": self.level_starts,
            "word": self.word,
            "first_child": self.first_child,
            "suffix": self.suffix,
            "count": self.count,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], vocabulary_size: int, eos: int) -> "Trie":
        """Arrays from a file, checked: kernels do not look where they read and write."""
        names = ("level_starts", "word", "first_child", "suffix", "count")
        order = len(arrays["level_starts"]) - 2
        trie = cls(order, vocabulary_size, eos, **{name: arrays[name] for name in names})
        if not trie.is_sound():
            raise ValueError("its arrays contradict each other")
        return trie

    def is_sound(self) -> bool:
        """Whether every index leads where it should: children to the next level, suffixes to the one before."""
        starts, nodes, words = self.level_starts, len(self.word), self.vocabulary_size
        kinds = {"level_starts": np.int64, "word": np.uint32, "first_child": np.uint32, "suffix": np.uint32}
        if any(getattr(self, name).dtype != kind or getattr(self, name).ndim != 1 for name, kind in kinds.items()):
            return False
        if self.order < 1 or not 0 <= self.eos < words or (np.diff(starts) < 0).any():
            return False
        if starts[:3].tolist() != [0, 1, 1 + words] or starts[-1] != nodes or len(self.suffix) != nodes:
            return False
        if len(self.count) != nodes or self.count.dtype != np.uint32 or len(self.first_child) != starts[-2] + 1:
            return False
        if not np.array_equal(self.word[1 : 1 + words], np.arange(words)) or (self.suffix[: 1 + words] != ROOT).any():
            return False
        calls = []
        for k in range(self.order + 1):
            level = self.level(k)
            calls += [
                (self.word, self.first_child, self.suffix, starts, words, k, *part)
                for part in ranges(level.start, level.stop)
            ]
        return all(_is_sound_level(*call) for call in calls)

    def ngram(self, node: int) -> list[int]:
        """The words of a node, first to last, found by walking up its parents."""
        words: list[int] = []
        while node != ROOT:
            words.append(int(self.word[node]))
            node = int(np.searchsorted(self.first_child, node, side="right")) - 1
        return words[::-1]

    def find(self, words: Iterable[int]) -> int:
        """The node of this n-gram, or -1."""
        node = ROOT
        for word in words:
            if node >= len(self.first_child) - 1:
                return -1
            node = int(find_child(self.word, self.first_child, node, int(word)))
            if node < 0:
                return -1
        return node


@kernel
def _is_sound_level(word, first_child, suffix, level_starts, vocabulary_size, k, first, last):
    is_top = k == len(level_starts) - 2
    for node in range(first, last):
        if k > 1 and (suffix[node] < level_starts[k - 1] or suffix[node] >= level_starts[k]):
            return False
        if word[node] >= vocabulary_size:
            return False
        if not is_top:
            low, high = first_child[node], first_child[node + 1]
            if low > high or low < level_starts[k + 1] or high > level_starts[k + 2]:
                return False
            for child in range(low + 1, high):
                if word[child] <= word[child - 1]:
                    return False
    return True


@inlined
def find_child(word, first_child, node, wanted):
    """The child of `node` whose last word is `wanted`, or -1: binary search among sorted siblings.

    The search has no branch that depends on the words, which the processor would guess wrong half of the time.
    """
    if node == 0:
        return np.int64(1) + wanted
    low = np.int64(first_child[node])
    size = np.int64(first_child[node + 1]) - low
    while size > 1:
        half = size >> 1
        low = low + half if word[low + half] <= wanted else low
        size -= half
    if size > 0 and word[low] == wanted:
        return low
    return np.int64(-1)


@kernel
def _link_children(word, first_child, suffix, first, last):
    """suffix(context + w) = suffix(context) + w. Both lists of children are sorted: search on from the last hit."""
    missing = 0
    for context in range(first, last):
        shorter = suffix[context]
        if shorter == MISSING:
            suffix[first_child[context] : first_child[context + 1]] = MISSING
            missing += first_child[context + 1] - first_child[context]
            continue
        low, end = np.int64(first_child[shorter]), np.int64(first_child[shorter + 1])
        for child in range(first_child[context], first_child[context + 1]):
            wanted = word[child]
            step = 1  # gallop: double the stride until past the word, then halve back
            high = low
            while high < end and word[high] < wanted:
                low = high + 1
                high += step
                step *= 2
            high = min(high, end)
            while low < high:
                middle = (low + high) >> 1
                if word[middle] < wanted:
                    low = middle + 1
                else:
                    high = middle
            if low < end and word[low] == wanted:
                suffix[child] = low
            else:
                suffix[child] = MISSING
                missing += 1
    return missing


def link_suffixes(trie: Trie) -> int:
    """Fill in `suffix`, level by level; returns how many n-grams have no suffix in the trie (0 when counted)."""
    trie.suffix[: trie.level_starts[2]] = ROOT
    # A bigram's suffix is its last word, a longer n-gram's is found under its context's suffix.
    bigrams = trie.level(2) if trie.order > 1 else slice(0, 0)
    np.add(trie.word[bigrams], 1, out=trie.suffix[bigrams])
    missing = 0
    for k in range(2, trie.order):
        contexts = trie.level(k)
        parts = ranges(contexts.start, contexts.stop)
        calls = [(trie.word, trie.first_child, trie.suffix, *part) for part in parts]
        missing += sum(in_parallel(_link_children, calls))
    return missing


@kernel
def _sum_children(first_child, count, first, last, total, types):
    for context in range(first, last):
        tokens, distinct = 0, 0
        for child in range(first_child[context], first_child[context + 1]):
            tokens += count[child]
            distinct += count[child] > 0
        total[context - first] = tokens
        types[context - first] = distinct


def context_totals(trie: Trie, count: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Per context of k words: the sum of its children's counts, and how many different children it has."""
    contexts = trie.level(k)
    total = np.empty(contexts.stop - contexts.start, np.int64)
    types = np.empty_like(total)
    _sum_children(trie.first_child, count, contexts.start, contexts.stop, total, types)
    return total, types
