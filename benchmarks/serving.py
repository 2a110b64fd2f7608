"""Tokens a second of 1, 8 and 64 streams, against `transformers serve` with the same weights in the same run."""

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import chainrule
from benchmarks.report import BENCHMARKS, Section, publish
from chainrule.runs.write import store

STREAMS = (1, 8, 64)
TOKENS, REPEATS = 64, 2
WAIT = 300  # seconds for a server to answer at all
PROMPTS = ("The", "The value of", "In this case the", "If the object is not", "A class definition defines a class, and")


def make_models(folder: Path) -> tuple[Path, Path, Path]:
    """An n-gram of Python's documentation, and a GPT-2 of random weights as a run of ours and as a folder of theirs."""
    import torch

    from chainrule.interop.huggingface.write import write_huggingface
    from chainrule.models.transformer import GPT2, Model

    counted = chainrule.train(path=folder / "ngram", tokenizer="bpe", vocabulary_size=4000)
    tokenizer = counted.tokenizer
    tokenizer.start = None  # nothing is put before a text, on either side
    torch.manual_seed(0)
    config = GPT2(width=256, num_layers=6, num_heads=4, context_length=256)
    model = Model(config, tokenizer.vocabulary_size, tokenizer.eos).eval()
    store(folder / "gpt2", "transformer", model, tokenizer, {"inputs": [], "unit": "line"}, overwrite=False)
    (folder / "theirs").mkdir()
    write_huggingface(model, tokenizer, folder / "theirs")
    return folder / "ngram", folder / "gpt2", folder / "theirs"


@contextmanager
def server(command: list[str], port: int) -> Iterator[str]:
    """A server of its own process, from its first answer to the end; it may use nothing but this machine."""
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    # Threads that spin while they wait would be starved by whatever else runs, the load itself for one.
    environment = {**os.environ, **offline, "OMP_WAIT_POLICY": "PASSIVE"}
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            _wait_for(process, port, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_for(process: Any, port: int, log: Any) -> None:
    import httpx

    began = time.perf_counter()
    while time.perf_counter() - began < WAIT:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        if process.poll() is not None:
            break
        time.sleep(0.3)
    log.seek(0)
    sys.exit(f"{' '.join(process.args)} did not answer:\n{log.read()[-2000:]}")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


async def load(address: str, model: str, streams: int) -> dict[str, Any]:
    """Every stream asks for one text; tokens of all by the time from the first request to the last answer."""
    import httpx

    limits = httpx.Limits(max_connections=streams)
    async with httpx.AsyncClient(base_url=address, timeout=600, limits=limits) as client:
        began = time.perf_counter()
        found = await asyncio.gather(*(_stream(client, model, number) for number in range(streams)))
        seconds = time.perf_counter() - began
    first = [at - began for _, at, _ in found]
    return {
        "tokens_per_second": sum(tokens for tokens, _, _ in found) / seconds,
        "first_token_seconds": statistics.median(first),
        "texts": [text for _, _, text in found],
    }


async def _stream(client: Any, model: str, number: int) -> tuple[int, float, str]:
    body = {
        "model": model, "prompt": PROMPTS[number % len(PROMPTS)], "max_tokens": TOKENS, "temperature": 0,
        "stream": True, "stream_options": {"include_usage": True}, "seed": number,
    }  # fmt: skip
    first, tokens, text = 0.0, 0, ""
    async with client.stream("POST", "/v1/completions", json=body) as answer:
        if answer.status_code != 200:
            sys.exit(f"{client.base_url} answered {answer.status_code}: {(await answer.aread()).decode()[:500]}")
        async for line in answer.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            event = json.loads(line[6:])
            first = first or time.perf_counter()
            text += "".join(choice["text"] for choice in event["choices"])
            tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
    return tokens, first, text


def measure(servers: dict[str, tuple[str, str]], repeats: int) -> dict[str, dict[int, list[dict[str, Any]]]]:
    """Each server in turn at each number of streams, after one to warm up; the load is a process of its own."""
    found: dict[str, dict[int, list[dict[str, Any]]]] = {name: {count: [] for count in STREAMS} for name in servers}
    for round in range(repeats + 1):
        for count, (name, (address, model)) in product(STREAMS, servers.items()):
            command = [sys.executable, "-m", "benchmarks.serving", "--load", address, model, str(count)]
            result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            if round:
                found[name][count].append(result)
                print(f"{name}, {count} streams: {result['tokens_per_second']:.0f} tokens/s", file=sys.stderr)
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__)
    parser.add_argument("--trial", action="store_true", help="one round, only shown, kept nowhere")
    parser.add_argument("--load", nargs=3, metavar=("ADDRESS", "MODEL", "STREAMS"), help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.load:
        address, model, streams = asked.load
        print(json.dumps(asyncio.run(load(address, model, int(streams)))))
        return
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        ngram, gpt2, theirs = make_models(Path(folder))
        ports = [free_port() for _ in range(3)]
        here = [sys.executable, "-m", "chainrule", "serve", str(ngram), str(gpt2), "--port", str(ports[0])]
        peer = [str(Path(sys.executable).with_name("transformers")), "serve", str(theirs), "--device", "cpu"]
        ours = stack.enter_context(server(here, ports[0]))
        plain = stack.enter_context(server([*peer, "--port", str(ports[1])], ports[1]))
        batching = [*peer, "--continuous-batching", "--port", str(ports[2])]
        together = stack.enter_context(server(batching, ports[2]))
        servers = {
            "chainrule, GPT-2": (ours, "gpt2"),
            "transformers serve, GPT-2": (plain, str(theirs)),
            "the same, continuous batching": (together, str(theirs)),
            "chainrule, 5-gram": (ours, "ngram"),
        }
        found = measure(servers, 1 if asked.trial else REPEATS)
    publish(BENCHMARKS, "serving", _section(found), asked.trial)


def _section(found: dict[str, dict[int, list[dict[str, Any]]]]) -> Section:
    rows, figures = [], {}
    peer = found["transformers serve, GPT-2"]
    for name, counts in found.items():
        for count, results in counts.items():
            speed = statistics.median(each["tokens_per_second"] for each in results)
            first = statistics.median(each["first_token_seconds"] for each in results)
            theirs = statistics.median(each["tokens_per_second"] for each in peer[count])
            figures[f"{name}, {count}"] = {"tokens_per_second": speed, "first_token_seconds": first}
            rows.append([name, str(count), f"{speed:,.0f}", f"{1000 * first:,.0f} ms", f"{speed / theirs:.2f}"])
    is_same = peer[1][0]["texts"] == found["chainrule, GPT-2"][1][0]["texts"]
    text = (
        f"Greedy streams of {TOKENS} tokens over HTTP from a process of its own. The GPT-2 (6 layers of width 256, "
        "vocabulary 4,000, random weights) is the same on both sides; a stream's text is "
        f"{'the same too' if is_same else 'NOT the same'}. Threads of both wait"
        " asleep. Medians of interleaved rounds."
    )
    header = ["server", "streams", "tokens/s", "first token", "against transformers"]
    return Section("Serving", text, header, rows, figures)


if __name__ == "__main__":
    main()
