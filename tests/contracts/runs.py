"""A run of every architecture, each of the smallest size and in a folder of the architecture's name."""

from pathlib import Path

import chainrule
from chainrule import registry
from chainrule.models.contract import Counts
from tests.contracts.test_models import ARCHITECTURES
from tests.tagging import treebank
from tests.tasks.toys import write_pairs

COUNTING = [
    name for name in ARCHITECTURES if issubclass(registry.find("chainrule.models", name, "model").Model, Counts)
]
LEARNING = [*(name for name in ARCHITECTURES if name not in COUNTING), "convolution"]
LANGUAGE = [*COUNTING, *LEARNING, "mix", "ensemble"]
ALL = [*LANGUAGE, "conditional", "tagger"]
PARTS = ["cache", "tokennetwork", "wordnetwork"]  # never a run by themselves; the mix here has a cache

TEXT = "".join(f"the {'red' if i % 3 else 'old'} cow eats {'hay' if i % 2 else 'grass'}\n" for i in range(60))
READING = {"tokenizer": "bytes", "unit": "line"}
STEPS = {"steps": 3, "batch_size": 2}


def train(architecture: str, folder: Path) -> Path:
    """Train it, unless it is there, in this folder, which has `cows.txt` and, for a mix, the run `bigram`."""
    path = folder / architecture
    if path.exists():
        return path
    if architecture == "mix":
        chainrule.mix([folder / "bigram"], cache=True, path=path)
    elif architecture == "ensemble":
        chainrule.train(folder / "cows.txt", unit="line", minutes=0.02, path=path)
    elif architecture == "conditional":
        pairs = write_pairs(folder / "pairs.tsv", 60)
        chainrule.train_pairs(pairs, size="tiny", tokenizer="words", path=path, **STEPS)
    elif architecture == "tagger":
        (folder / "bank.conllu").write_text(treebank.write(60, 0))
        chainrule.train_tagger(folder / "bank.conllu", size="tiny", path=path, **STEPS)
    else:
        budget = {} if architecture in COUNTING else STEPS
        chainrule.train(folder / "cows.txt", model=architecture, size="tiny", path=path, **READING, **budget)
    return path
