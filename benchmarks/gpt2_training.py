"""The peer for time to quality: transformers' GPT-2 with nanoGPT's published CPU settings; prints JSON.

nanoGPT's README: 4 layers, 4 heads, 128 wide, context 64, batch 12, 2,000 steps, no dropout; AdamW 1e-3 -> 1e-4 by
cosine after 100 steps of warm-up, betas 0.9 and 0.99, weight decay 0.1 for matrices, gradients clipped at 1. It looks
at no validation text on its way, makes no checkpoint, and imports nothing of ours.
"""

import argparse
import json
import math
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

CONTEXT, BATCH, WARMUP = 64, 12, 100
PEAK, FLOOR = 1e-3, 1e-4
AT_ONCE = 16  # windows read together when evaluating: more do not fit the caches, and are slower


def read_characters(path: Path) -> tuple[Tensor, Tensor, int]:
    """The first 90 % to train on, the last 10 % to measure on, and the size of the vocabulary."""
    text = path.read_text()
    known = {character: i for i, character in enumerate(sorted(set(text)))}
    ids = torch.tensor([known[character] for character in text])
    cut = int(0.9 * len(ids))
    return ids[:cut], ids[cut:], len(known)


def build(vocabulary_size: int) -> GPT2LMHeadModel:
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=vocabulary_size, n_positions=CONTEXT, n_embd=128, n_layer=4, n_head=4,
            embd_pdrop=0.0, resid_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
        )
    )  # fmt: skip


def rate(step: int, steps: int) -> float:
    if step < WARMUP:
        return PEAK * (step + 1) / (WARMUP + 1)
    progress = (step - WARMUP) / max(steps - WARMUP, 1)
    return FLOOR + (PEAK - FLOOR) * (1 + math.cos(math.pi * progress)) / 2


def train(model: GPT2LMHeadModel, ids: Tensor, steps: int) -> None:
    parameters = list(model.parameters())
    groups = [
        {"params": [each for each in parameters if each.dim() >= 2], "weight_decay": 0.1},
        {"params": [each for each in parameters if each.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=PEAK, betas=(0.9, 0.99))
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps)
        starts = torch.randint(len(ids) - CONTEXT, (BATCH,))
        windows = ids[starts[:, None] + torch.arange(CONTEXT + 1)]
        logits = model(windows[:, :-1], use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()


@torch.no_grad()
def evaluate(model: GPT2LMHeadModel, ids: Tensor, stride: int) -> dict[str, float]:
    """Mean loss of all of `ids` but the first. Windows start `stride` apart, and count what the last one had not."""
    began = time.time()
    starts = torch.arange(0, max(len(ids) - CONTEXT, 1), stride)
    nats, count = 0.0, 0
    for group in starts.split(AT_ONCE):
        windows = ids[group[:, None] + torch.arange(CONTEXT + 1)]
        losses = _losses(model, windows)
        if group[0] == 0:
            nats, count = float(losses[0].sum()), CONTEXT
            losses = losses[1:]
        nats += float(losses[:, -stride:].double().sum())
        count += losses[:, -stride:].numel()
    left = len(ids) - 1 - count
    if left:
        nats += float(_losses(model, ids[None, -CONTEXT - 1 :])[0, -left:].sum())
    return {"loss": nats / (count + left), "seconds": time.time() - began, "tokens": count + left}


def _losses(model: GPT2LMHeadModel, windows: Tensor) -> Tensor:
    """(windows, context + 1) -> (windows, context)"""
    logits = model(windows[:, :-1], use_cache=False).logits
    losses = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten(), reduction="none")
    return losses.view(len(windows), -1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1337)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    train_ids, validation_ids, vocabulary_size = read_characters(arguments.text)
    model = build(vocabulary_size)
    began_at = time.time()
    model.train()
    train(model, train_ids, arguments.steps)
    model.eval()
    trained_at = time.time()
    separate = evaluate(model, validation_ids, CONTEXT)
    overlapping = evaluate(model, validation_ids, CONTEXT // 2)
    print(
        json.dumps(
            {
                "began_at": began_at,
                "trained_at": trained_at,
                "parameters": sum(each.numel() for each in model.parameters()),
                "separate": separate,
                "overlapping": overlapping,
            }
        )
    )


if __name__ == "__main__":
    main()
