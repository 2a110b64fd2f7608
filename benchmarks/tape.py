"""A step of training on the tape, beside torch and HIPS autograd on the same weights: forward, backward, update.

Three networks in 32 bits: an MLP 784–512–512–10 at batch 64, an Elman language model, and a Transformer 4 × 128.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.measure import run_process
from benchmarks.report import BENCHMARKS, Section, publish
from chainrule.models import elman, transformer
from chainrule.models.contract import Batch
from chainrule.tape.losses import SoftmaxCrossEntropy
from chainrule.tape.models import MODELS
from chainrule.tape.modules import Linear, ReLU
from chainrule.tape.optimizers import SGD
from chainrule.tape.tape import Parameter, Tape

RATE = 0.01
VOCABULARY = 65
ELMAN = elman.Config(width=128, num_layers=1)
ELMAN_BATCH, ELMAN_TIME = 32, 32
GPT = transformer.GPT2(width=128, num_layers=4, num_heads=4, context_length=64)
GPT_BATCH = 12
SHAPES = {
    "mlp": "MLP 784–512–512–10, batch 64",
    "elman": f"Elman language model of width {ELMAN.width}, batch {ELMAN_BATCH} × {ELMAN_TIME}",
    "transformer": f"Transformer 4 × 128, context 64, batch {GPT_BATCH}",
}
ENGINES = ("torch, eager", "the tape", "HIPS autograd")

Step = Callable[[], float]  # gives the loss


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(0, 0.05, shape).astype(np.float32)


MLP = {
    "W1": draw(512, 784),
    "b1": draw(512),
    "W2": draw(512, 512),
    "b2": draw(512),
    "W3": draw(10, 512),
    "b3": draw(10),
}


def data(network: str) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    if network == "mlp":
        return generator.normal(size=(64, 784)).astype(np.float32), generator.integers(0, 10, 64)
    batch, time = (ELMAN_BATCH, ELMAN_TIME) if network == "elman" else (GPT_BATCH, GPT.context_length)
    words = generator.integers(0, VOCABULARY, (batch, time + 1))
    return words[:, :-1].copy(), words[:, 1:].copy()


def torch_model(network: str) -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = (
        elman.Model(ELMAN, VOCABULARY, 0) if network == "elman" else transformer.Model(GPT, VOCABULARY, 0)
    )
    return model


def by_torch(network: str) -> Step:
    inputs, targets = (torch.from_numpy(each) for each in data(network))
    if network == "mlp":
        parameters = {name: nn.Parameter(torch.from_numpy(each.copy())) for name, each in MLP.items()}

        def loss() -> Any:
            hidden = F.relu(F.linear(inputs, parameters["W1"], parameters["b1"]))
            hidden = F.relu(F.linear(hidden, parameters["W2"], parameters["b2"]))
            return F.cross_entropy(F.linear(hidden, parameters["W3"], parameters["b3"]), targets)

        optimizer = torch.optim.SGD(parameters.values(), RATE)
    else:
        model = torch_model(network)
        optimizer = torch.optim.SGD(model.parameters(), RATE)

        def loss() -> Any:
            found = model.loss(Batch(inputs, targets))  # type: ignore[operator]
            return found.total / found.count

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        mean = loss()
        mean.backward()
        optimizer.step()
        return float(mean.detach())

    return step


def by_tape(network: str) -> Step:
    inputs, targets = data(network)
    if network == "mlp":
        p = {name: Parameter(each.copy()) for name, each in MLP.items()}

        def loss(tape: Tape) -> Any:
            hidden = ReLU()(Linear()(tape.value(inputs), p["W1"], p["b1"]))
            hidden = ReLU()(Linear()(hidden, p["W2"], p["b2"]))
            return SoftmaxCrossEntropy()(Linear()(hidden, p["W3"], p["b3"]), tape.value(targets))

        parameters = list(p.values())
    else:
        config = ELMAN if network == "elman" else GPT
        arrays = {name: each.detach().numpy() for name, each in torch_model(network).named_parameters()}
        twin = MODELS[network](config, arrays)
        parameters = list(twin.parameters.values())

        def loss(tape: Tape) -> Any:
            return twin.loss(tape, inputs, targets)[0]

    optimizer = SGD(parameters, RATE)

    def step() -> float:
        tape = Tape()
        mean = loss(tape)
        tape.backward(mean)
        optimizer.step()
        return float(mean.array)

    return step


def by_autograd(network: str) -> Step:
    """The same networks as its users write them."""
    import autograd.numpy as anp
    from autograd import value_and_grad

    inputs, targets = data(network)
    one_hot = np.eye(10 if network == "mlp" else VOCABULARY, dtype=np.float32)[targets]

    def cross_entropy(logits: Any) -> Any:
        top = anp.max(logits, -1, keepdims=True)
        chances = logits - top - anp.log(anp.sum(anp.exp(logits - top), -1, keepdims=True))
        return -anp.sum(chances * one_hot) / targets.size

    def norm(x: Any, gain: Any, bias: Any) -> Any:
        centred = x - anp.mean(x, -1, keepdims=True)
        return centred / anp.sqrt(anp.mean(centred**2, -1, keepdims=True) + np.float32(1e-5)) * gain + bias

    def gelu(x: Any) -> Any:
        return np.float32(0.5) * x * (1 + anp.tanh(np.float32(0.7978845608) * (x + np.float32(0.044715) * x**3)))

    def mlp(p: dict[str, Any]) -> Any:
        hidden = anp.maximum(anp.dot(inputs, p["W1"].T) + p["b1"], 0)
        hidden = anp.maximum(anp.dot(hidden, p["W2"].T) + p["b2"], 0)
        return cross_entropy(anp.dot(hidden, p["W3"].T) + p["b3"])

    def recurrent(p: dict[str, Any]) -> Any:
        x = p["embedding.weight"][inputs]
        cell = "recurrent.cells.0."
        h, states = np.zeros((ELMAN_BATCH, ELMAN.width), np.float32), []
        for t in range(ELMAN_TIME):
            h = anp.tanh(
                anp.dot(x[:, t], p[cell + "input_weight"].T)
                + anp.dot(h, p[cell + "recurrent_weight"].T)
                + p[cell + "bias"]
            )
            states.append(h)
        return cross_entropy(anp.dot(anp.stack(states, 1), p["embedding.weight"].T) + p["output_bias"])

    def gpt(p: dict[str, Any]) -> Any:
        batch, time = inputs.shape
        x = p["embedding.weight"][inputs] + p["positions.weight"][:time]
        mask = np.triu(np.full((time, time), -1e9, np.float32), 1)
        heads = GPT.num_heads

        def linear(a: Any, name: str) -> Any:
            return anp.dot(a, p[name + ".weight"].T) + p[name + ".bias"]

        for layer in range(GPT.num_layers):
            block = f"blocks.{layer}."
            joined = linear(
                norm(x, p[block + "attention_norm.weight"], p[block + "attention_norm.bias"]),
                block + "attention.query_key_value",
            )
            q, k, v = (
                anp.transpose(anp.reshape(each, (batch, time, heads, -1)), (0, 2, 1, 3))
                for each in anp.split(joined, 3, -1)
            )
            scores = anp.matmul(q, anp.transpose(k, (0, 1, 3, 2))) * np.float32(q.shape[-1] ** -0.5) + mask
            raised = anp.exp(scores - anp.max(scores, -1, keepdims=True))
            mixed = anp.matmul(raised / anp.sum(raised, -1, keepdims=True), v)
            x = x + linear(
                anp.reshape(anp.transpose(mixed, (0, 2, 1, 3)), (batch, time, -1)), block + "attention.output"
            )
            inner = norm(x, p[block + "feedforward_norm.weight"], p[block + "feedforward_norm.bias"])
            x = x + linear(gelu(linear(inner, block + "feedforward.input")), block + "feedforward.output")
        return cross_entropy(anp.dot(norm(x, p["norm.weight"], p["norm.bias"]), p["embedding.weight"].T))

    function = {"mlp": mlp, "elman": recurrent, "transformer": gpt}[network]
    parameters = (
        {name: each.copy() for name, each in MLP.items()}
        if network == "mlp"
        else {name: each.detach().numpy().copy() for name, each in torch_model(network).named_parameters()}
    )
    gradient = value_and_grad(function)

    def step() -> float:
        value, found = gradient(parameters)
        for name, each in found.items():
            parameters[name] -= np.float32(RATE) * each
        return float(value)

    return step


BUILDERS: dict[str, Callable[[str], Step]] = dict(zip(ENGINES, (by_torch, by_tape, by_autograd), strict=True))


def run_here(engine: str, network: str) -> dict[str, Any]:
    """In this process, which no other engine's threads disturb: milliseconds of a step, and the peak of ten steps above
    what there was before them."""
    step = BUILDERS[engine](network)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = resident("VmRSS")
    losses = [step() for _ in range(10)]
    megabytes = resident("VmHWM") - before
    seconds = []
    while sum(seconds) < 1.5 or len(seconds) < 10:
        began = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - began)
    return {"milliseconds": statistics.median(seconds) * 1000, "megabytes": megabytes, "losses": losses}


def resident(name: str) -> float:
    """Megabytes: VmRSS, what there is now; VmHWM, the most there was."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def section(rounds: int) -> Section:
    rows, figures = [], {}
    for network, title in SHAPES.items():
        found: dict[str, list[dict[str, Any]]] = {engine: [] for engine in ENGINES}
        for _ in range(rounds):
            for engine in ENGINES:
                found[engine].append(
                    run_process([sys.executable, "-m", "benchmarks.tape", "--one", engine, network]).json
                )
        rows.append([f"**{title}**", "", "", ""])
        figures[network] = {}
        for engine, runs in found.items():
            np.testing.assert_allclose(runs[0]["losses"], found[ENGINES[0]][0]["losses"], rtol=1e-4, err_msg=engine)
            taken = statistics.median(each["milliseconds"] for each in runs)
            beside = statistics.median(
                mine["milliseconds"] / theirs["milliseconds"]
                for mine, theirs in zip(runs, found[ENGINES[0]], strict=True)
            )
            memory = statistics.median(each["megabytes"] for each in runs)
            rows.append([engine, f"{taken:.1f}", f"{beside:.2f}×", f"{memory:.0f} MB"])
            figures[network][engine] = {"milliseconds": taken, "ratio": beside, "megabytes": memory}
    text = (
        "Forward, backward and an update by SGD, float32, on the same weights (their losses agree to 1e-4), each\n"
        "engine in a process of its own, in turns; ratios are medians over rounds. Memory is the peak of ten steps\n"
        "above what there was before them. The bars: the tape at most 1.3× torch's time for the MLP and 2× for the\n"
        f"Transformer, and a third of HIPS autograd's. torch's threads: {torch.get_num_threads()}."
    )
    return Section("A step on the tape", text, ["", "ms a step", "beside torch", "peak memory"], rows, figures)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tape", description=__doc__)
    parser.add_argument("--trial", action="store_true", help="one round; shown, but kept nowhere")
    parser.add_argument("--one", nargs=2, metavar=("ENGINE", "NETWORK"), help="that alone, in this process, as JSON")
    arguments = parser.parse_args(words)
    if arguments.one:
        print(json.dumps(run_here(*arguments.one)))
        return
    publish(BENCHMARKS, "tape", section(1 if arguments.trial else 5), arguments.trial)


if __name__ == "__main__":
    main()
