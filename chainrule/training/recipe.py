"""How a model learns: the settings of the training loop, beside those of the model itself."""

from dataclasses import dataclass

from chainrule.checks import require_choice, require_fractions, require_number, require_sizes, require_whole
from chainrule.errors import UserError
from chainrule.training.schedule import Schedule

OPTIMIZERS = ("sgd", "momentum", "adamw", "muon")
PRECISIONS = ("float32", "bfloat16")
FIRST_VECTORS = ("random", "counted")
BUDGETS = ("minutes", "steps", "tokens", "epochs")


@dataclass(frozen=True)
class Recipe:
    optimizer: str = "muon"
    learning_rate: float = 0.01  # muon: of what is not a hidden matrix
    matrix_learning_rate: float | None = None  # of hidden matrices; None: with muon 0.02, else the learning rate
    table_learning_rate: float = 0.1  # of hashed n-gram embeddings, by Adagrad
    momentum: float = 0.95
    muon_rounds: int = 5
    beta1: float = 0.9
    beta2: float = 0.95
    weight_decay: float = 0.0
    batch_size: int = 16  # windows in one update
    workers: int = 1  # processes that each read their part of a batch, at the same time
    micro_batches: int = 1  # pieces a batch is cut into where memory is short; the gradient is the same
    window: int = 128  # tokens in one
    chain: int = 1  # windows a recurrent model reads in a row with its state kept
    schedule: str = "linear"
    warmup: float = 0.0
    cooldown: float = 0.4
    final_rate: float = 0.0
    clip: float = 1.0  # the largest global gradient norm; 0: no limit
    ema: float = 0.0  # decay of the moving average of the weights that is the result; 0: the weights themselves
    sampled_softmax: float = 0.0  # the first part of the budget in which only a sample of the vocabulary is scored
    evaluations: int = 10  # over the whole budget; the best one is the result
    evaluation_tokens: int = 65536  # of the validation text, at the most, each time before the end
    final_tokens: int | None = None  # and at the end; None: all
    checkpoint_seconds: float = 60.0  # the longest time that a kill can cost
    seed: int = 0
    first_vectors: str = "random"  # or counted: embeddings begin at what words' neighbours tell about them
    engine: str = "torch"  # or tape: gradients by our own engine, on NumPy
    precision: str = "float32"  # or bfloat16 for matrix products, where the processor has instructions for it
    minutes: float | None = None
    steps: int | None = None
    tokens: float | None = None
    epochs: float | None = None

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
        self.shape  # noqa: B018  checks the schedule

    @property
    def shape(self) -> Schedule:
        return Schedule(self.schedule, self.warmup, self.cooldown, self.final_rate)
