"""Text for benchmarks: real speeches where they are at hand, else Python's source, repeated and stirred to any size."""

import random
from pathlib import Path

from chainrule.data.corpus import Corpus

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SHAKESPEARE = DATA / "tinyshakespeare" / "input.txt"
SPEECHES = DATA / "sotu" / "train_1790_1989.txt"


def real_lines() -> tuple[str, list[str]]:
    """(what it is, its lines that are not blank)"""
    if SPEECHES.exists():
        return "State of the Union speeches", [line for line in SPEECHES.read_text().split("\n") if line.strip()]
    corpus = Corpus(["builtin:python-source"])
    texts = [documents.text(i) for documents in corpus.batches() for i in range(len(documents))]
    return "the standard library's source", [line for text in texts for line in text.split("\n") if line.strip()]


def write_text(path: Path, size: int) -> str:
    """A file of about `size` bytes; repeats are shuffled and one word in ten exchanged: n-grams keep growing."""
    name, lines = real_lines()
    generator = random.Random(0)
    words = " ".join(lines).split()
    written = 0
    is_first = True
    with open(path, "w") as file:
        while written < size:
            for line in lines:
                if not is_first:
                    line = " ".join(w if generator.random() > 0.1 else generator.choice(words) for w in line.split())
                written += file.write(line + "\n")
                if written >= size:
                    break
            generator.shuffle(lines)
            is_first = False
    return name
