"""How a model learns: the settings of the training loop, beside those of the model itself."""

from dataclasses import dataclass

from chainrule.checks import require_choice, require_fractions, require_number, require_sizes, require_whole
from chainrule.config import setting
from chainrule.errors import UserError
from chainrule.layers.lora_settings import MATRICES
from chainrule.training.schedule import SHAPES, Schedule

# By name, the peak rate of an optimizer that was chosen by hand and not with the model; optimizer.py builds them.
OPTIMIZERS = {"sgd": 1.0, "momentum": 0.1, "adamw": 0.002, "muon": 0.01}
PRECISIONS = ("float32", "bfloat16")
FIRST_VECTORS = ("random", "counted")
BEGINS_FROM_RUN = ("lora", "lora_rank", "lora_alpha", "lora_matrices", "lora_dropout", "top_layers")
BUDGETS = ("minutes", "steps", "tokens", "epochs")


@dataclass(frozen=True)
class Recipe:
    optimizer: str = setting("muon", "The optimizer: {names}.", flag=True, names=lambda: OPTIMIZERS)
    learning_rate: float = setting(
        0.01,
        "The peak learning rate (with muon, of parameters that are not hidden matrices); chosen by default.",
        flag=True,
    )
    matrix_learning_rate: float | None = setting(
        None, "The peak learning rate of hidden matrices; default: 0.02 with muon, else learning_rate."
    )
    table_learning_rate: float = setting(0.1, "The learning rate of hashed n-gram embeddings, which Adagrad trains.")
    momentum: float = setting(0.95, "The momentum of the optimizers momentum and muon.")
    muon_rounds: int = setting(5, "Newton-Schulz iterations in each update of muon.")
    beta1: float = setting(0.9, "Adam's decay rate of the first moment.")
    beta2: float = setting(0.95, "Adam's decay rate of the second moment.")
    weight_decay: float = setting(0.0, "Decoupled weight decay.")
    batch_size: int = setting(16, "Windows of text per update; chosen by default.", flag=True)
    workers: int = setting(1, "Processes that share the work on each batch.")
    micro_batches: int = setting(1, "Micro-batches per batch, to save memory; the gradient is the same.")
    window: int = setting(128, "Tokens per window.")
    chain: int = setting(1, "Consecutive windows over which a recurrent model keeps its state.")
    schedule: str = setting("linear", "The learning rate schedule: {names}.", names=lambda: SHAPES)
    warmup: float = setting(0.0, "The share of the budget in which the learning rate rises from zero.")
    cooldown: float = setting(0.4, "For a trapezoidal schedule: the share at the end in which the learning rate falls.")
    final_rate: float = setting(0.0, "The final learning rate, as a share of the peak.")
    clip: float = setting(1.0, "Clip the global gradient norm at this value (0: no clipping).")
    ema: float = setting(
        0.0, "Decay of an exponential moving average of the weights, which becomes the model (0: no averaging)."
    )
    sampled_softmax: float = setting(0.0, "The share of the budget, at its beginning, that uses a sampled softmax.")
    sampled_head: int = setting(800, "Sampled softmax: how many of the most frequent tokens every step scores.")
    sampled_tail: int = setting(500, "Sampled softmax: about how many of the other tokens each step draws.")
    evaluations: int = setting(10, "How many evaluations during training; the best weights become the model.")
    evaluation_tokens: int = setting(65536, "The most validation tokens used in each evaluation but the last.")
    final_tokens: int | None = setting(None, "Validation tokens used in the last evaluation; default: all.")
    patience: int | None = setting(
        None, "Stop early after so many evaluations that found nothing better; default: never."
    )
    checkpoint_seconds: float = setting(60.0, "Seconds between checkpoints.")
    lora: bool = setting(
        False, "With --from: learn low-rank updates of the matrices (LoRA) instead of all weights.", flag=True
    )
    lora_rank: int = setting(16, "The rank of LoRA's updates.")
    lora_alpha: float | None = setting(None, "LoRA's updates are scaled by alpha / rank; default: twice the rank.")
    lora_matrices: tuple[str, ...] = setting(
        MATRICES, "Which matrices LoRA updates: {names}; default: all.", names=lambda: MATRICES
    )
    lora_dropout: float = setting(0.0, "The dropout of what LoRA's updates read.")
    top_layers: int | None = setting(
        None,
        "With --from: let only so many blocks learn, from the top; what the others make of a text is kept on disk.",
    )
    seed: int = setting(0, "The seed of the initial weights and of the order of the text.", flag=True)
    first_vectors: str = setting(
        "random", "How embeddings are initialised: random, or counted (from the neighbours of each word)."
    )
    engine: str = setting("torch", "What computes gradients: torch, or tape (Chainrule's own, on NumPy).", flag=True)
    precision: str = setting(
        "float32", "The precision of matrix products: float32 or bfloat16; with minutes, the faster one by default."
    )
    minutes: float | None = setting(
        None, "Time limit in minutes, everything included; chooses size and settings to fit.", flag=True
    )
    steps: int | None = setting(None, "Train for this many updates.", flag=True)
    tokens: float | None = setting(None, "Train on this many tokens, such as 10M.", flag=True, metavar="N")
    epochs: float | None = setting(None, "Train for this many passes over the text.", flag=True)

    def __post_init__(self) -> None:
        require_choice("optimizer", self.optimizer, OPTIMIZERS)
        require_choice("first_vectors", self.first_vectors, FIRST_VECTORS)
        require_choice("precision", self.precision, PRECISIONS)
        require_sizes(self, "batch_size", "workers", "micro_batches", "window", "chain", "evaluations", "muon_rounds")
        require_sizes(self, "sampled_head", "sampled_tail")
        require_sizes(self, "evaluation_tokens", "final_tokens", "top_layers", "patience")
        require_fractions(self, "momentum", "beta1", "beta2", "ema", "lora_dropout")
        require_whole("lora_rank", self.lora_rank, 1)
        for name in self.lora_matrices:
            require_choice("lora_matrices", name, MATRICES)
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
            raise UserError(f"give only one of {', '.join(BUDGETS)}, got {' and '.join(given)}")
        self.rate_schedule  # noqa: B018  checks the schedule

    @property
    def rate_schedule(self) -> Schedule:
        return Schedule(self.schedule, self.warmup, self.cooldown, self.final_rate)
