"""Translation at equal shape beside transformers' Marian classes: training tokens and translated sentences a second.

The same batches of random pairs for both, and the same optimizer. Both search with a beam of 5 for as many tokens.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.measure import Timing, interleave_calls
from benchmarks.report import BENCHMARKS, Section, publish
from benchmarks.throughput import update
from chainrule.generation.beam import Beam
from chainrule.generation.search import search
from chainrule.models.conditional import Config, Model
from chainrule.models.contract import IGNORE
from chainrule.tasks._batches import PairBatches, condition_of
from chainrule.training.callbacks import CallbackList
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.recipe import Recipe
from chainrule.training.trainer import Trainer

VOCABULARY, EOS = 8000, 0
WIDTH, LAYERS, HEADS, HIDDEN = 256, 3, 4, 512
WRITTEN = 16  # tokens of each translation


@dataclass(frozen=True)
class Sizes:
    pairs: int
    steps: int  # in one repeat
    sentences: int
    repeats: int


FULL, TRIAL = Sizes(4000, 3, 64, 5), Sizes(400, 1, 8, 1)


def draw_pairs(count: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Of the lengths of Multi30k, about; speed does not depend on what they say."""
    generator = np.random.default_rng(0)
    lengths = np.clip(generator.normal(15, 5, count).astype(int), 4, 40)
    sides = [[generator.integers(1, VOCABULARY, length) for length in lengths] for _ in range(2)]
    return sides[0], sides[1]


def ours(batches: PairBatches, sizes: Sizes) -> tuple[Model, Callable[[], object]]:
    config = Config(
        width=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS, num_heads=HEADS, hidden_width=HIDDEN, dropout=0.1
    )
    torch.manual_seed(0)
    model = Model(config, VOCABULARY, EOS)
    recipe = Recipe(optimizer="adamw", learning_rate=1e-3, schedule="constant")
    trainer = Trainer(model, recipe, TrainingContext(batches, Budget(steps=0)), CallbackList(), None)

    def run() -> None:
        trainer.context.budget = Budget(steps=trainer.position.step + sizes.steps)
        trainer.run()

    return model, run


def marian(batches: PairBatches, sizes: Sizes) -> tuple[torch.nn.Module, Callable[[], object]]:
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=VOCABULARY, d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS,
        encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, encoder_ffn_dim=HIDDEN, decoder_ffn_dim=HIDDEN,
        dropout=0.1, attention_dropout=0.0, activation_dropout=0.0, max_position_embeddings=64, pad_token_id=EOS,
        eos_token_id=EOS, decoder_start_token_id=EOS, forced_eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    model = MarianMTModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    at = 0

    def run() -> None:
        nonlocal at
        model.train()
        for _ in range(sizes.steps):
            window = batches.batch(at)
            at += 1
            source = torch.from_numpy(window.condition["source"])
            mask = torch.arange(source.shape[1]) < torch.from_numpy(window.condition["lengths"])[:, None]
            logits = model(
                input_ids=source,
                attention_mask=mask,
                decoder_input_ids=torch.from_numpy(window.inputs),
                use_cache=False,
            ).logits
            targets = torch.from_numpy(window.targets)
            update(model, optimizer, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE))

    return model, run


def translators(mine: Model, theirs: torch.nn.Module, sources: list[np.ndarray]) -> dict[str, Callable[[], object]]:
    condition = condition_of(sources, EOS)
    source = torch.from_numpy(condition["source"])
    mask = torch.arange(source.shape[1]) < torch.from_numpy(condition["lengths"])[:, None]
    beams = [Beam(5, 1.0, WRITTEN)] * len(sources)

    def search_ours() -> None:
        mine.eval()
        search(mine, condition, EOS, beams)

    @torch.no_grad()
    def search_theirs() -> None:
        theirs.eval()
        theirs.generate(
            input_ids=source, attention_mask=mask, num_beams=5, min_new_tokens=WRITTEN, max_new_tokens=WRITTEN
        )

    return {"ours": search_ours, "transformers' Marian": search_theirs}


def cells(
    name: str, training: Timing, tokens: float, writing: Timing, sentences: int, of: tuple[float, float]
) -> list[str]:
    speeds = tokens / training.median, sentences / writing.median
    ratios = [speed / peer for speed, peer in zip(speeds, of, strict=True)]
    return [name, f"{speeds[0]:,.0f}", f"{ratios[0]:.2f}", f"{speeds[1]:.1f}", f"{ratios[1]:.2f}"]


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.translating", description=__doc__)
    parser.add_argument("--trial", action="store_true", help="a small one; shown, but kept nowhere")
    is_trial = parser.parse_args(words).trial
    sizes = TRIAL if is_trial else FULL
    sources, targets = draw_pairs(sizes.pairs)
    batches = PairBatches(sources, targets, (EOS, EOS), 2048, 0)
    (mine, train_mine), (theirs, train_theirs) = ours(batches, sizes), marian(batches, sizes)
    name = "transformers' Marian"
    training = interleave_calls({"ours": train_mine, name: train_theirs}, sizes.repeats)
    writing = interleave_calls(translators(mine, theirs, sources[: sizes.sentences]), sizes.repeats)
    tokens = batches.tokens_per_step * sizes.steps
    peer = tokens / training[name].median, sizes.sentences / writing[name].median
    rows = [cells(each, training[each], tokens, writing[each], sizes.sentences, peer) for each in ("ours", name)]
    text = (
        f"An encoder and a decoder of {LAYERS} layers each, {WIDTH} wide, {HEADS} heads, {VOCABULARY:,} words, AdamW;\n"
        f"batches of about 2,000 tokens on either side. Translated: {sizes.sentences} sentences at once, beam\n"
        f"5, {WRITTEN} tokens each. Ours has a fused softmax; all beams are rows of one batch."
    )
    header = ["", "training tokens/s", "ratio", "sentences/s", "ratio"]
    publish(BENCHMARKS, "translating", Section("Translation", text, header, rows), is_trial)


if __name__ == "__main__":
    main()
