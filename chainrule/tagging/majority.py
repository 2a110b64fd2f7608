"""The majority baseline: each word gets its most frequent tag, and an unseen word the most frequent tag of all."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from chainrule.data.conllu import NOTHING


class MajorityTagger:
    """Looks at each word alone; what any other tagger must beat."""

    def __init__(self, sentences: Iterable[Sequence[str]], tags: Iterable[Sequence[str]]):
        self.frequencies: Counter[str] = Counter()
        seen: dict[str, Counter[str]] = defaultdict(Counter)
        for words, labels in zip(sentences, tags, strict=True):
            for word, tag in zip(words, labels, strict=True):
                if tag != NOTHING:
                    seen[word][tag] += 1
                    self.frequencies[tag] += 1
        self.fallback = self._first(self.frequencies)
        self.choices = {word: self._first(counts) for word, counts in seen.items()}

    def _first(self, counts: Counter[str]) -> str:
        """The most frequent tag; of equals the one more frequent in the whole text, then the first by name."""
        return min(counts, key=lambda tag: (-counts[tag], -self.frequencies[tag], tag))

    def tag(self, words: Sequence[str]) -> list[str]:
        return [self.choices.get(word, self.fallback) for word in words]
