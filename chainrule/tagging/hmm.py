"""A hidden Markov tagger: the tags follow a trigram model, and each tag emits its word.

    p(tags, words) = Π p(t_i | t_{i-2}, t_{i-1}) p(w_i | t_i),    p(w | t) = p(t | w) p(w) / p(t)

p(w) does not depend on the tags, so it is left out everywhere. The trigram model is models/ngram.py.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from chainrule.data.conllu import NOTHING
from chainrule.kernels.jit import kernel
from chainrule.models import ngram
from chainrule.tagging.lexicon import Lexicon

SMOOTHING = "witten-bell"


class HiddenMarkovTagger:
    """Counts its tables from tagged sentences, and tags a sentence by its most probable path."""

    def __init__(self, sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]):
        self.lexicon = Lexicon(sentences, tags)
        self.tags = self.lexicon.tags
        self.transitions = count_transitions(tags, self.tags)
        self._frequencies = np.log(self.lexicon.frequencies)

    def emissions(self, words: Sequence[str]) -> np.ndarray:
        """log p(t | w) / p(t): (words, tags)."""
        scores: np.ndarray = np.log([self.lexicon.probabilities(word) for word in words]) - self._frequencies
        return scores

    def tag(self, words: Sequence[str]) -> list[str]:
        """The most probable sequence of tags."""
        return [self.tags[number] for number in most_probable(self.emissions(words), self.transitions)]

    def log_probability(self, words: Sequence[str]) -> float:
        """log p(words) / Π p(word), summed over all sequences of tags."""
        return total(self.emissions(words), self.transitions)


def count_transitions(tags: Iterable[Sequence[str]], known: Sequence[str]) -> np.ndarray:
    """log p(t | the two tags before): (last but one, last, next). The last index of each axis is the sentence's end."""
    numbers, end = {tag: number for number, tag in enumerate(known)}, len(known)
    stream = [end]
    for labels in tags:
        if NOTHING not in labels:
            stream += [numbers[tag] for tag in labels] + [end]
    model = ngram.Model(ngram.Config(order=3, smoothing=SMOOTHING), end + 1, end).fit([np.array(stream)])
    before, last = (each.flatten() for each in np.indices((end + 1, end + 1)))
    logits, _ = model.step(last[:, None], np.stack([np.full_like(before, -1), before], 1))
    table: np.ndarray = logits.reshape(end + 1, end + 1, end + 1)
    return table


@kernel
def most_probable(emissions: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """The Viterbi algorithm: word by word the best path to every pair of last tags, then back along the best of all.

    emissions (words, tags), transitions (tags + 1, tags + 1, tags + 1) -> tags (words)
    """
    words, end = emissions.shape
    best = np.full((end + 1, end + 1), -np.inf)  # (last but one, last)
    best[end, end] = 0.0
    came_from = np.zeros((words, end + 1, end), np.int64)
    for i in range(words):
        longer = np.full((end + 1, end + 1), -np.inf)
        for last in range(end + 1):
            bound = -np.inf  # no log p of a transition is above 0, so a path below this cannot win any more
            for before in range(end + 1):
                if best[before, last] > bound:
                    bound = np.inf
                    for tag in range(end):
                        path = best[before, last] + transitions[before, last, tag]
                        if path > longer[last, tag]:
                            longer[last, tag] = path
                            came_from[i, last, tag] = before
                        bound = min(bound, longer[last, tag])
        longer[:, :end] += emissions[i]
        best = longer
    place = (best + transitions[:, :, end]).argmax()
    before, last = place // (end + 1), place % (end + 1)
    tags = np.empty(words, np.int64)
    for i in range(words - 1, -1, -1):
        tags[i] = last
        before, last = came_from[i, before, last], before
    return tags


def total(emissions: np.ndarray, transitions: np.ndarray) -> float:
    """The forward algorithm: log of the sum over all paths, where Viterbi takes the best path."""
    sums = _beginning(transitions)
    for scores in emissions:
        sums = np.logaddexp.reduce(sums[:, :, None] + transitions, 0)
        sums[:, :-1] += scores
        sums[:, -1] = -np.inf
    return float(np.logaddexp.reduce(sums + transitions[:, :, -1], (0, 1)))


def _beginning(transitions: np.ndarray) -> np.ndarray:
    """Log-probabilities of the pair of tags before the first word: only (end, end) is possible."""
    paths = np.full(transitions.shape[:2], -np.inf)
    paths[-1, -1] = 0.0
    return paths
