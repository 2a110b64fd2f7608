"""How a model learns: the settings of the training loop, beside those of the model itself."""

from dataclasses import dataclass

from chainrule.checks import require_choice, require_fractions, require_number, require_sizes, require_whole
from chainrule.config import setting
from chainrule.errors import UserError
from chainrule.training.schedule import SHAPES, Schedule

# By name, the peak rate of an optimizer that was chosen by hand and not with the model; optimizer.py builds them.
OPTIMIZERS = {"sgd": 1.0, "momentum": 0.1, "adamw": 0.002, "muon": 0.01}
PRECISIONS = ("float32", "bfloat16")
FIRST_VECTORS = ("random", "counted")
BUDGETS = ("minutes", "steps", "tokens", "epochs")


@dataclass(frozen=True)
class Recipe:
    optimizer: str = setting("muon", "The optimizer: {names}.", flag=True, names=lambda: OPTIMIZERS)
    learning_rate: float = setting(
        0.01, "The peak learning rate (muon: of what is not a hidden matrix); chosen by default.", flag=True
    )
    matrix_learning_rate: float | None = setting(
        None, "The peak learning rate of hidden matrices; default: 0.02 with muon, else the learning rate."
    )
    table_learning_rate: float = setting(0.1, "The learning rate of hashed n-gram embeddings, by Adagrad.")
    momentum: float = setting(0.95, "The momentum of sgd with momentum and of muon.")
    muon_rounds: int = setting(5, "Newton-Schulz iterations in each update of muon.")
    beta1: float = setting(0.9, "Adam's decay of the mean of the gradient.")
    beta2: float = setting(0.95, "Adam's decay of the mean of the squared gradient.")
    weight_decay: float = setting(0.0, "Decoupled weight decay.")
    batch_size: int = setting(16, "Windows of text in one update; chosen by default.", flag=True)
    workers: int = setting(1, "Processes that each read their part of a batch at the same time.")
    micro_batches: int = setting(
        1, "Pieces that a batch is cut into where memory is short; the gradient stays the same."
    )
    window: int = setting(128, "Tokens in one window.")
    chain: int = setting(1, "Windows that a recurrent model reads in a row with its state kept.")
    schedule: str = setting(
        "linear", "The shape of the learning rate over the training: {names}.", names=lambda: SHAPES
    )
    warmup: float = setting(0.0, "The part of the budget in which the learning rate rises from zero.")
    cooldown: float = setting(0.4, "Of a trapezoidal schedule: the part at the end in which the learning rate falls.")
    final_rate: float = setting(0.0, "What is left of the learning rate at the end, as a part of its peak.")
    clip: float = setting(1.0, "The largest global gradient norm; 0: no limit.")
    ema: float = setting(
        0.0, "Decay of the moving average of the weights that is the result; 0: the weights themselves."
    )
    sampled_softmax: float = setting(
        0.0, "The first part of the budget, in which only a sample of the vocabulary is scored."
    )
    evaluations: int = setting(10, "Evaluations over the whole budget; the best weights are the result.")
    evaluation_tokens: int = setting(65536, "Tokens of the validation text, at most, in each evaluation but the last.")
    final_tokens: int | None = setting(None, "Tokens of the validation text in the last evaluation; default: all.")
    checkpoint_seconds: float = setting(60.0, "Seconds between checkpoints: the most that a kill can cost.")
    seed: int = setting(0, "The seed of the first weights and of the order of the text.", flag=True)
    first_vectors: str = setting(
        "random", "How embeddings begin: random, or counted (from the neighbours of each word)."
    )
    engine: str = setting("torch", "What computes gradients: torch, or tape (our own, on NumPy).", flag=True)
    precision: str = setting(
        "float32", "Of matrix products: float32 or bfloat16; with minutes, the faster one by default."
    )
    minutes: float | None = setting(
        None, "Make the best model that this machine can train in this many minutes, from start to end.", flag=True
    )
    steps: int | None = setting(None, "Or: train for this many updates.", flag=True)
    tokens: float | None = setting(None, "Or: for this many tokens (10M).", flag=True, metavar="N")
    epochs: float | None = setting(None, "Or: for this many passes over the text.", flag=True)

    def __post_init__(self) -> None:
        require_choice("optimizer", self.optimizer, OPTIMIZERS)
        require_choice("first_vectors", self.first_vectors, FIRST_VECTORS)
        require_choice("precision", self.precision, PRECISIONS)
        require_sizes(self, "batch_size", "workers", "micro_batches", "window", "chain", "evaluations", "muon_rounds")
        require_sizes(self, "evaluation_tokens", "final_tokens")
        require_fractions(self, "momentum", "beta1", "beta2", "ema")
        require_whole("seed", self.seed, 0, 2**32 - 1)
        require_number("sampled_softmax", self.sampled_softmax, 0, 1)
        for name in ("weight_decay", "clip", "checkpoint_seconds"):
            require_number(name, getattr(self, name), 0)
        for name in ("learning_rate", "matrix_learning_rate", "table_learning_rate", *BUDGETS):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise UserError(f"{name} must be a number above zero, got {value}")
        given = [name for name in BUDGETS if getattr(self, name) is not None]
        if len(given) > 1:
            raise UserError(f"give one of {', '.join('--' + name for name in BUDGETS)}, got {' and '.join(given)}")
        self.rate_schedule  # noqa: B018  checks the schedule

    @property
    def rate_schedule(self) -> Schedule:
        return Schedule(self.schedule, self.warmup, self.cooldown, self.final_rate)
