"""`make promise`: what `--minutes` makes of texts of many kinds, beside counting and compressors.

Bits per byte of the documents that `chainrule train` keeps aside. A compressor's figure is the bits of the training
text and the held-out text together, less those of the training text alone, so that it has read what we have read. Of a
small text that is a difference of some hundred bytes, so small texts are also measured over several splits. zpaq
decides for each file anew whether it is text, which moves that difference by forty bytes; a second figure has it
decided alike.
"""

import argparse
import gzip
import lzma
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.corpora import DATA, SHAKESPEARE, SPEECHES
from benchmarks.report import PROMISE, Section, publish
from chainrule.data.corpus import Corpus
from chainrule.data.documents import SEPARATORS
from chainrule.data.settings import Splitting
from chainrule.data.split import decide

ORDERS = (3, 4, 5, 6, 8, 10, 12)
VERSE_BYTES = slice(300_000, 340_000)
SMALL_BYTES, SPLITS = 50_000, range(6)  # texts that are measured over several splits, and the seeds of these
COUNTING, PPMD, ZPAQ, XZ = "n-gram", "PPMd", "zpaq -m5", "xz"
ZPAQ_ALIKE, ALIKE = "zpaq, both files alike", ("-m56,188,0", "-m56,188,1")  # as no text, as text; else what -m5 says
MINUTES = (1, 5)
MINUTE = "1 min"
COLUMNS = (COUNTING, PPMD, ZPAQ, ZPAQ_ALIKE, XZ, MINUTE)  # of small texts


@dataclass(frozen=True)
class Parts:
    """The two sides of the split that training makes, each with its documents' separators."""

    train: bytes
    held_out: bytes


def texts(folder: Path) -> dict[str, str]:
    """Name -> input of `chainrule train`; those that are at hand."""
    found = {f"texts/{path.stem}": str(path) for path in sorted((DATA / "texts").glob("*.txt"))}
    if SHAKESPEARE.exists():
        verse = folder / "verse.txt"
        verse.write_bytes(SHAKESPEARE.read_bytes()[VERSE_BYTES])
        found |= {"40 kB of verse": str(verse), "tinyshakespeare": str(SHAKESPEARE)}
    captions = DATA / "multi30k" / "raw" / "train.de.gz"
    if captions.exists():
        german = folder / "captions.txt"
        german.write_bytes(gzip.decompress(captions.read_bytes()))
        found["German captions"] = str(german)
    others = {
        "names": DATA / "makemore-names" / "names.txt",
        "WikiText-2 valid": DATA / "wikitext2" / "wiki.valid.raw",
        "State of the Union": SPEECHES,
    }
    found |= {name: str(path) for name, path in others.items() if path.exists()}
    return found | {"Python's documentation": "builtin:python-docs", "Python's source": "builtin:python-source"}


def split(text: str, seed: int) -> Parts:
    corpus = Corpus([text])
    decided = decide(corpus.batches(), Splitting(split_seed=seed), corpus.unit)
    separator = SEPARATORS[corpus.unit]
    sides: tuple[list[bytes], list[bytes]] = ([], [])
    for pair in decided(corpus.batches()):
        for side, documents in zip(sides, pair, strict=True):
            spans = zip(documents.starts, documents.ends, strict=True)
            side += [documents.buffer[start:end].tobytes() + separator for start, end in spans]
    return Parts(b"".join(sides[0]), b"".join(sides[1]))


def compressed_bits(parts: Parts, size_of: Callable[[bytes], int]) -> float:
    more = size_of(parts.train + parts.held_out) - size_of(parts.train)
    return more * 8 / len(parts.held_out)


def ppmd_size(order: int) -> Callable[[bytes], int]:
    import pyppmd

    def size(data: bytes) -> int:
        encoder = pyppmd.Ppmd7Encoder(max_order=order, mem_size=512 << 20)
        return len(encoder.encode(data)) + len(encoder.flush())

    return size


def zpaq_size(data: bytes, method: str = "-m5") -> int:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "text").write_bytes(data)
        command = ["zpaq", "a", "out.zpaq", "text", method, "-t1"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return (Path(folder) / "out.zpaq").stat().st_size


def xz_size(data: bytes) -> int:
    return len(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))


def measure_compressors(text: str, seed: int = 0) -> dict[str, Any]:
    parts = split(text, seed)
    orders = ORDERS if len(parts.train) < 3_000_000 else (5, 6, 8)
    found: dict[str, Any] = {"bytes": len(parts.train) + len(parts.held_out), "held out": len(parts.held_out)}
    found[PPMD] = min(compressed_bits(parts, ppmd_size(order)) for order in orders)
    if shutil.which("zpaq"):
        found[ZPAQ] = compressed_bits(parts, zpaq_size)
    found[XZ] = compressed_bits(parts, xz_size)
    return found


def train(text: str, folder: Path, minutes: float | None, seed: int = 0) -> dict[str, Any]:
    """A run of the command that a person would type, in a process of its own."""
    import json

    command = [sys.executable, "-m", "chainrule", "train", text, "--as", str(folder / "run"), "--overwrite", "--json"]
    command += ["--split-seed", str(seed), *(["--minutes", str(minutes)] if minutes else [])]
    began = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout)
    validation = figures["validation"]
    kept = [part["name"] for part in validation.get("parts", [])] or [figures["config"]["architecture"]]
    return {"bits": validation["bits_per_byte"], "seconds": time.perf_counter() - began, "chosen": ", ".join(kept)}


def best(row: Mapping[str, Any]) -> float:
    return float(min(row[name] for name in (COUNTING, PPMD, ZPAQ) if name in row))


def section(figures: dict[str, dict[str, Any]]) -> Section:
    header = ["text", "kB", COUNTING, PPMD, ZPAQ, XZ, *(f"{m} min" for m in MINUTES), "of the best", "chosen"]
    rows, ratios = [], {minutes: [] for minutes in MINUTES}
    for name, row in figures.items():
        cells = [name, f"{row['bytes'] / 1000:,.0f}"]
        cells += [f"{row[column]:.3f}" if column in row else "–" for column in (COUNTING, PPMD, ZPAQ, XZ)]
        of_best, chosen = [], "–"
        for minutes in MINUTES:
            run = row.get(f"{minutes} min")
            cells.append(f"{run['bits']:.3f} ({run['seconds']:.0f} s)" if run else "–")
            if run:
                ratios[minutes].append(run["bits"] / best(row))
                of_best.append(f"{ratios[minutes][-1]:.3f}")
                chosen = run["chosen"]
        rows.append([*cells, ", ".join(of_best), chosen])
    means = {minutes: mean(found) for minutes, found in ratios.items() if found}
    text = "; ".join(f"{m} min: geometric mean {each:.3f} of the best of the first three" for m, each in means.items())
    return Section("Bits per byte of held-out documents", f"{text}.", header, rows, {"texts": figures})


def measure_splits(text: str, folder: Path) -> dict[str, float]:
    """Bits per byte over all splits together, and bytes held out."""
    totals: dict[str, float] = {}
    for seed in SPLITS:
        row = measure_compressors(text, seed)
        if ZPAQ in row:
            parts = split(text, seed)
            row[ZPAQ_ALIKE] = min(compressed_bits(parts, partial(zpaq_size, method=method)) for method in ALIKE)
        row[COUNTING] = train(text, folder, None, seed)["bits"]
        row[MINUTE] = train(text, folder, 1, seed)["bits"]
        for name in COLUMNS:
            if name in row:
                totals[name] = totals.get(name, 0.0) + row[name] * row["held out"]
        totals["held out"] = totals.get("held out", 0) + row["held out"]
    return {name: total if name == "held out" else total / totals["held out"] for name, total in totals.items()}


def splits_section(figures: dict[str, dict[str, float]]) -> Section:
    header = ["text", "held out, kB", *COLUMNS, "of the best", "with both files alike"]
    rows, ratios, ratios_alike = [], [], []
    for name, row in figures.items():
        cells = [f"{row[column]:.3f}" if column in row else "–" for column in COLUMNS]
        alike = row | {ZPAQ: row[ZPAQ_ALIKE]} if ZPAQ_ALIKE in row else row
        ratios.append(row[MINUTE] / best(row))
        ratios_alike.append(row[MINUTE] / best(alike))
        of_best = [f"{each[-1]:.3f}" for each in (ratios, ratios_alike)]
        rows.append([name, f"{row['held out'] / 1000:.1f}", *cells, *of_best])
    text = (
        f"{len(SPLITS)} splits, all held-out bytes together: geometric mean {mean(ratios):.3f} of the best.\n"
        "zpaq decides for each file anew whether it is text, which moves its figures of so few bytes up or down.\n"
        f"Where both files are taken alike, by the better of the two ways, the mean is {mean(ratios_alike):.3f}."
    )
    return Section("Small texts over several splits", text, header, rows, {"texts": figures})


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promise", description=__doc__)
    parser.add_argument("--only", action="append", help="this text alone (repeat for several)")
    parser.add_argument("--minutes", action="append", type=int, choices=MINUTES, help="this budget alone")
    arguments = parser.parse_args(words)
    figures: dict[str, dict[str, Any]] = PROMISE.figures("texts").get("texts", {})
    of_splits: dict[str, dict[str, float]] = PROMISE.figures("splits").get("texts", {})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for text, path in texts(folder).items():
            if arguments.only and text not in arguments.only:
                continue
            row = figures.setdefault(text, {})
            if PPMD not in row:
                row |= measure_compressors(path)
            row[COUNTING] = train(path, folder, None)["bits"]
            for minutes in arguments.minutes or MINUTES:
                row[f"{minutes} min"] = train(path, folder, minutes)
                print(text, row, file=sys.stderr, flush=True)
            publish(PROMISE, "texts", section(figures), is_trial=False)
            if row["bytes"] < SMALL_BYTES:
                of_splits[text] = measure_splits(path, folder)
                publish(PROMISE, "splits", splits_section(of_splits), is_trial=False)


if __name__ == "__main__":
    main()
