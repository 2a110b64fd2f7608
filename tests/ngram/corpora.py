"""Small random corpora for property tests."""

import numpy as np
from hypothesis import strategies as st

VOCABULARY, EOS = 6, 5

documents = st.lists(st.lists(st.integers(0, EOS - 1), max_size=12), min_size=1, max_size=12)
orders = st.integers(1, 4)


def stream(texts: list[list[int]]) -> np.ndarray:
    return np.array([EOS, *(word for text in texts for word in [*text, EOS])], np.uint32)
