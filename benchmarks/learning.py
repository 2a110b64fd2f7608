"""`make learn`: what `chainrule train` reaches on real text in the minutes it is given, by text and by architecture.

Every row is a run of the command itself, kept under runs/learning, and is written to docs/results/quality.md as soon
as it is done; rows that were not asked for stay as they are.
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.corpora import DATA, SHAKESPEARE, SPEECHES
from benchmarks.measure import run_process
from benchmarks.report import RESULTS, Section, publish
from chainrule.runs.folder import Run

HOME = Path("runs") / "learning"
PTB = DATA / "ptb"
PTB_TEST_TOKENS = 82_430  # with an <eos> for each line: what published perplexities are over
ARCHITECTURES = ("bow", "mlp", "attention", "elman", "ugrnn", "gru", "lstm", "transformer")

CHARACTERS = (str(SHAKESPEARE), "--tokenizer", "characters", "--unit", "file", "--split", "tail")
NAMED = (str(DATA / "makemore-names" / "names.txt"), "--tokenizer", "characters", "--unit", "line")
CLOSED_WORDS = ("--unit", "line", "--tokenizer", "words", "--closed-vocabulary")
TREEBANK = (str(PTB / "ptb.train.txt"), "--validation", str(PTB / "ptb.valid.txt"), *CLOSED_WORDS)


@dataclass(frozen=True)
class Row:
    text: str
    arguments: tuple[str, ...]
    minutes: float | None = None  # None: a model that counts, which takes what it takes
    test: Path | None = None  # measured by `chainrule evaluate`
    goal: str = ""
    is_extra: bool = False  # only where it is named
    tokenizer_of: str = ""  # another row, whose tokens it shares


LEARNING = {
    "tinyshakespeare-3": Row("tinyshakespeare, characters", CHARACTERS, 3, goal="1.62 nats"),
    "tinyshakespeare-10": Row("tinyshakespeare, characters", CHARACTERS, 10, goal="1.53 nats"),
    "tinyshakespeare-60": Row("tinyshakespeare, characters", CHARACTERS, 60, goal="1.47 nats"),
    "ptb-10": Row("Penn Treebank, words", TREEBANK, 10, PTB / "ptb.test.txt", "test perplexity 110"),
    "ptb-30": Row("Penn Treebank, words", TREEBANK, 30, PTB / "ptb.test.txt", "test perplexity 92"),
    "ptb-10-lstm": Row("Penn Treebank, words", (*TREEBANK, "--model", "lstm"), 10, PTB / "ptb.test.txt", is_extra=True),
    "ptb-30-lstm": Row("Penn Treebank, words", (*TREEBANK, "--model", "lstm"), 30, PTB / "ptb.test.txt", is_extra=True),
    "sotu-3": Row(
        "State of the Union, BPE", (str(SPEECHES), "--tokenizer", "bpe"), 3, SPEECHES.with_name("test_1990_2026.txt")
    ),
    "sotu-5gram": Row(
        "State of the Union, the same BPE",
        (str(SPEECHES), "--model", "ngram", "--order", "5"),
        test=SPEECHES.with_name("test_1990_2026.txt"),
        tokenizer_of="sotu-3",
    ),
}


def ladder(minutes: float) -> dict[str, Row]:
    rows = {f"ladder-{name}": Row(name, (*CHARACTERS, "--model", name), minutes) for name in ARCHITECTURES}
    counting = Row("ngram", (*CHARACTERS, "--model", "ngram", "--order", "6"))
    return {"ladder-ngram": counting, **rows}


ENGINE_STEPS = 1000


def engines() -> dict[str, Row]:
    """The same model, text and steps, with the gradients of either engine."""
    texts = {"names": ("names", NAMED), "tinyshakespeare": ("tinyshakespeare", CHARACTERS)}
    models = {
        "elman": ("--model", "elman", "--size", "tiny", "--set", "width=128"),
        "transformer": ("--model", "transformer", "--size", "gpt2-tiny"),
    }
    steps = ("--steps", str(ENGINE_STEPS))
    return {
        f"engines-{text}-{model}-{engine}": Row(title, (*arguments, *settings, *steps, "--engine", engine))
        for text, (title, arguments) in texts.items()
        for model, settings in models.items()
        for engine in ("torch", "tape")
    }


def choose(names: list[str], rows: dict[str, Row]) -> list[str]:
    """Rows by name, or all that begin with it: 'ptb' -> ptb-10, ptb-30; none named: all but extras."""
    chosen = []
    for name in names or [""]:
        found = [name] if name in rows else [each for each in rows if each.startswith(name) and not rows[each].is_extra]
        if not found:
            raise SystemExit(f"there is no row '{name}' (there are: {', '.join(rows)})")
        chosen += found
    return list(dict.fromkeys(chosen))


def train(name: str, row: Row, home: Path) -> dict[str, Any]:
    """The figures of one row, from its run folder."""
    path = home / name
    command = [sys.executable, "-m", "chainrule", "train", *row.arguments]
    if row.tokenizer_of:
        command += ["--tokenizer", str(home / row.tokenizer_of)]
    if row.minutes is not None:
        compile_kernels(command)
        command += ["--minutes", f"{row.minutes:g}"]
    print(f"{name}: chainrule {' '.join(command[3:])}", flush=True)
    ended = run_process([*command, "--as", str(path), "--overwrite", "--json"])
    return measure(path, row) | {"wall_seconds": ended.seconds, "megabytes": ended.megabytes}


def measure(path: Path, row: Row) -> dict[str, Any]:
    """The figures of a run that is there."""
    figures = describe(Run(path))
    figures["wall_seconds"] = figures["seconds"]
    if row.test:
        figures["test"] = run_process(
            [sys.executable, "-m", "chainrule", "evaluate", str(path), str(row.test), "--worst", "0", "--json"]
        ).json
        figures["test"].pop("inputs", None)  # where this machine keeps its data
        counted = figures["test"]["tokens"] + figures["test"]["documents"]
        assert row.test.parent != PTB or counted == PTB_TEST_TOKENS, f"{counted:,} test tokens"
    return figures | {"text": row.text, "asked_seconds": row.minutes and row.minutes * 60, "goal": row.goal}


def compile_kernels(command: list[str]) -> None:
    """Numba does it once per installation; the minutes that are measured should not pay for it."""
    with tempfile.TemporaryDirectory() as folder:
        run_process([*command, "--steps", "1", "--as", str(Path(folder) / "run")])


def describe(run: Run) -> dict[str, Any]:
    metrics, config = run.metrics[-1], run.config
    names = ("seconds", "training_seconds", "steps", "best_step", "tokens", "tokens_per_second", "epochs", "parameters")
    return {name: metrics.get(name) for name in names} | {
        "validation": metrics["validation"],
        "architecture": run.architecture,
        "model": config["model"],
        "recipe": config.get("training", {}).get("recipe"),
        "why": config.get("training", {}).get("why", []),
        "vocabulary_size": config["tokenizer"]["vocabulary_size"],
    }


def what_was_chosen(figures: dict[str, Any]) -> str:
    """transformer 4 × 128, context 128, batch 16 × 128 tokens, muon"""
    model, recipe = figures["model"], figures["recipe"]
    layers = f"{model['num_layers']} × {model['width']}" if "num_layers" in model else ""
    phrases = [" ".join(filter(None, [figures["architecture"], layers or str(model.get("width", ""))]))]
    phrases += [
        f"{word} {model[name]}" for name, word in (("order", "order"), ("context_length", "context")) if model.get(name)
    ]
    phrases += [f"dropout {model['dropout']:g}"] if model.get("dropout") else []
    if recipe:
        phrases += [f"batch {recipe['batch_size']} × {recipe['window']}", recipe["optimizer"]]
    return ", ".join(phrases)


def cells(figures: dict[str, Any]) -> dict[str, str]:
    """Every column that a table may want."""
    validation, test, asked = figures["validation"], figures.get("test"), figures["asked_seconds"]
    epochs, speed = figures["epochs"], figures["tokens_per_second"]
    tested = ""
    if test:
        bits = test["bits_per_byte"]
        tested = f"perplexity {test['perplexity']:.2f}" if bits is None else f"{bits:.4f} bits/byte"
    return {
        "text": figures["text"],
        "chosen": what_was_chosen(figures),
        "parameters": f"{figures['parameters']:,}",
        "seconds": f"{figures['wall_seconds']:.1f}"
        + (f" of {asked:g}" if asked else "")
        + (f" ({figures['remark']})" if figures.get("remark") else ""),
        "tokens/s": f"{speed:,}" if speed else "–",
        "epochs": "/".join(f"{each:.2f}" for each in epochs) if epochs else "1",
        "nats/token": f"{validation['loss']:.4f}",
        "bits/byte": "–" if validation["bits_per_byte"] is None else f"{validation['bits_per_byte']:.4f}",
        "perplexity": f"{validation['perplexity']:.2f}",
        "test": tested,
        "goal": figures["goal"],
    }


def table(figures: dict[str, Any], order: list[str], columns: list[str]) -> list[list[str]]:
    return [[cells(figures[name])[column] for column in columns] for name in order if name in figures]


def learning_section(figures: dict[str, Any]) -> Section:
    columns = ["text", "seconds", "chosen", "parameters", "tokens/s", "epochs", "nats/token", "bits/byte", "perplexity"]
    columns += ["test", "goal"]
    text = (
        "One command a row, `chainrule train TEXT --minutes M`, without a setting but what the tokens are. Seconds\n"
        "are of the whole process, and those asked for. Nats, bits and perplexity are of the validation text: the\n"
        "last tenth of tinyshakespeare; the Penn Treebank's own part (10,000 words, closed, `<eos>` counted; its test\n"
        "text beside it); a tenth of the speeches to 1989, with those of 1990–2026 as a test."
    )
    return Section("What minutes buy", text, columns, table(figures, list(LEARNING), columns), figures)


def ladder_section(figures: dict[str, Any]) -> Section:
    columns = ["chosen", "parameters", "seconds", "tokens/s", "epochs", "nats/token", "bits/byte"]
    text = "tinyshakespeare by characters, the last tenth kept aside; each architecture as it comes, in the same time."
    return Section("The ladder of architectures", text, columns, table(figures, list(ladder(1)), columns), figures)


def engines_section(figures: dict[str, Any]) -> Section:
    columns = ["text", "chosen", "seconds", "tokens/s", "epochs", "nats/token"]
    rows = [
        [name.rpartition("-")[2], *row]
        for name in engines()
        for row in table({name: figures[name]} if name in figures else {}, [name], columns)
    ]
    text = f"The same model with torch's gradients and with our own, {ENGINE_STEPS:,} steps; the goal is within 1 %."
    return Section("On the tape", text, ["engine", *columns], rows, figures)


SECTIONS = {"learning": learning_section, "ladder": ladder_section, "engines": engines_section}


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="ROW", help="by name, or how names begin")
    parser.add_argument("--ladder-minutes", type=float, default=1.0)
    parser.add_argument("--trial", type=float, metavar="MINUTES", help="so short a run of each; nothing is kept")
    parser.add_argument("--collect", action="store_true", help="take the runs that are there instead of training")
    parser.add_argument("--remark", default="", help="what a reader should know of these rows, such as 'one core'")
    parser.add_argument("--list", action="store_true", help="the names of all rows")
    arguments = parser.parse_args(words)
    rows = LEARNING | ladder(arguments.ladder_minutes) | engines()
    if arguments.list:
        print("\n".join(rows))
        return
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary) if arguments.trial else HOME
        fresh: dict[str, dict[str, Any]] = {part: {} for part in SECTIONS}
        for name in choose(arguments.only, rows):
            row = rows[name]
            if arguments.trial and row.minutes is not None:
                row = Row(row.text, row.arguments, arguments.trial, row.test, row.goal)
            part = name.partition("-")[0] if name.startswith(("ladder-", "engines-")) else "learning"
            found = measure(home / name, row) if arguments.collect else train(name, row, home)
            fresh[part][name] = found | {"remark": arguments.remark}
            figures = fresh[part] if arguments.trial else RESULTS.figures(part) | fresh[part]
            publish(RESULTS, part, SECTIONS[part](figures), bool(arguments.trial))


if __name__ == "__main__":
    main()
