"""Tokens a second of one greedy text, against transformers, CTranslate2 and llama.cpp with the same weights.

And against the limit: a token reads every weight once, so none can be faster than memory.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.corpora import DATA
from benchmarks.report import BENCHMARKS, Section, publish

PROMPT = "The history of the town begins with the river, and the river"
TOKENS, REPEATS = 64, 3
READ = 128 << 20  # numbers, far more than any cache holds
RUN, FOLDER, F32, Q8, CT2, CT2_INT8 = "run", "huggingface", "f32.gguf", "q8_0.gguf", "ct2", "ct2-int8"

Generate = Callable[[], list[int]]  # the tokens after the prompt


def chainrule(folder: Path, quantize: str | None = None) -> Generate:
    from chainrule.cli.options import let_threads_sleep

    let_threads_sleep()  # as `chainrule sample` does
    import chainrule
    from chainrule.generation import Sampling, sample
    from chainrule.runs.quantized import quantize as round_to

    run = chainrule.load(folder / RUN)
    if quantize:
        round_to(run, quantize)
    sampling = Sampling(temperature=0, max_tokens=TOKENS)
    return lambda: list(sample(run.model, run.tokenizer, PROMPT, sampling)[0].ids)


def transformers(folder: Path) -> Generate:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder / FOLDER, dtype=torch.float32).eval()
    prompt = AutoTokenizer.from_pretrained(folder / FOLDER)(PROMPT, return_tensors="pt")

    @torch.no_grad()
    def generate() -> list[int]:
        found = model.generate(**prompt, max_new_tokens=TOKENS, do_sample=False, pad_token_id=0)
        ids: list[int] = found[0, prompt["input_ids"].shape[1] :].tolist()
        return ids

    return generate


def ctranslate2(folder: Path, name: str) -> Generate:
    import ctranslate2
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / FOLDER)
    generator = ctranslate2.Generator(str(folder / name), device="cpu", intra_threads=os.cpu_count())
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(PROMPT)["input_ids"])

    def generate() -> list[int]:
        found = generator.generate_batch(
            [tokens], max_length=TOKENS, sampling_topk=1, include_prompt_in_result=False, return_scores=False
        )
        return list(found[0].sequences_ids[0])

    return generate


def llama_cpp(folder: Path, name: str) -> Generate:
    import llama_cpp

    model = llama_cpp.Llama(
        str(folder / name), n_ctx=256, verbose=False, n_threads=os.cpu_count(), n_threads_batch=os.cpu_count(),
        type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32,
    )  # fmt: skip
    prompt = model.tokenize(PROMPT.encode(), add_bos=False)

    def generate() -> list[int]:
        model.reset()
        found: list[int] = []
        for token in model.generate(prompt, temp=0.0, repeat_penalty=1.0, top_k=1):
            found.append(token)
            if len(found) == TOKENS or token == model.token_eos():
                break
        return found

    return generate


ALL: dict[str, tuple[str, Callable[[Path], Generate]]] = {  # {name: (bits of a weight, how)}
    "chainrule": ("32", chainrule),
    "transformers generate": ("32", transformers),
    "CTranslate2": ("32", lambda folder: ctranslate2(folder, CT2)),
    "llama.cpp, f32": ("32", lambda folder: llama_cpp(folder, F32)),
    "chainrule --quantize int8": ("8", lambda folder: chainrule(folder, "int8")),
    "CTranslate2, int8": ("8", lambda folder: ctranslate2(folder, CT2_INT8)),
    "llama.cpp, q8_0": ("8", lambda folder: llama_cpp(folder, Q8)),
}
PACKAGES = {"CTranslate2": "ctranslate2", "llama.cpp": "llama_cpp"}  # to install by hand: one wants a compiler
MISSING = [name for name, package in PACKAGES.items() if find_spec(package) is None]
WAYS = {way: each for way, each in ALL.items() if way.split(",")[0] not in MISSING}


def memory_speed() -> float:
    """Bytes a second: the fastest of several sums over much memory, by all cores."""
    import torch

    numbers = torch.ones(READ)
    seconds = []
    for _ in range(6):
        began = time.perf_counter()
        numbers.sum()
        seconds.append(time.perf_counter() - began)
    return numbers.nbytes / min(seconds)


def time_one(way: str, folder: Path) -> dict[str, Any]:
    """The fastest of three texts, after one to warm up, and the memory's speed just before and after."""
    generate = WAYS[way][1](folder)
    generate()
    seconds, ids, memory = [], [], [memory_speed()]
    for _ in range(3):
        began = time.perf_counter()
        ids = generate()
        seconds.append(time.perf_counter() - began)
    return {"tokens_per_second": len(ids) / min(seconds), "ids": ids, "memory": max(*memory, memory_speed())}


def make_models(folder: Path) -> dict[str, str]:
    """{folder: what is in it}: a run, and what the others read of it."""
    import torch

    from chainrule.errors import UserError
    from chainrule.interop.read import read_model
    from chainrule.models.transformer import SIZES, Model
    from chainrule.text.bpe import load_gpt2

    made = {}
    if (DATA / "gpt2-bpe").is_dir():
        torch.manual_seed(0)
        tokenizer = load_gpt2(DATA / "gpt2-bpe")
        tokenizer.start = None  # nothing is put before a text, on any side
        _write(Model(SIZES["gpt2"], tokenizer.vocabulary_size, tokenizer.eos).eval(), tokenizer, folder / "gpt2")
        made["gpt2"] = "GPT-2's shape, random weights"
    try:
        found = read_model(Path("smollm2"))
        found.tokenizer.start = None
        _write(found.model, found.tokenizer, folder / "smollm2")
        made["smollm2"] = "SmolLM2"
    except UserError as error:
        print(f"without SmolLM2: {error}", file=sys.stderr)
    return made


def _write(model: Any, tokenizer: Any, folder: Path) -> None:
    from chainrule.interop.gguf.write import write_gguf
    from chainrule.interop.huggingface.write import write_huggingface
    from chainrule.runs.write import store

    (folder / FOLDER).mkdir(parents=True)
    store(folder / RUN, "transformer", model, tokenizer, {"inputs": [], "unit": "line"}, overwrite=False)
    write_huggingface(model, tokenizer, folder / FOLDER)
    for name, dtype in ((F32, "f32"), (Q8, "q8_0")):
        write_gguf(model, tokenizer, folder / name, dtype, "bench")
    for name, dtype in ((CT2, "float32"), (CT2_INT8, "int8")) if "CTranslate2" not in MISSING else ():
        from ctranslate2.converters import TransformersConverter

        TransformersConverter(str(folder / FOLDER)).convert(str(folder / name), quantization=dtype)
        settings = json.loads((folder / name / "config.json").read_text())
        settings["bos_token"] = settings["unk_token"] = settings["eos_token"]  # it wants a name for each
        (folder / name / "config.json").write_text(json.dumps(settings))


def weight_bytes(folder: Path) -> int:
    """In float32, of what every token reads: all but the tables that a token has one row of."""
    import chainrule as package

    model: Any = package.load(folder / RUN).model
    places = model.positions.weight.numel() if model.config.positions == "learned" else 0
    return 4 * (model.num_parameters - places - (0 if model.config.tied else model.embedding.weight.numel()))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generation", description=__doc__)
    parser.add_argument("--trial", action="store_true", help="one round, only shown, kept nowhere")
    parser.add_argument("--models", type=Path, help="a folder to keep the models in, or that has them already")
    parser.add_argument("--one", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.one:
        print(json.dumps(time_one(asked.one[0], Path(asked.one[1]))))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.models or Path(temporary)
        kept = {"gpt2": "GPT-2's shape, random weights", "smollm2": "SmolLM2"}
        made = {name: text for name, text in kept.items() if (folder / name).is_dir()} or make_models(folder)
        found = {name: measure(folder / name, 1 if asked.trial else REPEATS) for name in made}
        sizes = {name: weight_bytes(folder / name) for name in made}
    publish(BENCHMARKS, "generation", _section(made, found, sizes), asked.trial)


def measure(folder: Path, repeats: int) -> dict[str, list[dict[str, Any]]]:
    """Every way in turn, each time in a process of its own."""
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    for _ in range(repeats):
        for way in WAYS:
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.generation", "--one", way, str(folder)]
            result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
            found[way].append(json.loads(result.stdout.splitlines()[-1]))
            print(f"{folder.name}, {way}: {found[way][-1]['tokens_per_second']:.1f} tokens/s", file=sys.stderr)
    return found


def _section(made: dict[str, str], found: dict[str, Any], sizes: dict[str, int]) -> Section:
    rows: list[list[str]] = []
    figures: dict[str, Any] = {}
    for name, text in made.items():
        speed = statistics.median(each["memory"] for results in found[name].values() for each in results)
        rows.append([f"**{text}**", "", "", "", "", ""])
        peers = {bits: found[name].get(f"llama.cpp, {kind}") for bits, kind in (("32", "f32"), ("8", "q8_0"))}
        theirs = _speed(found[name]["transformers generate"])
        same = found[name]["chainrule"][0]["ids"]
        for way, (bits, _) in WAYS.items():
            tokens = _speed(found[name][way])
            limit = speed / (sizes[name] * int(bits) / 32)
            figures[f"{name}, {way}"] = {"tokens_per_second": tokens, "of_limit": tokens / limit}
            is_same = found[name][way][0]["ids"] == same
            beside = f"{tokens / _speed(peers[bits]):.2f}×" if peers[bits] else "–"
            rows.append([
                way, f"{tokens:.1f}", f"{tokens / theirs:.2f}×", beside,
                f"{100 * tokens / limit:.0f} %", "yes" if is_same else "no",
            ])  # fmt: skip
        figures[f"{name}, memory"] = {"bytes_per_second": speed, "weight_bytes": sizes[name]}
        rows.append([
            f"the limit of float32: {sizes[name] / 1e6:,.0f} MB at {speed / 1e9:.1f} GB/s",
            f"{speed / sizes[name]:.1f}", "", "", "100 %", "",
        ])  # fmt: skip
    text = (
        f"One greedy text of {TOKENS} tokens after a short prompt, {os.cpu_count()} threads, each way in a process of "
        "its own, medians of interleaved rounds. The limit is memory's speed, measured in the same run, by the bytes "
        "of weights that a token reads. The bars: twice transformers, llama.cpp at the same bits (0.9 of it at 8), "
        "75 % of the limit in float32."
    )
    text += f" Not installed here: {', '.join(MISSING)}." if MISSING else ""
    header = ["", "tokens/s", "to transformers", "to llama.cpp", "of the limit", "the same text"]
    return Section("Generation", text, header, rows, figures)


def _speed(results: list[dict[str, Any]]) -> float:
    return statistics.median(each["tokens_per_second"] for each in results)


if __name__ == "__main__":
    main()
