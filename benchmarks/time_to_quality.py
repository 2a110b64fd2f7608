"""Time to quality: is `chainrule train` as good as nanoGPT's CPU settings in a sixth of their wall-clock?

Each side is a process of its own and is timed from its start: imports, compilation and evaluation count. The peer
(gpt2_training.py) gets the better of its two evaluations as its loss and the time of the shorter one. Ours gets
`--minutes` that end within a sixth of what the peer has just taken.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.corpora import SHAKESPEARE
from benchmarks.measure import run_process
from benchmarks.report import BENCHMARKS, Section, publish

STEPS = 2000
SHARE = 1 / 6  # of the peer's wall-clock
MARGIN = 0.95  # a budget is honoured within 5 %
RUN = Path("runs") / "time-to-quality"
PEER = Path(__file__).with_name("gpt2_training.py")


def minutes_for(peer_seconds: float) -> float:
    """A budget whose 5 % of tolerance still end within a sixth of the peer's time: 118 s -> 0.3114."""
    return round(peer_seconds * SHARE * MARGIN / 60, 4)


def measure_peer(steps: int, seed: int) -> dict[str, float]:
    command = [sys.executable, str(PEER), str(SHAKESPEARE), "--steps", str(steps), "--seed", str(seed)]
    ended = run_process(command)
    found = ended.json
    evaluations = (found["separate"], found["overlapping"])
    return {
        "seconds": found["trained_at"] - ended.started_at + min(each["seconds"] for each in evaluations),
        "start_up_seconds": found["began_at"] - ended.started_at,
        "training_seconds": found["trained_at"] - found["began_at"],
        "loss_separate": found["separate"]["loss"],
        "loss_overlapping": found["overlapping"]["loss"],
        "loss": min(each["loss"] for each in evaluations),
        "parameters": found["parameters"],
        "megabytes": ended.megabytes,
    }


def our_command(seed: int, *budget: str) -> list[str]:
    command = [sys.executable, "-m", "chainrule", "train", str(SHAKESPEARE), "--tokenizer", "characters"]
    command += ["--unit", "file", "--split", "tail", "--seed", str(seed), *budget]
    return [*command, "--as", str(RUN), "--overwrite", "--json"]


def measure_ours(minutes: float, seed: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache:  # what torch.compile makes is made, and paid for, in this run
        ended = run_process(our_command(seed, "--minutes", str(minutes)), {"TORCHINDUCTOR_CACHE_DIR": cache})
    found = ended.json
    return {
        "seconds": ended.seconds,
        "asked_seconds": minutes * 60,
        "training_seconds": found["training_seconds"],
        "evaluation_seconds": found["evaluation_seconds"],
        "loss": found["validation"]["loss"],
        "tokens": found["validation"]["tokens"],
        "parameters": found["parameters"],
        "megabytes": ended.megabytes,
    }


def compare(steps: int, repeats: int) -> list[dict[str, dict[str, float]]]:
    """Rounds of peer, then ours."""
    run_process(our_command(0, "--steps", "2", "--size", "tiny"))  # Numba compiles the kernels, once per installation
    rounds = []
    for seed in range(repeats):
        peer = measure_peer(steps, seed)
        print(f"peer: {peer['seconds']:.1f} s, {peer['loss']:.4f} nats/char", flush=True)
        ours = measure_ours(minutes_for(peer["seconds"]), seed)
        print(f"ours: {ours['seconds']:.1f} s, {ours['loss']:.4f} nats/char", flush=True)
        rounds.append({"peer": peer, "ours": ours})
    return rounds


def medians(rounds: list[dict[str, dict[str, float]]], side: str) -> dict[str, float]:
    return {name: median(each[side][name] for each in rounds) for name in rounds[0][side]}


def section(rounds: list[dict[str, dict[str, float]]], steps: int) -> Section:
    peer, ours = medians(rounds, "peer"), medians(rounds, "ours")
    ratio, gain = peer["seconds"] / ours["seconds"], peer["loss"] - ours["loss"]
    figures: dict[str, Any] = {"peer": peer, "ours": ours, "ratio": ratio, "rounds": rounds}
    figures["is_reached"] = ratio >= 1 / SHARE and gain >= 0
    losses = f"{peer['loss_separate']:.4f} in separate windows, {peer['loss_overlapping']:.4f} in overlapping ones"
    times = "{seconds:.1f} s: start-up {start_up_seconds:.1f}, training {training_seconds:.1f}".format(**peer)
    our_times = "{seconds:.1f} s of {asked_seconds:.1f} asked: training {training_seconds:.1f}, evaluation {evaluation_seconds:.1f}"  # noqa: E501
    rows = [
        [f"transformers' GPT-2, {steps:,} steps", times, losses, f"{peer['parameters']:,.0f}"],
        ["`chainrule train --minutes`", our_times.format(**ours), f"{ours['loss']:.4f}", f"{ours['parameters']:,.0f}"],
        [
            "ratio, difference",
            f"**{ratio:.2f}×** sooner",
            f"**{abs(gain):.4f} {'lower' if gain >= 0 else 'higher'}**",
            "",
        ],
    ]
    text = (
        "tinyshakespeare by characters, loss in nats per character on the whole last tenth. The peer is trained with\n"
        "nanoGPT's published CPU settings. Both are whole processes, start to end, with one evaluation. The bar: the\n"
        "better of the peer's losses in a sixth of its wall-clock. Medians of "
        f"{len(rounds)} round{'s' * (len(rounds) > 1)}."
    )
    return Section("Time to quality", text, ["", "wall-clock", "nats/char", "parameters"], rows, figures)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.time_to_quality", description=__doc__)
    parser.add_argument("--repeats", type=int, default=1, help="rounds of both, with other seeds")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of the peer; other than {STEPS} is a trial")
    parser.add_argument("--trial", action="store_true", help="show, keep nothing")
    arguments = parser.parse_args(words)
    found = section(compare(arguments.steps, arguments.repeats), arguments.steps)
    publish(BENCHMARKS, "time-to-quality", found, arguments.trial or arguments.steps != STEPS)
    print("reached" if found.figures["is_reached"] else "not reached")


if __name__ == "__main__":
    main()
