"""The decoder-only Transformer, from Vaswani's to GPT-2's and Llama's, and a profile that learns fast on a CPU.

x = e(w) (+ position); L times: x + attention(norm(x)), x + feedforward(norm(x)); logits = W norm(x).
"""

import math
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.checks import require_choice, require_fractions, require_sizes
from chainrule.errors import UserError
from chainrule.layers import positions
from chainrule.layers.attention import Attention, Positions
from chainrule.layers.block import Block
from chainrule.layers.block_step import BlockSteps, is_for_kernels
from chainrule.layers.cache import KeyValues
from chainrule.layers.embedding import HashedNgrams
from chainrule.layers.feedforward import ACTIVATIONS, FeedForward
from chainrule.layers.linear import Linear, linear
from chainrule.layers.norm import KINDS, make_norm
from chainrule.models._budgets import TRANSFORMER, rung
from chainrule.models._neural import NeuralModel
from chainrule.models._presets import PUBLISHED
from chainrule.models.contract import Array, State

CHOICES = {
    "norm": KINDS,
    "norm_placement": ("pre", "post"),
    "activation": tuple(ACTIVATIONS),
    "positions": positions.KINDS,
    "position_join": ("add", "concatenate"),
    "attention_bias": ("as-bias", "queries", "all"),
    "initialisation": ("normal", "zero"),
}


@dataclass(frozen=True)
class Config:
    width: int = 256
    num_layers: int = 6
    num_heads: int = 4
    num_key_value_heads: int | None = None  # fewer: several query heads share their keys and values
    head_width: int | None = None  # width / num_heads unless told otherwise
    hidden_width: int | None = None  # of the feed-forward part: 4 x width, or 8/3 for swiglu
    context_length: int = 256
    norm: str = "rms"
    norm_placement: str = "pre"
    norm_epsilon: float = 1e-5
    activation: str = "relu-squared"
    positions: str = "rotary"
    position_join: str = "add"
    rotary_base: float = 10000.0
    rotary_fraction: float = 1.0  # the part of a head's width that is turned
    tied: bool = False  # the output matrix is the embedding
    bias: bool = False
    attention_bias: str = "as-bias"  # queries: of queries, keys and values alone (Qwen2); all: of attention alone
    parallel: bool = False  # attention and feed-forward read the same x, side by side (GPT-J, GPT-NeoX)
    qk_norm: bool = False
    logit_cap: float = 0.0  # cap * tanh(logits / cap); 0: none
    dropout: float = 0.0  # of what enters the residual stream
    attention_dropout: float = 0.0  # of attention's weights, which is slow on a CPU
    initialisation: str = "zero"  # of the projections into the residual stream; normal: as GPT-2
    ngram_order: int = 0  # hashed embeddings of 2-grams up to this; 0: none
    ngram_rows: int = 4096  # for each order; a power of two
    ngram_dropout: float = 0.0
    embedding_norm: bool = False
    output_bias: bool = False  # starts as the log of each word's frequency

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            require_choice(name, getattr(self, name), known)
        require_sizes(self, "width", "num_layers", "num_heads", "context_length")
        require_sizes(self, "num_key_value_heads", "head_width", "hidden_width")
        require_fractions(self, "dropout", "attention_dropout", "ngram_dropout")
        for name in ("norm_epsilon", "rotary_base", "logit_cap"):
            value, is_zero_fine = getattr(self, name), name != "rotary_base"
            if not (0 < value < math.inf or (is_zero_fine and value == 0)):
                raise UserError(f"{name} must be a number {'of at least' if is_zero_fine else 'above'} 0, got {value}")
        if self.head_width is None and self.width % self.num_heads:
            raise UserError(f"width must be a multiple of num_heads, got {self.width} and {self.num_heads}")
        if self.num_heads % self.key_value_heads:
            raise UserError(
                f"num_heads must be a multiple of num_key_value_heads, got {self.num_heads} and {self.key_value_heads}"
            )
        if not 0 < self.rotary_fraction <= 1:
            raise UserError(f"rotary_fraction must be above 0 and at most 1, got {self.rotary_fraction}")
        if self.positions == "rotary" and (self.width_of_rotation % 2 or not self.width_of_rotation):
            raise UserError(f"rotary positions need an even head width, got {self.width_of_rotation}")
        if self.parallel and self.norm_placement == "post":
            raise UserError("attention and feed-forward side by side need norm_placement=pre")
        if self.is_concatenated and self.tied:
            raise UserError("concatenated positions leave the embedding narrower than the output; set tied=false")
        if self.is_concatenated and self.width < 2:
            raise UserError("concatenated positions need a width of at least 2, got 1")
        if self.ngram_order < 0 or self.ngram_order == 1:
            raise UserError(f"ngram_order must be 0 or at least 2, got {self.ngram_order}")
        if self.ngram_order and (self.ngram_rows < 1 or self.ngram_rows & (self.ngram_rows - 1)):
            raise UserError(f"ngram_rows must be a power of two, got {self.ngram_rows}")

    @property
    def key_value_heads(self) -> int:
        return self.num_key_value_heads or self.num_heads

    @property
    def width_of_head(self) -> int:
        return self.head_width or self.width // self.num_heads

    @property
    def width_of_rotation(self) -> int:
        """Of a head, what is turned; the rest stays as it is."""
        return int(self.width_of_head * self.rotary_fraction)

    @property
    def has_query_bias(self) -> bool:
        return self.bias or self.attention_bias != "as-bias"

    @property
    def has_attention_output_bias(self) -> bool:
        return self.bias or self.attention_bias == "all"

    @property
    def width_of_feedforward(self) -> int:
        if self.hidden_width:
            return self.hidden_width
        return -(-8 * self.width // 24) * 8 if self.activation == "swiglu" else 4 * self.width

    @property
    def is_concatenated(self) -> bool:
        return self.positions in positions.AT_INPUT and self.position_join == "concatenate"

    @property
    def width_of_positions(self) -> int:
        """Of the vector at the input: a quarter of the width where it is concatenated."""
        return max(self.width // 4, 1) if self.is_concatenated else self.width


GPT2 = partial(
    Config, norm="layer", activation="gelu-tanh", positions="learned", tied=True, bias=True, initialisation="normal"
)
LLAMA = partial(Config, norm="rms", activation="swiglu", positions="rotary", initialisation="normal")
FAST = partial(Config, rotary_base=1000.0, qk_norm=True, embedding_norm=True)

SIZES = {
    "tiny": FAST(width=32, num_layers=2, num_heads=2, context_length=512, ngram_order=2, ngram_rows=64),
    "small": FAST(width=128, num_layers=4, num_heads=4, context_length=128, ngram_order=3),
    "medium": FAST(width=256, num_layers=6, num_heads=4, context_length=256, ngram_order=3),
    "large": FAST(width=512, num_layers=8, num_heads=8, context_length=512, ngram_order=3),
    "gpt2-tiny": GPT2(width=64, num_layers=2, num_heads=4, context_length=128),
    "llama-tiny": LLAMA(width=64, num_layers=2, num_heads=4, num_key_value_heads=2, context_length=128),
    **{name: Config(**preset.settings) for name, preset in PUBLISHED.items()},
}
DEFAULT_SIZE = "small"
DEFAULT_TOKENIZER = "bpe"


class Model(NeuralModel):
    config: Config

    def __init__(self, config: Config, vocabulary_size: int, eos: int):
        super().__init__(config, vocabulary_size, eos)
        self.context_length = config.context_length
        token_width = config.width - config.width_of_positions if config.is_concatenated else config.width
        self.embedding = nn.Embedding(vocabulary_size, token_width)
        if config.ngram_order:
            self.ngrams = HashedNgrams(config.ngram_order, config.ngram_rows, token_width, config.ngram_dropout)
        if config.positions == "learned":
            self.positions = positions.LearnedPositions(config.context_length, config.width_of_positions)
        if config.positions in positions.BY_DISTANCE:
            self.distance_bias = positions.DistanceBias(config.positions, config.num_heads)
        self.dropout = nn.Dropout(config.dropout) if config.dropout else nn.Identity()
        self.blocks = nn.ModuleList(self._block(config) for _ in range(config.num_layers))
        self.norm = self._norm() if config.norm_placement == "pre" else nn.Identity()
        if not config.tied:
            self.unembedding = Linear(config.width, vocabulary_size, bias=False)
        if config.output_bias:
            self.output_bias = nn.Parameter(torch.zeros(vocabulary_size))
        self._steps: BlockSteps | None = None
        self._initialise()

    def _norm(self) -> nn.Module:
        config = self.config
        return make_norm(config.norm, config.width, config.norm_epsilon, config.bias)

    def _block(self, config: Config) -> Block:
        attention = Attention(
            config.width,
            config.num_heads,
            config.key_value_heads,
            config.width_of_head,
            (config.has_query_bias, config.has_attention_output_bias),
            config.qk_norm,
            config.attention_dropout,
            config.norm_epsilon,
        )
        feedforward = FeedForward(config.width, config.width_of_feedforward, config.activation, config.bias)
        norms = (self._norm(), self._norm())
        return Block(attention, feedforward, norms, config.norm_placement == "pre", config.dropout, config.parallel)

    def _initialise(self) -> None:
        """normal: 0.02, and less into the residual stream the deeper it is (GPT-2); zero: blocks start as nothing."""
        is_normal = self.config.initialisation == "normal"
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02 if is_normal else module.in_features**-0.5)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.embedding.weight, std=0.02 if is_normal or self.config.tied else 1.0)
        for block in self.modules():
            if not isinstance(block, Block):
                continue
            for projection in (block.attention.output, block.feedforward.output):
                if is_normal:
                    nn.init.normal_(projection.weight, std=0.02 / (2 * self.config.num_layers) ** 0.5)
                else:
                    nn.init.zeros_(projection.weight)
        if not self.config.tied and not is_normal:
            nn.init.zeros_(self.unembedding.weight)

    def start(self, batch_size: int, condition: object = None) -> State:
        config = self.config
        like = self.embedding.weight.new_empty(config.width_of_head)
        state: State = {
            "cache": KeyValues.start(
                config.num_layers, batch_size, config.key_value_heads, like, limit=config.context_length
            )
        }
        if config.ngram_order:
            state["recent"] = self.ngrams.start(batch_size)
        return state

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State | None]:
        before: KeyValues | None = None if state is None else state["cache"]
        time, read = tokens.shape[1], before.longest if before else 0
        if read + time > self.config.context_length:
            raise UserError(
                f"the text has {read + time} tokens but this model reads {self.config.context_length}; "
                "shorten it, or read it in windows"
            )
        first = before.first if before else 0
        x, recent = self._embed(tokens, first, state)
        places = self._positions(first, time)
        cache = before.extend(time) if before else None
        after = None if state is None else {"cache": cache} | ({"recent": recent} if recent is not None else {})
        if cache and self.config.positions not in positions.BY_DISTANCE and is_for_kernels(x, self.blocks):
            steps = self._block_steps()
            if steps.can_read:
                return steps.read(x, places.rotation, cache), after
        for index, block in enumerate(self.blocks):
            x = block(x, places, partial(cache.write, index) if cache else None)
        return self.norm(x), after

    def rewind(self, state: State, before: State, tokens: Array) -> State:
        """The state after these tokens, (batch, time), where `state` has read them and more since `before`."""
        more = state["cache"].longest - before["cache"].longest - tokens.shape[1]
        rewound: State = {"cache": state["cache"].shorten(more)}
        if self.config.ngram_order:
            read = torch.cat([before["recent"], torch.as_tensor(tokens, device=self.device)], 1)
            rewound["recent"] = read[:, -before["recent"].shape[1] :]
        return rewound

    def _block_steps(self) -> BlockSteps:
        steps = self._steps  # another thread may put its own there
        if steps is None or not steps.is_current:
            self._steps = steps = BlockSteps(self.blocks, self.norm)
        return steps

    def _embed(self, tokens: Tensor, first: positions.First, state: State | None) -> tuple[Tensor, Tensor | None]:
        config = self.config
        x, recent = self.embedding(tokens), None
        if config.ngram_order:
            before = self.ngrams.start(tokens.shape[0]) if state is None else state["recent"]
            vectors, recent = self.ngrams(tokens, before)
            x = x + vectors
        if config.positions in positions.AT_INPUT:
            time, width = tokens.shape[1], config.width_of_positions
            place = (
                self.positions(first, time)
                if config.positions == "learned"
                else positions.sinusoids(first, time, width, x.device)
            )
            x = torch.cat([x, place.expand(x.shape[0], -1, -1)], -1) if config.is_concatenated else x + place
        if config.embedding_norm:
            x = F.rms_norm(x, (config.width,))
        return self.dropout(x), recent

    def _positions(self, first: positions.First, time: int) -> Positions:
        config, device, dtype = self.config, self.device, self.embedding.weight.dtype
        hidden = None if isinstance(first, int) else positions.hidden_future(first, time, dtype)
        if config.positions == "rotary":
            turn = positions.rotations(first, time, config.width_of_rotation, config.rotary_base, device, dtype)
            return Positions(turn, hidden)
        if config.positions in positions.BY_DISTANCE:
            return Positions(bias=self.distance_bias(first, time, device))
        return Positions(bias=hidden)

    def output_layer(self) -> tuple[Tensor, Tensor | None] | None:
        return None if self.config.logit_cap else self._output_layer()

    def _output_layer(self) -> tuple[Tensor, Tensor | None]:
        weight = self.embedding.weight if self.config.tied else self.unembedding.weight
        return weight, self.output_bias if self.config.output_bias else None

    def matrices(self) -> list[Tensor]:
        return [*super().matrices(), self._output_layer()[0]]  # where logits are capped too

    def output(self, hidden: Tensor) -> Tensor:
        logits = linear(hidden, *self._output_layer())
        cap = self.config.logit_cap
        return cap * torch.tanh(logits / cap) if cap else logits


WIDTH_OF_HEAD = 32


def for_budget(seconds: float, tokens: int, vocabulary_size: int) -> tuple[Config, dict[str, object], list[str]]:
    """The fast profile at a size that suits the time and the text, with the settings of training that go with it."""
    shape, changes = rung(TRANSFORMER, seconds, tokens)
    order = 6 if vocabulary_size <= 512 else 4 if vocabulary_size <= 8192 else 3
    rows = 1 << min(max(round(math.log2(max(tokens, 1) / 64)), 10), 18)
    is_large = vocabulary_size > 4096
    config = FAST(
        **shape,
        num_heads=shape["width"] // WIDTH_OF_HEAD,
        ngram_order=order,
        ngram_rows=rows,
        output_bias=is_large,
    )
    recipe = {
        "window": config.context_length,
        "learning_rate": 0.015,
        "table_learning_rate": 0.2,
        "muon_rounds": 3,
        "schedule": "trapezoidal",
        "cooldown": 0.9,
        "clip": 0.0,
        "sampled_softmax": 0.8 if is_large else 0.0,
        **changes,
    }
    layers = f"{config.num_layers} layer{'s' if config.num_layers > 1 else ''}"
    why = [
        f"{layers} of width {config.width}, context {config.context_length}, embeddings of up to {order} tokens: "
        f"for {seconds:,.0f} seconds of two laptop cores and {tokens:,} tokens"
    ]
    return config, recipe, why
