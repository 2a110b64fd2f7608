"""Training tokens a second at equal shape, and how much of this machine's matrix speed that is.

Ours goes through `Trainer.run`, windows, records and all; the peers are the loops that people write.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.measure import interleave_calls
from benchmarks.report import BENCHMARKS, Section, publish
from chainrule.analysis.plan.compute import training_compute
from chainrule.analysis.plan.parameters import count_parameters
from chainrule.data.batches import Ring, StreamBatches
from chainrule.kernels.machine import measure_this_machine, onednn_speedup
from chainrule.models import lstm, transformer
from chainrule.models._neural import NeuralModel
from chainrule.training.callbacks import CallbackList
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.precision import is_worth_trying
from chainrule.training.recipe import Recipe
from chainrule.training.trainer import Trainer

TEXT_TOKENS = 1_000_000
HEADER = ["", "tokens/s", "ratio", "MFLOP/token", "GFLOP/s", "of the machine's"]


@dataclass(frozen=True)
class Shape:
    title: str
    width: int
    num_layers: int
    num_heads: int
    context_length: int
    batch_size: int
    vocabulary_size: int
    steps: int  # in one repeat
    repeats: int

    @property
    def tokens(self) -> int:
        """In one repeat."""
        return self.steps * self.batch_size * self.context_length


TRANSFORMERS = {
    "nanogpt-cpu": Shape("4 × 128, 4 heads, context 64, batch 12", 128, 4, 4, 64, 12, 65, steps=40, repeats=9),
    "larger": Shape("6 × 384, 6 heads, context 256, batch 8", 384, 6, 6, 256, 8, 65, steps=4, repeats=5),
}
LSTM = Shape("2 × 200, 10,000 words, batch 20, window 35", 200, 2, 1, 35, 20, 10_000, steps=10, repeats=9)


@dataclass(frozen=True)
class Contender:
    run: Callable[[int], None]  # so many steps
    flops_per_token: float


class Ours:
    """Steps of our own training loop, gone on with at each call."""

    def __init__(self, model: NeuralModel, recipe: Recipe, tokens: np.ndarray):
        windows = StreamBatches([Ring([tokens])], [1.0], recipe.batch_size, recipe.window, recipe.chain)
        counts = np.bincount(tokens, minlength=model.vocabulary_size)
        context = TrainingContext(windows, Budget(steps=0), counts=counts)
        self._trainer = Trainer(model, replace(recipe, schedule="constant"), context, CallbackList(), None)

    def __call__(self, steps: int) -> None:
        trainer = self._trainer
        trainer.context.budget = Budget(steps=trainer.position.step + steps)
        trainer.run()


def draw_tokens(shape: Shape) -> np.ndarray:
    """A text: speed does not depend on what it says."""
    return np.random.default_rng(0).integers(0, shape.vocabulary_size, TEXT_TOKENS).astype(np.uint32)


def draw_window(ids: Tensor, shape: Shape) -> tuple[Tensor, Tensor]:
    starts = torch.randint(len(ids) - shape.context_length, (shape.batch_size,))
    window = ids[starts[:, None] + torch.arange(shape.context_length + 1)]
    return window[:, :-1], window[:, 1:]


def update(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """As people write it."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def transformers_gpt2(shape: Shape, tokens: np.ndarray) -> Callable[[int], None]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=shape.vocabulary_size, n_positions=shape.context_length, n_embd=shape.width,
        n_layer=shape.num_layers, n_head=shape.num_heads, embd_pdrop=0.0, resid_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    ids = torch.from_numpy(tokens.astype(np.int64))

    def run(steps: int) -> None:
        for _ in range(steps):
            inputs, targets = draw_window(ids, shape)
            logits = model(inputs, use_cache=False).logits
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
            update(model, optimizer, loss)

    return run


def our_transformer(shape: Shape, tokens: np.ndarray, config: transformer.Config, recipe: Recipe) -> Contender:
    multiplied = count_parameters(config, shape.vocabulary_size).multiplied
    compute = training_compute(multiplied, 1, config)
    torch.manual_seed(0)
    model = transformer.Model(config, shape.vocabulary_size, 0)
    recipe = replace(recipe, batch_size=shape.batch_size, window=shape.context_length, minutes=None)
    return Contender(Ours(model, recipe, tokens), compute.training_flops_with_attention)


def transformer_contenders(shape: Shape) -> dict[str, Contender]:
    tokens = draw_tokens(shape)
    names = ("width", "num_layers", "num_heads", "context_length")
    equal = {name: getattr(shape, name) for name in names}
    adamw = Recipe(optimizer="adamw", learning_rate=1e-3, beta2=0.99, weight_decay=0.1, clip=1.0)
    chosen, changes, _ = transformer.for_budget(600.0, TEXT_TOKENS, shape.vocabulary_size)
    derived = ("num_key_value_heads", "head_width", "hidden_width")  # as the width and the heads have it
    fast = replace(chosen, **equal, **dict.fromkeys(derived), dropout=0.0)
    ours = partial(our_transformer, shape, tokens)
    gpt2 = transformer.GPT2(**equal)
    relu = replace(gpt2, activation="relu-squared")
    minutes = replace(Recipe(), **changes)
    alone = ours(gpt2, adamw)
    many = torch.get_num_threads()
    contenders = {
        "transformers' GPT-2, AdamW": Contender(transformers_gpt2(shape, tokens), alone.flops_per_token),
        "ours, gpt2 profile, AdamW": alone,
        f"the same in {many} processes": ours(gpt2, replace(adamw, workers=many)),
        f"with ReLU², in {many} processes": ours(relu, replace(adamw, workers=many)),
        "ours, fast profile as `--minutes` trains it": ours(fast, minutes),
        f"that in {many} processes": ours(fast, replace(minutes, workers=many)),
    }
    if is_worth_trying():
        contenders["ours, gpt2 profile, AdamW, bfloat16"] = ours(gpt2, replace(adamw, precision="bfloat16"))
        contenders["ours, fast profile, bfloat16"] = ours(fast, replace(minutes, precision="bfloat16"))
    return contenders


class TorchLSTM(nn.Module):
    """As in PyTorch's word-level example: time first."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary_size, shape.width)
        self.lstm = nn.LSTM(shape.width, shape.width, shape.num_layers)
        self.output = nn.Linear(shape.width, shape.vocabulary_size)

    def forward(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        hidden, state = self.lstm(self.embedding(tokens), state)  # (time, batch, width)
        return self.output(hidden), state


def torch_lstm(shape: Shape, tokens: np.ndarray) -> Callable[[int], None]:
    """Full softmax, SGD, clipping, and the state carried over from window to window."""
    model = TorchLSTM(shape)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    length = len(tokens) // shape.batch_size
    columns = torch.from_numpy(tokens[: length * shape.batch_size].astype(np.int64)).view(shape.batch_size, -1).t()
    columns = columns.contiguous()  # (length, batch)
    at, state = 0, None

    def run(steps: int) -> None:
        nonlocal at, state
        for _ in range(steps):
            if at + shape.context_length + 1 > length:
                at, state = 0, None
            inputs = columns[at : at + shape.context_length]
            targets = columns[at + 1 : at + 1 + shape.context_length]
            at += shape.context_length
            state = state and tuple(each.detach() for each in state)
            logits, state = model(inputs, state)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
            update(model, optimizer, loss)

    return run


def lstm_contenders(shape: Shape) -> dict[str, Contender]:
    tokens = draw_tokens(shape)
    output = shape.width * shape.vocabulary_size
    multiplied = shape.num_layers * 8 * shape.width**2 + output  # four gates read the input and the state
    flops = training_compute(multiplied, 1).training_flops
    sgd = Recipe(
        optimizer="sgd", learning_rate=0.1, clip=1.0, batch_size=shape.batch_size, window=shape.context_length, chain=64
    )

    def ours(recipe: Recipe, **settings: Any) -> Contender:
        torch.manual_seed(0)
        config = lstm.Config(width=shape.width, num_layers=shape.num_layers, **settings)
        return Contender(Ours(lstm.Model(config, shape.vocabulary_size, 0), recipe, tokens), flops)

    return {
        "torch's nn.LSTM loop, full softmax, SGD": Contender(torch_lstm(shape, tokens), flops),
        "ours, full softmax, SGD": ours(sgd, tied=False),
        "ours, full softmax, tied, SGD": ours(sgd, tied=True),
        "ours, sampled softmax, tied, SGD": ours(replace(sgd, sampled_softmax=1.0), tied=True),
    }


def race(shape: Shape, contenders: dict[str, Contender], is_trial: bool) -> tuple[list[list[str]], dict[str, Any]]:
    """The first is the peer. Utilisation is of the fastest matrix products before and after."""
    steps, repeats = (1, 2) if is_trial else (shape.steps, shape.repeats)
    before = measure_this_machine().flops_per_second
    timings = interleave_calls({name: partial(each.run, steps) for name, each in contenders.items()}, repeats)
    machine = max(before, measure_this_machine().flops_per_second) * max(onednn_speedup(), 1.0)
    rates = {name: shape.tokens / shape.steps * steps / timing.median for name, timing in timings.items()}
    peer = next(iter(rates.values()))
    rows, figures = [[f"**{shape.title}**", "", "", "", f"{machine / 1e9:.0f}", "100 %"]], {"machine": machine}
    for name, rate in rates.items():
        flops = contenders[name].flops_per_token
        speed = flops * rate
        use = ["–"] * 3 if "sampled" in name else [f"{flops / 1e6:.1f}", f"{speed / 1e9:.0f}", f"{speed / machine:.0%}"]
        rows.append([name, f"{rate:,.0f}", f"{rate / peer:.2f}×", *use])
        figures[name] = {"tokens_per_second": rate, "ratio": rate / peer, "utilisation": speed / machine}
    return rows, figures


TEXT = (
    "StreamBatches, forward, backward, clipping and update, in one process unless it says more; torch's threads:\n"
    "{threads}, or one in each process. FLOPs per token\n"
    "are 6 per multiplied parameter, with attention's own part; the machine's speed is that of its fastest float32\n"
    "product of 1024 × 1024 matrices, by MKL or by oneDNN. {more}"
)
BARS = {
    "transformer": "The bar: 1.5× transformers' GPT-2, eager.",
    "lstm": "The bar: torch's own loop. A sampled softmax does less work than 6 per parameter.",
}


def transformer_section(names: list[str], is_trial: bool) -> Section:
    """Shapes that were not asked for stay as they are."""
    figures = {} if is_trial else BENCHMARKS.figures("throughput-transformer")
    for name in names:
        shape = TRANSFORMERS[name]
        rows, found = race(shape, transformer_contenders(shape), is_trial)
        figures = {**figures, name: {"rows": rows, **found}}
    rows = [row for name in TRANSFORMERS if name in figures for row in figures[name]["rows"]]
    text = TEXT.format(threads=torch.get_num_threads(), more=BARS["transformer"])
    return Section("Training a Transformer", text, HEADER, rows, figures)


def lstm_section(is_trial: bool) -> Section:
    rows, figures = race(LSTM, lstm_contenders(LSTM), is_trial)
    text = TEXT.format(threads=torch.get_num_threads(), more=BARS["lstm"])
    return Section("Training an LSTM", text, HEADER, rows, figures)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__)
    parser.add_argument("--only", action="append", default=[], choices=[*TRANSFORMERS, "lstm"])
    parser.add_argument("--trial", action="store_true", help="two repeats of one step; shown, but kept nowhere")
    arguments = parser.parse_args(words)
    names = [name for name in TRANSFORMERS if not arguments.only or name in arguments.only]
    if names:
        section = transformer_section(names, arguments.trial)
        publish(BENCHMARKS, "throughput-transformer", section, arguments.trial)
    if not arguments.only or "lstm" in arguments.only:
        publish(BENCHMARKS, "throughput-lstm", lstm_section(arguments.trial), arguments.trial)


if __name__ == "__main__":
    main()
