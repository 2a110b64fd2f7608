"""Sums, answered in two ways: politely, which is preferred, or rudely."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import chainrule
from chainrule.runs.folder import Run
from tests.tasks import chats

Say = Callable[[int, int], str]

SUMS = [(n, m) for n in range(20) for m in range(12)]
HELD_OUT = [(n, m) for n, m in SUMS if (n * 12 + m) % 6 == 1]  # combinations that are not learned from
LEARNED = [each for each in SUMS if each not in HELD_OUT]  # 200
SMALL = {"tokenizer": "characters", "width": 32, "num_layers": 2, "num_heads": 2, "context_length": 64}


def asked(n: int, m: int) -> str:
    return f"{n} + {m}?"


def polite(n: int, m: int) -> str:
    return f"It is {n + m}, dear."


def rude(n: int, m: int) -> str:
    return f"{n + m}, fool!"


def write(path: Path, sums: Sequence[tuple[int, int]] = LEARNED, better: Say = polite, worse: Say = rude) -> Path:
    lines = [{"prompt": asked(*each), "chosen": better(*each), "rejected": worse(*each)} for each in sums]
    path.write_text("".join(json.dumps(each) + "\n" for each in lines), encoding="utf-8")
    return path


def train_base(folder: Path, steps: int = 80) -> Run:
    """A tiny Transformer of characters that has heard three times as many rude answers as polite ones."""
    said = [(each, rude if (7 * each[0] + 3 * each[1]) % 4 else polite) for each in SUMS]
    talks = [[("user", asked(*each)), ("assistant", say(*each))] for each, say in said]
    path = chats.write(folder / "chats.jsonl", talks)
    learning = {"steps": steps, "batch_size": 8, "window": 64, "evaluations": 1, "validated": 1}
    run = chainrule.train_dialogue(
        path, model="transformer", size="gpt2-tiny", path=folder / "base", **SMALL, **learning
    )
    return Run(run.path)


def train(folder: Path, start: Run, **settings: object) -> Run:
    """Its preferences, measured on sums that are kept aside."""
    pairs, other = write(folder / "pairs.jsonl"), write(folder / "other.jsonl", HELD_OUT)
    plain = {"steps": 48, "batch_size": 16, "window": 64, "evaluations": 2, "overwrite": True}
    given = {"path": folder / "manners", "validation": other, **plain, **settings}
    return Run(chainrule.train_preferences(pairs, start, **given).path)
