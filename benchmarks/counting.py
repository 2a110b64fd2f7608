"""Models that count: estimation against DuckDB, scoring against KenLM, sampling, and the start-up of the commands."""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np

import chainrule
from benchmarks.corpora import SPEECHES, real_lines, write_text
from benchmarks.measure import interleave_calls, interleave_processes, run_process
from benchmarks.report import BENCHMARKS, Section, publish
from chainrule.data.corpus import Corpus, Reading
from chainrule.generation import Sampling, stream
from chainrule.interop.arpa.write import write_arpa

MEGABYTE = 1_000_000


def estimate(folder: Path, sizes: list[int]) -> Section:
    """A stored 5-gram modified Kneser-Ney model from text, the whole command, against counting alone in SQL."""
    return Section(
        "A 5-gram modified Kneser-Ney model from text",
        "`chainrule train`, from text to a stored model, against DuckDB counting the same n-grams.",
        ["text", "chainrule", "DuckDB, counts only", "ratio"],
        [_estimate(folder, megabytes, repeats=5 if megabytes == 10 else 3) for megabytes in sizes],
    )


def _estimate(folder: Path, megabytes: int, repeats: int) -> list[str]:
    text = folder / f"{megabytes}.txt"
    name = write_text(text, megabytes * MEGABYTE)
    run = folder / "run"
    ours = [sys.executable, "-m", "chainrule", "train", str(text), "--unit", "line", "--tokenizer", "words"]
    ours += ["--closed-vocabulary", "--validation-fraction", "0", "--as", str(run), "--overwrite", "--json"]
    peer = [sys.executable, str(Path(__file__).parent / "duckdb_counts.py"), str(text)]
    tokens = run_process(ours).json["tokens"]  # compiles the kernels, once
    timings = interleave_processes({"chainrule": ours, "duckdb": peer}, repeats)
    us, them = timings["chainrule"], timings["duckdb"]
    return [
        f"{megabytes} MB ({name}), {tokens:,} tokens",
        f"{us.median:.1f} s, {us.peak:,.0f} MB",
        f"{them.median:.1f} s, {them.peak:,.0f} MB",
        f"{them.median / us.median:.1f}×",
    ]


def held_out_lines() -> list[str]:
    test = SPEECHES.with_name("test_1990_2026.txt")
    if test.exists():
        return [line for line in test.read_text().split("\n") if line.strip()]
    return real_lines()[1][::10]


def score(folder: Path, repeats: int) -> Section:
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
    return Section(
        "Scoring a text of about 1 MB with a 5-gram",
        "In bulk, against kenlm's Python module called once a line. Both give the same log-probability.",
        ["", "chainrule", "kenlm", "ratio"],
        [
            _rate_row(f"from text, {tokens:,} tokens", rates["ours"], rates["kenlm"]),
            _rate_row("ours from ids", rates["ids"], rates["kenlm"]),
        ],
        {"tokens_per_second": rates},
    )


def _rate_row(label: str, ours: float, theirs: float) -> list[str]:
    return [label, f"{ours / 1e6:.1f} M tokens/s", f"{theirs / 1e6:.1f} M tokens/s", f"{ours / theirs:.1f}×"]


def _stream(ids: np.ndarray, eos: int) -> np.ndarray:
    return np.concatenate([[eos], ids]).astype(np.uint32)


def sample(folder: Path, repeats: int) -> Section:
    """Tokens a second, one text at a time and 64 together, with whole distributions and log-probabilities."""
    text = folder / "train.txt"
    run = chainrule.train(
        text, path=folder / "sampled", unit="line", tokenizer="words", vocabulary_size=20_000, min_count=1
    )
    found = {}
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
        found[label] = median(rates)
    return Section(
        "Sampling from a 5-gram over 20,000 words",
        "",
        ["", "chainrule"],
        [[label, f"{rate:,.0f} tokens/s"] for label, rate in found.items()],
        {"tokens_per_second": found},
    )


def start_up(repeats: int) -> Section:
    commands = {
        "`chainrule --version`": [sys.executable, "-m", "chainrule", "--version"],
        "`chainrule --help`": [sys.executable, "-m", "chainrule", "--help"],
        "`python -c 'import numpy'`": [sys.executable, "-c", "import numpy"],
    }
    seconds = {name: timing.median for name, timing in interleave_processes(commands, repeats).items()}
    rows = [[name, f"{each:.2f} s"] for name, each in seconds.items()]
    return Section("Start-up", "", ["command", "wall-clock"], rows, {"seconds": seconds})


def sections(is_quick: bool) -> Iterator[tuple[str, Section]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield "estimation", estimate(folder, [10] if is_quick else [10, 100])
        yield "scoring", score(folder, repeats=7)
        yield "sampling", sample(folder, repeats=5)
    yield "start-up", start_up(5)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counting", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10 MB alone; shown, but kept nowhere")
    arguments = parser.parse_args(words)
    for name, section in sections(arguments.quick):
        publish(BENCHMARKS, name, section, arguments.quick)


if __name__ == "__main__":
    main()
