"""Fine-tuning SmolLM2: speed and memory beside transformers and peft, and what it makes of texts.

Speed: steps of 4 × 256 tokens of one text, forward, backward, clipping and an update by AdamW, each way in a process of
its own, in rounds. LoRA has rank 16 on all matrices. With a kept trunk the top ten blocks learn, and the text has been
read once before.

Texts (`make finetunings`): bits per byte of held-out documents, of the model as it is, after `--from` for so many
minutes, and of the best that is trained from nothing in the same time.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.corpora import DATA, SHAKESPEARE
from benchmarks.measure import run_process
from benchmarks.report import BENCHMARKS, FINETUNING, Section, publish

ROWS, LENGTH, RANK, TOP = 4, 256, 16, 10
WAYS = {
    "transformers, all weights": ("transformers", "full"),
    "Chainrule, all weights": ("chainrule", "full"),
    "transformers + peft, LoRA": ("transformers", "lora"),
    "Chainrule, LoRA": ("chainrule", "lora"),
    "Chainrule, top ten blocks, kept trunk": ("chainrule", "top"),
}
PEERS = {"full": "transformers, all weights", "lora": "transformers + peft, LoRA", "top": "transformers, all weights"}
MINUTES = 10
VERSE_BYTES = 40_000


def ours(way: str, precision: str, model: Any, folder: Path) -> Callable[[int], None]:
    """One step of the training loop; step 0 twice, so that a kept trunk has been read."""
    import numpy as np

    from chainrule.data.batches import Ring, StreamBatches
    from chainrule.training.adapt import choose_weights, trunk_blocks
    from chainrule.training.callbacks import Callback
    from chainrule.training.context import Budget, TrainingContext
    from chainrule.training.recipe import Recipe
    from chainrule.training.trainer import Trainer
    from chainrule.training.trunk import Trunk

    recipe = Recipe(
        optimizer="adamw",
        learning_rate=1e-4,
        batch_size=ROWS,
        window=LENGTH,
        precision=precision,
        lora=way == "lora",
        lora_rank=RANK,
        top_layers=TOP if way == "top" else None,
    )
    choose_weights(model, recipe).train()
    stream = np.random.default_rng(0).integers(0, model.vocabulary_size, ROWS * LENGTH + 1)  # one batch is an epoch
    batches = StreamBatches([Ring([stream])], [1.0], ROWS, LENGTH, is_fixed=True)
    trunk = Trunk(model, trunk_blocks(model, recipe), folder / "trunk.bin") if way == "top" else None
    context = TrainingContext(batches, Budget(steps=1 << 30), objective=trunk.advance if trunk else None)
    trainer = Trainer(model, recipe, context, Callback(), None)
    return lambda step: trainer.step()


def theirs(way: str, precision: str, folder: Path) -> Callable[[int], None]:
    """As people write it."""
    import torch
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    if way == "lora":
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear"))
    parameters = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(parameters, 1e-4)
    torch.manual_seed(0)
    ids = torch.randint(model.config.vocab_size, (ROWS, LENGTH))
    model.train()

    def step(number: int) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

    return step


def measure_way(engine: str, way: str, precision: str, exported: Path, run: Path, steps: int) -> None:
    """In a process of its own: prints seconds a step."""
    import torch

    from chainrule.kernels.waiting import considerate_waits
    from chainrule.runs.folder import Run
    from chainrule.training.memory import keep_freed_memory

    keep_freed_memory()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, considerate_waits():
        step = (
            ours(way, precision, Run(run).model, Path(folder))
            if engine == "chainrule"
            else theirs(way, precision, exported)
        )
        step(0)
        times = []
        for number in range(steps):
            began = time.perf_counter()
            step(number + 1)
            times.append(time.perf_counter() - began)
    print(json.dumps({"seconds": median(times)}))


def measure_speed(rounds: int, steps: int, is_trial: bool) -> None:
    from chainrule.kernels.machine import bfloat16_speedup

    precisions = ["float32", *(["bfloat16"] if bfloat16_speedup() > 1 else [])]
    with tempfile.TemporaryDirectory() as name:
        run, exported = Path(name) / "smollm2", Path(name) / "exported"
        chainrule = [sys.executable, "-m", "chainrule"]
        run_process([*chainrule, "import", "smollm2", "--as", str(run)])
        run_process([*chainrule, "export", str(run), "--to", "huggingface", "--output", str(exported)])
        found: dict[str, dict[str, dict[str, float]]] = {precision: {} for precision in precisions}
        seconds: dict[tuple[str, str], list[float]] = {}
        memory: dict[tuple[str, str], list[float]] = {}
        for _ in range(rounds):
            for precision in precisions:
                for label, (engine, way) in WAYS.items():
                    command = [sys.executable, "-m", "benchmarks.finetuning", "--way", engine, way, precision]
                    ended = run_process([*command, "--paths", str(exported), str(run), "--steps", str(steps)])
                    seconds.setdefault((precision, label), []).append(ended.json["seconds"])
                    memory.setdefault((precision, label), []).append(ended.megabytes)
        for (precision, label), times in seconds.items():
            peak = max(memory[precision, label])
            found[precision][label] = {"tokens": ROWS * LENGTH / median(times), "megabytes": peak}
    publish(BENCHMARKS, "finetuning", speed_section(found), is_trial)


def speed_section(found: dict[str, dict[str, dict[str, float]]]) -> Section:
    rows = []
    for precision, labels in found.items():
        for label, figures in labels.items():
            peer = labels[PEERS[WAYS[label][1]]]["tokens"]
            ratio = f"{figures['tokens'] / peer:.2f}×"
            rows.append([precision, label, f"{figures['tokens']:,.0f}", ratio, f"{figures['megabytes']:,.0f} MB"])
    text = (
        "SmolLM2, 135 million weights, steps of 4 × 256 tokens; ratios to transformers' (of LoRA, to peft's). Peak\n"
        "memory of the whole process. The bars: 1.5×, with the kept trunk 3×, below 4 GB."
    )
    return Section("Fine-tuning", text, ["precision", "", "tokens/s", "ratio", "memory"], rows, found)


def texts(folder: Path) -> dict[str, Path]:
    found = {path.stem: path for path in sorted((DATA / "texts").glob("*.txt")) if path.stem in TEXTS}
    if SHAKESPEARE.exists():
        verse = folder / "verse.txt"
        verse.write_bytes(SHAKESPEARE.read_bytes()[:VERSE_BYTES])
        found["40 kB of verse"] = verse
    return found


TEXTS = ("inaugural", "genesis-french")


def train(text: Path, folder: Path, start: Path | None, minutes: float) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "chainrule",
        "train",
        str(text),
        "--as",
        str(folder / "run"),
        "--overwrite",
        "--json",
    ]
    command += ["--minutes", str(minutes), *(["--from", str(start)] if start else [])]
    began = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout)
    bits = {part["name"]: part["bits_per_byte"] for part in figures["validation"].get("parts", [])}
    before = figures.get("before") or {}
    return {
        "bits": figures["validation"]["bits_per_byte"],
        "before": before.get("bits_per_byte"),
        "neutral": figures.get("neutral"),
        "parts": bits,
        "seconds": time.perf_counter() - began,
    }


def measure_texts(names: list[str], minutes: float, is_trial: bool) -> None:
    kept = FINETUNING.figures("texts").get("texts", {})
    with tempfile.TemporaryDirectory() as name:
        folder, run = Path(name), Path(name) / "smollm2"
        run_process([sys.executable, "-m", "chainrule", "import", "smollm2", "--as", str(run)])
        for text, path in texts(folder).items():
            if names and text not in names:
                continue
            kept[text] = {
                "bytes": path.stat().st_size,
                "from": train(path, folder, run, minutes),
                "nothing": train(path, folder, None, minutes),
            }
            publish(FINETUNING, "texts", texts_section(kept), is_trial)


def texts_section(figures: dict[str, dict[str, Any]]) -> Section:
    header = [
        "text",
        "kB",
        "SmolLM2 as it is",
        f"from SmolLM2, {MINUTES} min",
        f"from nothing, {MINUTES} min",
        "below both",
    ]
    rows = []
    for name, row in figures.items():
        tuned, nothing, before = row["from"], row["nothing"], row["from"]["before"]
        of_both = tuned["bits"] / min(before, nothing["bits"])
        cells = [f"{each['bits']:.3f} ({each['seconds']:.0f} s)" for each in (tuned, nothing)]
        rows.append([name, f"{row['bytes'] / 1000:,.0f}", f"{before:.3f}", *cells, f"{1 - of_both:.1%}"])
    text = "Bits per byte of held-out documents. SmolLM2 alone is measured by its own tokens."
    return Section("Texts", text, header, rows, {"texts": figures})


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.finetuning", description=__doc__)
    parser.add_argument("--way", nargs=3, metavar=("ENGINE", "WAY", "PRECISION"), help="one process of the speeds")
    parser.add_argument("--paths", nargs=2, type=Path, metavar=("EXPORTED", "RUN"))
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--texts", nargs="*", metavar="TEXT", help="measure texts, all or these, instead of speed")
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--trial", action="store_true", help="shown, but kept nowhere")
    arguments = parser.parse_args(words)
    if arguments.way:
        measure_way(*arguments.way, *arguments.paths, arguments.steps)
    elif arguments.texts is not None:
        measure_texts(arguments.texts, arguments.minutes, arguments.trial)
    else:
        measure_speed(1 if arguments.trial else arguments.rounds, arguments.steps, arguments.trial)


if __name__ == "__main__":
    main()
