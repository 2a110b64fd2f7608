"""The same small random model in transformers and here, so that what both draw from it can be compared."""

from functools import cache
from typing import Any

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, StoppingCriteria, StoppingCriteriaList

from .toys import Pieces, letters

TOKENIZER: Pieces = letters(11)
EOS = TOKENIZER.eos


class Whole:
    """A model of transformers behind `start` and `step`: it reads the whole text again at every step."""

    def __init__(self, model: GPT2LMHeadModel) -> None:
        self.model, self.vocabulary_size = model, model.config.vocab_size

    def start(self, batch_size: int, condition: Any = None) -> dict[str, np.ndarray]:
        return {"read": np.zeros((batch_size, 0), np.int64)}

    def step(self, tokens: np.ndarray, state: dict[str, np.ndarray]) -> tuple[torch.Tensor, dict[str, np.ndarray]]:
        read = np.concatenate([state["read"], tokens], axis=1)
        with torch.no_grad():
            logits = self.model(torch.as_tensor(read)).logits
        return logits[:, -tokens.shape[1] :], {"read": read}


@cache
def gpt2(seed: int) -> GPT2LMHeadModel:
    """A GPT-2 of two layers whose distributions are neither flat nor certain; eos begins and ends a text."""
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=EOS + 1, n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=EOS, eos_token_id=EOS
    )
    model = GPT2LMHeadModel(config).eval()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    model.generation_config.pad_token_id = EOS
    return model


def generate(seed: int, prompt: str, max_tokens: int, **settings: Any) -> list[tuple[int, ...]]:
    """The ids that transformers generates after eos and the prompt, each up to its first eos."""
    ids = [EOS, *TOKENIZER.encode(prompt).tolist()]
    found = gpt2(seed).generate(torch.tensor([ids]), max_new_tokens=max_tokens, do_sample=False, **settings)
    return [_until_eos(row[len(ids) :]) for row in found.tolist()]


def _until_eos(ids: list[int]) -> tuple[int, ...]:
    return tuple(ids[: ids.index(EOS) + 1] if EOS in ids else ids)


class _EndsWith(StoppingCriteria):
    def __init__(self, last: tuple[int, ...]) -> None:
        self.last = torch.tensor(last)

    def __call__(self, ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        return (ids[:, -len(self.last) :] == self.last).all(-1)


def ends_with(*last: int) -> StoppingCriteriaList:
    """Ends a text after these ids, as transformers' own criterion for stop strings does after their text."""
    return StoppingCriteriaList([_EndsWith(last)])
