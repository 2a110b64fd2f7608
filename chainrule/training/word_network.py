"""Training an LSTM of words for an ensemble: text in memory, so many seconds, other work on the same processor."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from chainrule.data.batches import Ring, StreamBatches
from chainrule.models import lstm, wordgram, wordnetwork
from chainrule.models._budgets import dropout_of_short_text
from chainrule.models._recurrent import RecurrentConfig
from chainrule.progress import say
from chainrule.tasks._vectors import vectors_by_counting
from chainrule.training.budget import seconds_per_step
from chainrule.training.callbacks import Callback, CallbackList, Record
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.precision import WORTH_ROUNDING, is_worth_trying
from chainrule.training.recipe import Recipe
from chainrule.training.trainer import Trainer
from chainrule.training.worker_pool import threads

MEASURED_PART = 0.02  # of the time, for each precision, goes to measuring how fast it trains
MOST_EPOCHS = 60.0
WIDTH, LARGER_WIDTH = 128, 200
LARGER_FROM = 30.0  # epochs that there is time for with the smaller one
LARGER_SPEED = 0.5  # beside the smaller one
FEWEST_SAMPLED = 1500  # words from which on a sample of the vocabulary is scored in most of the training
MANY_TOKENS = 300_000  # of a text that is read in larger batches


@dataclass(frozen=True)
class Words:
    """A text as ids of tokens: what is learned from, and what the best weights are chosen by."""

    learning: np.ndarray
    choosing: np.ndarray
    counts: np.ndarray  # of every id in what is learned from

    @classmethod
    def of(cls, words: wordgram.Model, learning: np.ndarray, choosing: np.ndarray) -> "Words":
        ids = words.encode(learning).astype(np.int64)
        return cls(ids, words.encode(choosing).astype(np.int64), np.bincount(ids, minlength=words.num_ids))

    def context(self, recipe: Recipe, budget: Budget) -> TrainingContext:
        batches = StreamBatches(
            [Ring([self.learning])], [1.0], recipe.batch_size, recipe.window, recipe.chain, recipe.seed
        )
        return TrainingContext(batches, budget, self.choosing, counts=self.counts)


class Heartbeat(Callback):
    """Calls a function now and then, which may raise to end the training."""

    def __init__(self, call: Callable[[], None]):
        self._call = call

    def step(self, record: Record) -> None:
        self._call()


class TakesFreeCores(Callback):
    """Lets torch use all cores as soon as they are free."""

    def __init__(self, are_free: Callable[[], bool], most: int):
        self._are_free, self._most = are_free, most

    def step(self, record: Record) -> None:
        if torch.get_num_threads() < self._most and self._are_free():
            torch.set_num_threads(self._most)


def make_config(width: int, epochs: float, tokens: int) -> RecurrentConfig:
    dropout = dropout_of_short_text(epochs, tokens)
    return RecurrentConfig(width=width, num_layers=1, input_scale=4.0, input_dropout=0.8 * dropout, dropout=dropout)


def make_recipe(tokens: int, vocabulary_size: int) -> Recipe:
    has_words = vocabulary_size >= FEWEST_SAMPLED
    return Recipe(
        optimizer="adamw",
        batch_size=16 if tokens > MANY_TOKENS else 8,
        window=32,
        chain=64,
        learning_rate=0.01,
        matrix_learning_rate=0.004,
        beta2=0.999,
        weight_decay=0.03,
        sampled_softmax=0.95 if has_words else 0.0,
        first_vectors="counted" if has_words else "random",
        evaluations=12,
    )


def measure_speed(words: wordgram.Model, text: Words, recipe: Recipe, seconds: float) -> tuple[Recipe, float]:
    """The recipe with the precision that trains faster here, and how many tokens a second that is."""
    speeds = {}
    for precision in ("float32", "bfloat16") if is_worth_trying() else ("float32",):
        trial = replace(recipe, precision=precision)
        context = text.context(trial, Budget(steps=1 << 30))
        model = lstm.Model(make_config(WIDTH, 4.0, len(text.learning)), words.num_ids, words.end)
        speeds[precision] = context.batches.tokens_per_step / seconds_per_step(model, trial, context, seconds)
    if speeds.get("bfloat16", 0.0) > WORTH_ROUNDING * speeds["float32"]:
        return replace(recipe, precision="bfloat16"), speeds["bfloat16"]
    return recipe, speeds["float32"]


def train_word_network(
    name: str,
    words: wordgram.Model,
    learning: np.ndarray,
    choosing: np.ndarray,
    seconds: float,
    seed: int,
    cores: int,
    callbacks: Sequence[Callback],
) -> wordnetwork.Model:
    """Train for so many seconds, or for as many epochs as pay, and keep the weights that predict `choosing` best."""
    ends_at = time.perf_counter() + seconds
    text = Words.of(words, learning, choosing)
    recipe = replace(make_recipe(len(text.learning), words.num_ids), seed=seed)
    with threads(cores):
        recipe, speed = measure_speed(words, text, recipe, MEASURED_PART * seconds)
        seconds = max(ends_at - time.perf_counter(), MEASURED_PART * seconds)
        width = WIDTH
        if speed * seconds > LARGER_FROM * len(text.learning):
            width, speed = LARGER_WIDTH, LARGER_SPEED * speed
        epochs = min(speed * seconds / len(text.learning), MOST_EPOCHS)
        seconds = min(seconds, epochs * len(text.learning) / speed)
        config = make_config(width, epochs, len(text.learning))
        say(
            f"{name}: an LSTM of width {width}, {words.num_ids:,} different words, about {speed:,.0f} words/s "
            f"in {recipe.precision}, so the text is read {epochs:.1f} times"
        )
        torch.manual_seed(recipe.seed)
        model = lstm.Model(config, words.num_ids, words.end)
        model.set_output_bias(text.counts)
        if recipe.first_vectors == "counted":
            table = model.token_table().detach()
            table.copy_(vectors_by_counting([text.learning], text.counts, table.shape[1]) * table.std())
        seconds = max(min(seconds, ends_at - time.perf_counter()), MEASURED_PART * seconds)
        with CallbackList(*callbacks) as callback:
            trainer = Trainer(model, recipe, text.context(recipe, Budget(seconds=seconds)), callback, None)
            callback.on_event(
                {
                    "event": "begin",
                    "architecture": "lstm",
                    "parameters": model.num_parameters,
                    "vocabulary_size": words.num_ids,
                    "total_steps": None,
                    "budget_seconds": seconds,
                    "resumed_at_step": 0,
                    "chosen": [],
                }
            )
            trainer.run()
            callback.on_event({"event": "end"})
    return wordnetwork.Model(words, model)
