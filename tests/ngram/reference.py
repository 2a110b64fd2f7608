"""The textbook, slowly: counts in dictionaries, each smoothing as its formula reads. The engine must equal it."""

from collections import Counter, defaultdict
from collections.abc import Callable

import numpy as np

from chainrule.ngram.discounts import Discounts, good_turing, modified, single

Context = tuple[int, ...]


def windows(stream: list[int], k: int, eos: int) -> list[tuple[int, ...]]:
    """All k-grams of a stream eos d1 eos ... eos: the boundary may begin or end one, but is never inside."""
    grams = (tuple(stream[i : i + k]) for i in range(len(stream) - k + 1))
    return [gram for gram in grams if eos not in gram[1:-1]]


class Reference:
    def __init__(self, stream: list[int], order: int, vocabulary_size: int, eos: int):
        self.order, self.size, self.eos = order, vocabulary_size, eos
        self.counts: list[Counter[Context]] = [Counter(windows(stream, k, eos)) for k in range(1, order + 1)]
        self.counts[0][(eos,)] -= 1  # the first boundary is never predicted

    def continuation(self, k: int) -> Counter[Context]:
        """Kneser-Ney's counts: of different words before; plain ones at the top and where a document starts."""
        if k == self.order:
            return self.counts[k - 1]
        found = Counter(gram[1:] for gram in self.counts[k])
        for gram, count in self.counts[k - 1].items():
            if k > 1 and gram[0] == self.eos:
                found[gram] = count
        return found

    def table(self, counts: Counter[Context]) -> dict[Context, dict[int, int]]:
        """{context: {word: count}}"""
        table: dict[Context, dict[int, int]] = defaultdict(dict)
        for gram, count in counts.items():
            if count > 0:
                table[gram[:-1]][gram[-1]] = count
        return table

    def interpolated(
        self, kind: Callable[[int], Counter[Context]], estimate: Callable[[np.ndarray, int], Discounts]
    ) -> Callable:
        tables = [self.table(kind(k)) for k in range(1, self.order + 1)]
        found = [
            estimate(np.array([c for row in table.values() for c in row.values()], np.int64), k)
            for k, table in enumerate(tables, 1)
        ]

        def probability(word: int, context: Context) -> float:
            lower = probability(word, context[1:]) if context else 1 / self.size
            row = tables[len(context)].get(context)
            if not row:
                return lower
            discount = found[len(context)].table()
            total = sum(row.values())
            left = sum(discount[min(c, 3)] for c in row.values()) / total
            count = row.get(word, 0)
            return (count - discount[min(count, 3)]) / total + left * lower

        return probability

    def modified_kneser_ney(self) -> Callable:
        return self.interpolated(self.continuation, modified)

    def kneser_ney(self) -> Callable:
        return self.interpolated(self.continuation, single)

    def absolute(self) -> Callable:
        return self.interpolated(lambda k: self.counts[k - 1], single)

    def witten_bell(self) -> Callable:
        tables = [self.table(counts) for counts in self.counts]

        def probability(word: int, context: Context) -> float:
            lower = probability(word, context[1:]) if context else 1 / self.size
            row = tables[len(context)].get(context)
            if not row:
                return lower
            return (row.get(word, 0) + len(row) * lower) / (sum(row.values()) + len(row))

        return probability

    def maximum_likelihood(self) -> Callable:
        tables = [self.table(counts) for counts in self.counts]

        def probability(word: int, context: Context) -> float:
            row = tables[len(context)].get(context)
            if row:
                return row.get(word, 0) / sum(row.values())
            return probability(word, context[1:])

        return probability

    def add_k(self, k: float = 1.0) -> Callable:
        tables = [self.table(counts) for counts in self.counts]

        def probability(word: int, context: Context) -> float:
            is_full = len(context) == self.order - 1 or (len(context) > 0 and context[0] == self.eos)
            row = tables[len(context)].get(context, {}) if is_full else {}
            return (row.get(word, 0) + k) / (sum(row.values()) + k * self.size)

        return probability

    def katz(self) -> Callable:
        tables = [self.table(counts) for counts in self.counts]
        ratios = [
            good_turing(np.array([c for row in table.values() for c in row.values()], np.int64), k)[0]
            for k, table in enumerate(tables, 1)
        ]

        def probability(word: int, context: Context) -> float:
            def lower(w: int) -> float:
                return probability(w, context[1:]) if context else 1 / self.size

            row = tables[len(context)].get(context)
            if not row:
                return lower(word)
            ratio = ratios[len(context)]
            shares = {w: (ratio[c] if c < len(ratio) else 1.0) * c for w, c in row.items()}
            total, unseen = sum(row.values()), 1 - sum(lower(w) for w in row)
            if unseen <= 1e-7:
                total = sum(shares.values())
            elif total - sum(shares.values()) < 1e-9:
                total = sum(shares.values()) + 1
            if word in row:
                return shares[word] / total
            return (1 - sum(shares.values()) / total) / unseen * lower(word)

        return probability

    def stupid_backoff(self, alpha: float = 0.4) -> Callable:
        tables = [self.table(counts) for counts in self.counts]

        def score(word: int, context: Context) -> float:
            row = tables[len(context)].get(context, {})
            if word in row:
                return row[word] / sum(row.values())
            if not context:
                return alpha / self.size
            return alpha * score(word, context[1:])

        return score
