"""One tokenizer in several threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from chainrule.data.documents import cut
from chainrule.text import words
from chainrule.text.base import Vocabulary


def test_threads_that_share_a_tokenizer_get_the_ids_it_gives_alone():
    texts = ["\n".join(f"word{i * k} and word{i + k}" for i in range(3000)) for k in range(1, 9)]
    batches = [cut(np.frombuffer(bytearray(text.encode()), np.uint8), "line", "t") for text in texts]
    alone = [words.train(batches[:1], Vocabulary()).encode_documents(batch) for batch in batches]
    shared = words.train(batches[:1], Vocabulary())
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(shared.encode_documents, batches, timeout=60))
    for found, expected in zip(together, alone, strict=True):
        np.testing.assert_array_equal(found, expected)
