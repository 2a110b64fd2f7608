"""`make recipes`: one search for the recipe of every family that learns by gradient; goes to docs/results/recipes.md.

Families, texts of a kind and settings of training are the same for all, and so are the trials: as many, of as many
seconds of one processor. The first trial is the recipe that `for_budget` gave when the search began, the second the
same plain one for all; of those that follow every other one is random, and the rest change two dials of the best so
far. The recipe that `for_budget` gives now, where it is another one by now, is the last. The best third of the trials
is begun anew with three times the seconds, and so on (successive halving). A trial trains, by the Trainer, on every
text of its kind and is ranked by the mean of its losses, each divided by the first trial's. Only validation parts are
looked at. What was measured is kept, so a search that was broken off goes on where it stopped.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from math import exp, log
from pathlib import Path
from typing import Any

import torch

from benchmarks.corpora import DATA, SHAKESPEARE, SPEECHES
from benchmarks.learning import ARCHITECTURES
from benchmarks.report import RECIPES, Section
from chainrule import registry
from chainrule.config import override
from chainrule.data.corpus import Reading
from chainrule.data.split import Splitting
from chainrule.errors import Diverged
from chainrule.evaluation.figures import NATS_PER_BIT
from chainrule.evaluation.stream import spread
from chainrule.models.contract import FitsBudget
from chainrule.tasks import language
from chainrule.tasks.base import Material
from chainrule.text.settings import Tokenization
from chainrule.training.callbacks import Callback
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.defaults import default_recipe
from chainrule.training.recipe import Recipe
from chainrule.training.resolve import RECIPE_FIELDS
from chainrule.training.trainer import Trainer

HOME = Path("runs") / "recipes"
PTB = DATA / "ptb"
WORDS = Tokenization("words", closed_vocabulary=True)
CHARACTERS = Tokenization("characters")
TEXTS = {
    "tinyshakespeare": Material((str(SHAKESPEARE),), tokenization=CHARACTERS),
    "inaugural": Material((str(DATA / "texts" / "inaugural.txt"),), tokenization=CHARACTERS),
    "ptb": Material((str(PTB / "ptb.train.txt"),), (str(PTB / "ptb.valid.txt"),), Reading("line"), tokenization=WORDS),
    "sotu": Material((str(SPEECHES),), tokenization=Tokenization("bpe")),
    "news": Material((str(DATA / "texts" / "news-rural.txt"),), tokenization=WORDS),
}
KINDS = {"few": ("tinyshakespeare", "inaugural"), "many": ("ptb", "sotu")}  # kinds of vocabulary, and texts of them
TABLE_TEXTS = ("tinyshakespeare", "ptb", "sotu", "news")  # no recipe was searched for on the last
TABLE_SECONDS = (12, 40)
TITLES = {"few": "characters", "many": "10,000 words and 16,000 pieces"}
COUNTED_ORDERS = (1, 2, 5)
SCORED = 8192  # tokens of the validation part
SCORED_FOR_TABLE = 16384
BUDGET = 60.0  # seconds of two cores, for which `for_budget` is asked
DIVERGED = 20.0  # the loss of a training that did
SHORTER = 3  # how many times as long as those of a rung the trials of the next are, and how many are left out

Settings = dict[str, Any]
Space = dict[str, tuple[Settings, ...]]


def dial(name: str, *values: object) -> dict[str, tuple[Settings, ...]]:
    return {name: tuple({name: value} for value in values)}


TRAINING: Space = {
    "optimizer": (
        *({"optimizer": "adamw", "matrix_learning_rate": rate} for rate in (0.002, 0.004, 0.008)),
        *({"optimizer": "muon", "matrix_learning_rate": rate} for rate in (0.006, 0.02)),
    ),
    **dial("learning_rate", 0.003, 0.006, 0.01, 0.02),
    "batch": tuple({"batch_size": rows, "window": length} for rows, length in ((8, 64), (16, 64), (32, 32), (16, 128))),
    **dial("weight_decay", 0.0, 0.03),
    **dial("dropout", 0.0, 0.1),
}
LARGE: Space = {
    **dial("sampled_softmax", 0.0, 0.8, 0.95),
    "candidates": tuple(
        {"sampled_head": head, "sampled_tail": tail} for head, tail in ((800, 500), (200, 400), (100, 300))
    ),
    **dial("first_vectors", "random", "counted"),
}
WIDTHS = dial("width", 96, 128, 200)
TIED = dial("tied", False, True)
SIZES: dict[str, Space] = {
    "bow": WIDTHS | TIED,
    "mlp": WIDTHS
    | dial("order", 4, 6, 10)
    | {"output": ({"tied": True}, {"tied": False, "is_direct": False}, {"tied": False, "is_direct": True})},
    "attention": WIDTHS | TIED | dial("num_heads", 2, 4),
    "transformer": WIDTHS
    | TIED
    | dial("num_layers", 1, 2, 3)
    | {
        "tables": (
            {"ngram_order": 0},
            *({"ngram_order": 3, "ngram_dropout": 0.3, "table_learning_rate": rate} for rate in (0.01, 0.2)),
        )
    },
    **{cell: WIDTHS | TIED | dial("num_layers", 1, 2) for cell in ("elman", "ugrnn", "gru", "lstm")},
}
PLAIN: Settings = {  # the second trial of every family: as the recurrent models were trained before there was a search
    "optimizer": "adamw", "learning_rate": 0.01, "matrix_learning_rate": 0.004, "batch_size": 32, "window": 32,
    "weight_decay": 0.03, "dropout": 0.1, "width": 128, "tied": True, "beta2": 0.999,
}  # fmt: skip
PLAIN_LARGE: Settings = {
    "sampled_softmax": 0.95, "first_vectors": "counted", "sampled_head": 200, "sampled_tail": 400,
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What a training came to."""

    loss: float  # nats per token of the validation part
    parameters: int
    tokens: int  # that were read, those that were read again included


@dataclass
class Trial:
    settings: Settings
    losses: dict[str, dict[str, float]]  # by seconds, by text: nats per token


class Text(language.Task):
    """A prepared text that counts the vectors of each width once, and tells how long that took."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        self._vectors: dict[int, tuple[torch.Tensor, float]] = {}

    @classmethod
    def open(cls, name: str) -> "Text":
        folder = HOME / name
        if not (folder / "prepared").exists():
            folder.mkdir(parents=True, exist_ok=True)
            given = replace(TEXTS[name], splitting=Splitting(), default_tokenizer="bpe")
            cls.prepare(given, language.base.NoSettings(), cls.open_data(given, language.base.NoSettings()), folder)
            (folder / "prepared").touch()
        return cls(folder)

    def primed(self, model: Any, recipe: Recipe) -> float:
        """Prime the model; the processor seconds that this takes."""
        if recipe.first_vectors != "counted":
            return 0.0
        table = model.token_table().detach()[: len(self.counts)]
        width, scale = table.shape[1], table.std()
        if width not in self._vectors:
            began = time.process_time()
            self.prime(model, recipe)
            self._vectors[width] = table / table.std(), time.process_time() - began
        vectors, seconds = self._vectors[width]
        table.copy_(vectors * scale)
        return seconds


@cache
def text_of(name: str) -> Text:
    return Text.open(name)


def module_of(family: str) -> Any:
    return registry.find("chainrule.models", family, "model")


def current(family: str, text: Text) -> Settings:
    """What the code gives this family for a minute now."""
    module, tokens = module_of(family), text.counts.sum()
    if isinstance(module, FitsBudget):
        config, changes, _ = module.for_budget(BUDGET, int(tokens), text.tokenizer.vocabulary_size)
        return asdict(config) | changes
    config = module.SIZES[module.DEFAULT_SIZE]
    recipe = asdict(default_recipe(module, config, None))
    return asdict(config) | {name: recipe[name] for name in ("optimizer", "learning_rate", "batch_size", "window")}


def complete(family: str, settings: Settings) -> Settings:
    """With what follows from other settings: a context as long as the window, a hidden layer that fits the output."""
    known, module = dict(settings), module_of(family)
    names = {each.name for each in fields(module.Config)}
    if "context_length" in names:
        known.setdefault("context_length", known["window"])
    if family in ("bow", "mlp"):
        known.setdefault("hidden_width", known["width"] * (1 if known["tied"] else 2))
    if family == "mlp":
        known.setdefault("is_direct", False)
    if family == "attention":
        known.setdefault("hidden_width", 4 * known["width"])
        known.setdefault("output_bias", True)
    if family == "transformer":
        known.setdefault("ngram_order", 0)
        known.setdefault("num_layers", 2)
        known.setdefault("output_bias", True)
    return {name: value for name, value in known.items() if name in names or name in RECIPE_FIELDS}


def train(family: str, settings: Settings, text: Text, seconds: float, scored: int = SCORED) -> Outcome:
    """After so many seconds of one processor."""
    module = module_of(family)
    size = {name: value for name, value in settings.items() if name not in RECIPE_FIELDS}
    base = module.SIZES[module.DEFAULT_SIZE]
    if isinstance(module, FitsBudget):
        base, changes, _ = module.for_budget(BUDGET, int(text.counts.sum()), text.tokenizer.vocabulary_size)
        kept = {name: value for name, value in changes.items() if name not in names_of(TRAINING | LARGE)}
        settings = kept | settings
    if family == "transformer" and "width" in size:
        size.setdefault("num_heads", max(size["width"] // 32, 1))
        if size["width"] % size["num_heads"]:
            size["num_heads"] = 4
    config = override(base, size, "the trial", from_text=False)
    changes = {name: value for name, value in settings.items() if name in RECIPE_FIELDS}
    recipe = replace(default_recipe(module, config, None), **changes)
    model = text.build(module, config, recipe.seed)
    spent = text.primed(model, recipe) * seconds / BUDGET  # of a short trial, in proportion
    context = TrainingContext(
        text.batches(recipe), Budget(seconds=seconds - spent), counts=text.counts, clock=time.process_time
    )
    trainer = Trainer(model, recipe, context, Callback(), None)
    try:
        trainer.run()
    except Diverged:
        return Outcome(DIVERGED, model.num_parameters, trainer.tokens_seen)
    return Outcome(loss_of(model, text, scored), model.num_parameters, trainer.tokens_seen)


def loss_of(model: Any, text: Text, scored: int) -> float:
    """Nats per token of so many tokens from all over the validation part."""
    return float(-model.score(spread(text._held_out.tokens(0), scored)).astype(float).mean())


def measure(family: str, kind: str, trial: Trial, seconds: float) -> None:
    """Train this trial on every text of its kind, unless that was done before."""
    known = trial.losses.setdefault(f"{seconds:g}", {})
    for name in KINDS[kind]:
        if name not in known:
            known[name] = round(train(family, trial.settings, text_of(name), seconds).loss, 4)


def mean_ratio(trial: Trial, first: Trial, seconds: float) -> float:
    """The geometric mean, over the texts, of this trial's loss beside the first one's."""
    ours, theirs = trial.losses[f"{seconds:g}"], first.losses[f"{seconds:g}"]
    return exp(sum(log(ours[name] / theirs[name]) for name in ours) / len(ours))


def draw(family: str, kind: str, number: int, best: Settings) -> Settings:
    """A trial at random, or the best so far with two dials turned; the same for the same number."""
    chance = random.Random(f"{family} {kind} {number}")
    space = TRAINING | (LARGE if kind == "many" else {}) | SIZES[family]
    turned = list(space) if number % 2 else chance.sample(list(space), 2)
    found = {} if number % 2 else {name: value for name, value in best.items() if name in names_of(space) | {"beta2"}}
    for name in turned:
        found |= chance.choice(space[name])
    return complete(family, {"beta2": 0.999} | found)


def names_of(space: Space) -> set[str]:
    return {name for options in space.values() for option in options for name in option}


def search(family: str, kind: str, count: int, seconds: float, known: list[Trial]) -> Iterator[list[Trial]]:
    """The trials so far, each time that one more was measured; `seconds` are those of the shortest."""
    first = known[0] if known else Trial(current(family, text_of(KINDS[kind][0])), {})
    plain = PLAIN | (PLAIN_LARGE if kind == "many" else {})
    trials = [first]
    for number in range(count):
        if number:
            best = min(trials, key=lambda each: mean_ratio(each, first, seconds))
            settings = complete(family, plain) if number == 1 or best is first else best.settings
            settings = settings if number == 1 else draw(family, kind, number, settings)
            trials.append(next((each for each in known if each.settings == settings), Trial(settings, {})))
        measure(family, kind, trials[-1], seconds)
        report(family, kind, trials[-1], first, seconds)
        yield trials
    now = current(family, text_of(KINDS[kind][0]))
    if all(each.settings != now for each in trials):
        trials.append(next((each for each in known if each.settings == now), Trial(now, {})))
        measure(family, kind, trials[-1], seconds)
        report(family, kind, trials[-1], first, seconds)
        yield trials
    left = trials
    while len(left) > SHORTER:
        left = sorted(left, key=lambda each: mean_ratio(each, first, seconds))[: max(len(left) // SHORTER, 1)]
        seconds *= SHORTER
        measure(family, kind, first, seconds)
        report(family, kind, first, first, seconds)
        for trial in left:
            measure(family, kind, trial, seconds)
            report(family, kind, trial, first, seconds)
            yield trials


def report(family: str, kind: str, trial: Trial, first: Trial, seconds: float) -> None:
    found = trial.losses[f"{seconds:g}"]
    ratio = mean_ratio(trial, first, seconds)
    print(f"{family} {kind} {seconds:g} s: {ratio:.4f} {found} {json.dumps(trial.settings)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recipes", description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"{', '.join(ARCHITECTURES)}; default: all")
    parser.add_argument("--kind", choices=KINDS, action="append", help="of vocabulary; default: all")
    parser.add_argument("--trials", type=int, default=9, help="of each family and kind")
    parser.add_argument("--seconds", type=float, default=4.0, help="of one processor, for the shortest trials")
    parser.add_argument("--text", choices=TABLE_TEXTS, action="append", help="of the table; default: all")
    parser.add_argument(
        "--table", type=int, choices=TABLE_SECONDS, help="seconds for all families by the recipes they have now"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train("bow", PLAIN | {"hidden_width": 128}, text_of("tinyshakespeare"), 1.0)  # torch imports some of itself late
    if arguments.table:
        names, families = arguments.text or list(TABLE_TEXTS), arguments.families or list(ARCHITECTURES)
        measure_table(arguments.table, names, families, RECIPES.figures(f"table-{arguments.table}"))
        return
    for kind in arguments.kind or KINDS:
        for family in arguments.families or ARCHITECTURES:
            figures = RECIPES.figures(kind)
            known = [Trial(**each) for each in figures.get(family, [])]
            for trials in search(family, kind, arguments.trials, arguments.seconds, known):
                figures[family] = [asdict(each) for each in trials]
                RECIPES.keep(kind, section(kind, figures))
    print(RECIPES.path)


def section(kind: str, figures: dict[str, Any]) -> Section:
    """What won in each family, and by how much."""
    texts = KINDS[kind]
    header = ["family", "trials", "processor seconds", *(f"{name}, before → after" for name in texts), "what won"]
    rows = [
        row(texts, family, [Trial(**each) for each in figures[family]]) for family in ARCHITECTURES if family in figures
    ]
    missing = [family for family in ARCHITECTURES if family not in figures]
    text = (
        f"Texts: {' and '.join(texts)}. Bits per token of {SCORED:,} tokens of the validation part after the longest\n"
        "trials: of the recipe that the family had before this search, and of the best one."
    )
    if missing:
        text += (
            f"\nNot searched yet: {', '.join(missing)}. One with fewer trials than others was not searched to the end."
        )
    return Section(f"Vocabularies of {TITLES[kind]}", text, header, rows, figures)


def row(texts: tuple[str, ...], family: str, trials: list[Trial]) -> list[str]:
    longest = max((each for each in trials[0].losses), key=float)
    done = [each for each in trials if len(each.losses.get(longest, {})) == len(texts)]
    best = min(done, key=lambda each: mean_ratio(each, trials[0], float(longest))) if done else trials[0]
    spent = sum(float(seconds) * len(found) for each in trials for seconds, found in each.losses.items())
    pairs = [(trials[0].losses[longest][name], best.losses[longest][name]) for name in texts]
    shown = [" → ".join(f"{nats / NATS_PER_BIT:.3f}" for nats in pair) for pair in pairs]
    changed = {name: value for name, value in best.settings.items() if name != "sampled_softmax" or value}
    won = "as before" if best is trials[0] else ", ".join(f"{name}={value}" for name, value in changed.items())
    return [family, str(len(trials)), f"{spent:,.0f}, the longest {longest}", *shown, won]


def measure_table(seconds: int, names: list[str], families: list[str], figures: dict[str, Any]) -> None:
    """Every family by the recipe that it has now, and counting beside it; written down one by one."""
    for name in names:
        text = text_of(name)
        per_unit = NATS_PER_BIT * (
            1.0 if TEXTS[name].tokenization == WORDS or text.bytes_per_token is None else text.bytes_per_token
        )
        found = figures.setdefault(name, {})
        for order in COUNTED_ORDERS:
            if f"ngram-{order}" not in found:
                config = replace(module_of("ngram").SIZES[module_of("ngram").DEFAULT_SIZE], order=order)
                model = module_of("ngram").Model(config, text.tokenizer.vocabulary_size, text.tokenizer.eos)
                bits = loss_of(text.fit(model), text, SCORED_FOR_TABLE) / per_unit
                found[f"ngram-{order}"] = asdict(Outcome(bits, model.num_parameters, int(text.counts.sum())))
        for family in families:
            outcome = train(family, current(family, text), text, seconds, SCORED_FOR_TABLE)
            found[family] = asdict(replace(outcome, loss=outcome.loss / per_unit))
            print(f"{name} {family}: {found[family]}", flush=True)
            RECIPES.keep(f"table-{seconds}", table_section(seconds, figures))


def table_section(seconds: int, figures: dict[str, Any]) -> Section:
    names = [*(f"ngram-{order}" for order in COUNTED_ORDERS), *ARCHITECTURES]
    texts = [text for text in TABLE_TEXTS if text in figures]
    rows = [[name, *(shown(figures[text].get(name)) for text in texts)] for name in names]
    text = (
        f"Every family by its recipe for a minute, trained for {seconds} seconds of one processor, less than such a\n"
        f"minute has: bits per byte (ptb and news: per word) of {SCORED_FOR_TABLE:,} tokens of the validation part;\n"
        "in brackets, millions of parameters and of tokens read. N-grams count all of the text. No recipe was\n"
        "searched for on the news."
    )
    return Section(f"All families for {seconds} seconds", text, ["model", *texts], rows, figures)


def shown(figures: dict[str, Any] | None) -> str:
    """'7.293 (1.42, 0.61)'"""
    if figures is None:
        return "–"
    return f"{figures['loss']:.3f} ({figures['parameters'] / 1e6:.2f}, {figures['tokens'] / 1e6:.2f})"


if __name__ == "__main__":
    main()
