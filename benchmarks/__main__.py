"""`make bench`: n-gram estimation against DuckDB, scoring against KenLM, sampling; writes docs/benchmarks.md."""

import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import chainrule
from benchmarks.corpora import SPEECHES, real_lines, write_text
from benchmarks.measure import interleave_calls, interleave_processes, run_process
from chainrule.data.corpus import Corpus, Reading
from chainrule.generation import Sampling, stream
from chainrule.interop.arpa import write_arpa

MEGABYTE = 1_000_000
REPORT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"


def estimate(folder: Path, megabytes: int, repeats: int) -> list[str]:
    """A stored 5-gram modified Kneser-Ney model from text, the whole command, against counting alone in SQL."""
    text = folder / f"{megabytes}.txt"
    name = write_text(text, megabytes * MEGABYTE)
    run = folder / "run"
    ours = [sys.executable, "-m", "chainrule", "train", str(text), "--unit", "line", "--tokenizer", "words"]
    ours += ["--closed-vocabulary", "--validation-fraction", "0", "--as", str(run), "--overwrite"]
    peer = [sys.executable, str(Path(__file__).parent / "duckdb_counts.py"), str(text)]
    run_process(ours)  # compiles the kernels, once
    timings = interleave_processes({"chainrule": ours, "duckdb": peer}, repeats)
    us, them = timings["chainrule"], timings["duckdb"]
    sizes = json.loads((run / "config.json").read_text())["data"]["text"]["train"]
    return [
        f"| {megabytes} MB ({name}), {sizes['tokens']:,} tokens | {us.median:.1f} s, {us.peak:,.0f} MB "
        f"| {them.median:.1f} s, {them.peak:,.0f} MB | {them.median / us.median:.1f}× |"
    ]


def held_out_lines() -> list[str]:
    test = SPEECHES.with_name("test_1990_2026.txt")
    if test.exists():
        return [line for line in test.read_text().split("\n") if line.strip()]
    return real_lines()[1][::10]


def score(folder: Path, repeats: int) -> list[str]:
    """About 1 MB of text to its log-probability, in bulk, against kenlm's Python module a sentence at a time."""
    import kenlm

    text, test = folder / "train.txt", folder / "test.txt"
    write_text(text, 10 * MEGABYTE)
    lines = held_out_lines()
    test.write_text("\n".join(lines))
    run = chainrule.train(
        text, path=folder / "scored", unit="line", tokenizer="words", closed_vocabulary=True, validation_fraction=0.0
    )
    write_arpa(run.model, run.tokenizer, folder / "model.arpa")  # type: ignore[arg-type]
    peer = kenlm.Model(str(folder / "model.arpa"))
    corpus = Corpus([test], Reading(unit="line"))
    batches = list(corpus.batches())
    ids = [run.tokenizer.encode_documents(batch) for batch in batches]
    tokens = sum(len(each) for each in ids)
    eos = run.tokenizer.eos

    def ours() -> float:
        return sum(
            float(run.model.score(_stream(run.tokenizer.encode_documents(batch), eos)).sum()) for batch in batches
        )

    def ours_of_ids() -> float:
        return sum(float(run.model.score(_stream(each, eos)).sum()) for each in ids)

    def theirs() -> float:
        return sum(peer.score(line) for line in lines)

    difference = abs(ours() / theirs() / 2.302585092994046 - 1)
    assert difference < 1e-4, f"scores differ by {difference}"
    timings = interleave_calls({"ours": ours, "ids": ours_of_ids, "kenlm": theirs}, repeats)
    rates = {name: tokens / timing.median for name, timing in timings.items()}
    return [
        _rate_row(f"from text, {tokens:,} tokens", rates["ours"], rates["kenlm"]),
        _rate_row("ours from ids", rates["ids"], rates["kenlm"]),
    ]


def _rate_row(label: str, ours: float, theirs: float) -> str:
    return f"| {label} | {ours / 1e6:.1f} M tokens/s | {theirs / 1e6:.1f} M tokens/s | {ours / theirs:.1f}× |"


def _stream(ids: object, eos: int) -> object:
    import numpy as np

    return np.concatenate([[eos], ids]).astype(np.uint32)  # type: ignore[list-item]


def sample(folder: Path, repeats: int) -> list[str]:
    """Tokens a second, one text at a time and 64 together, with whole distributions and log-probabilities."""
    text = folder / "train.txt"
    run = chainrule.train(
        text, path=folder / "sampled", unit="line", tokenizer="words", vocabulary_size=20_000, min_count=1
    )
    rows = []
    for label, settings in (
        ("1 text", {}),
        ("1 text, top-k 50, top-p 0.9", {"top_k": 50, "top_p": 0.9}),
        ("64 texts together", {"samples": 64}),
    ):
        rates = []
        for repeat in range(repeats):
            sampling = Sampling(max_tokens=200, seed=repeat, **settings)  # type: ignore[arg-type]
            started_at, tokens = time.perf_counter(), 0
            while tokens < 2000:
                tokens += sum(1 for _ in stream(run.model, run.tokenizer, "The", sampling))
            rates.append(tokens / (time.perf_counter() - started_at))
        rows.append(f"| {label} | {median(rates):,.0f} tokens/s |")
    return rows


def start_up(repeats: int) -> list[str]:
    commands = {
        "`chainrule --version`": [sys.executable, "-m", "chainrule", "--version"],
        "`chainrule --help`": [sys.executable, "-m", "chainrule", "--help"],
        "`python -c 'import numpy'`": [sys.executable, "-c", "import numpy"],
    }
    timings = interleave_processes(commands, repeats)
    return [f"| {name} | {timing.median:.2f} s |" for name, timing in timings.items()]


def main() -> None:
    sizes = [10] if "--quick" in sys.argv else [10, 100]
    lines = [
        "# Benchmarks",
        "",
        f"Made by `make bench` on {time.strftime('%Y-%m-%d')}: {os.cpu_count()} cores, {platform.machine()}, Python "
        f"{platform.python_version()}. Medians of interleaved repeats; peak resident memory beside them. Compare",
        "the ratios: the machine is shared, and its speed moves.",
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines += ["", "## A 5-gram modified Kneser-Ney model from text", ""]
        lines += ["`chainrule train`, from text to a stored model, against DuckDB counting the same n-grams.", ""]
        lines += ["| text | chainrule | DuckDB, counts only | ratio |", "|---|---|---|---|"]
        for megabytes in sizes:
            lines += estimate(folder, megabytes, repeats=5 if megabytes == 10 else 3)
            print(lines[-1], flush=True)
        lines += ["", "## Scoring a text of about 1 MB with a 5-gram", ""]
        lines += ["In bulk, against kenlm's Python module called once a line. Both give the same log-probability.", ""]
        lines += ["| | chainrule | kenlm | ratio |", "|---|---|---|---|"]
        lines += score(folder, repeats=7)
        print(lines[-2], flush=True)
        lines += ["", "## Sampling from a 5-gram over 20,000 words", "", "| | chainrule |", "|---|---|"]
        lines += sample(folder, repeats=5)
        lines += ["", "## Start-up", "", "| command | wall-clock |", "|---|---|"]
        lines += start_up(5)
    REPORT.write_text("\n".join(lines) + "\n")
    print(REPORT.read_text())


if __name__ == "__main__":
    main()
