"""From a bag of words to a Transformer block, one switch for each step.

A bag weighs its words 1/i each, attention by softmax(q·k/√d); then come positions, several heads, GELU in place of
tanh, residual connections and LayerNorm. With every switch off this is models/bow.py, with every switch on a block:

z = LN([SelfAttn¹; SelfAttn²; ...] + xᵢ), h = LN(W'' GELU(W' z + b') + b'' + z), p(xᵢ₊₁ | x₁ ... xᵢ) = softmax(Wᵛ h)
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.checks import require_choice, require_fractions, require_sizes
from chainrule.errors import UserError
from chainrule.layers.cache import KeyValues
from chainrule.layers.linear import Linear, linear
from chainrule.layers.positions import First, LearnedPositions, distances, end, sinusoids
from chainrule.layers.roles import Role, declare
from chainrule.models._budgets import ATTENTION, Settings, fit_budget
from chainrule.models._neural import NeuralModel
from chainrule.models._unembedding import Unembedding
from chainrule.models.contract import State
from chainrule.models.explanation import Positions, TokenText

CHOICES = {
    "weights": ("uniform", "softmax"),
    "positions": ("none", "learned", "sinusoidal"),
    "activation": ("tanh", "gelu"),
}


@dataclass(frozen=True)
class Config:
    width: int = 128  # of the vector of a word
    hidden_width: int = 512
    context_length: int = 128
    weights: str = "softmax"  # of the words so far: uniform (1/i) or softmax (of q·k/√d)
    positions: str = "learned"  # added to the vectors of words: none, learned or sinusoidal
    num_heads: int = 4  # of width / num_heads each; heads of uniform weights are all the same one
    activation: str = "gelu"  # of the feed-forward network: tanh or gelu
    has_residuals: bool = True
    has_layer_norm: bool = True
    tied: bool = False  # whether Wᵛ is the vectors of the words
    output_bias: bool = False  # beside Wᵛ; starts as the log of each word's frequency
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_sizes(self, "width", "hidden_width", "context_length", "num_heads")
        require_fractions(self, "dropout")
        for name, known in CHOICES.items():
            require_choice(name, getattr(self, name), known)
        if self.width % self.num_heads:
            raise UserError(f"width must be a multiple of num_heads ({self.num_heads}), got {self.width}")
        if self.tied and not self.is_block and self.hidden_width != self.width:
            raise UserError(
                f"hidden_width must be the width, {self.width}, where the output is tied without residual connections "
                f"and norms, got {self.hidden_width}; set tied=false"
            )

    @property
    def is_block(self) -> bool:
        """Residuals and norms need vectors that keep their width: W'' leads back to it, and Wᵛ makes the logits."""
        return self.has_residuals or self.has_layer_norm


SIZES = {
    "tiny": Config(width=32, hidden_width=64, context_length=64, num_heads=2),
    "small": Config(),
    "medium": Config(width=256, hidden_width=1024, context_length=256),
    "large": Config(width=512, hidden_width=2048, context_length=512, num_heads=8, dropout=0.1),
}
DEFAULT_SIZE = "small"
DEFAULT_TOKENIZER = "bpe"

EMBEDDING_STD = 0.1  # at the start; at torch's 1.0 the same steps learn less
TIED_STD = 0.03  # of vectors that are the output's weights, too: the norm before it is long, and rare words learn late


class Model(NeuralModel):
    """Its state is the keys and values of the words read so far."""

    config: Config

    def __init__(self, config: Config, vocabulary_size: int, eos: int):
        super().__init__(config, vocabulary_size, eos)
        self.context_length = config.context_length
        width, hidden_width = config.width, config.hidden_width
        self.embedding = declare(Role.TOKEN_TABLE, nn.Embedding(vocabulary_size, width))  # φ
        if config.positions == "learned":
            self.positions = LearnedPositions(config.context_length, width)
        if config.weights == "softmax":
            self.query_key_value = Linear(width, 3 * width, bias=False)
        self.hidden = Linear(width, hidden_width)  # W' and b'
        if config.is_block:
            self.back = Linear(hidden_width, width)  # W'' and b''
        has_bias = config.output_bias or not config.is_block
        read = width if config.is_block else hidden_width
        self.unembedding = Unembedding(read, vocabulary_size, config.tied, has_bias)  # Wᵛ, or W'' and b''
        if config.has_layer_norm:
            self.attention_norm, self.feedforward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(config.dropout)
        nn.init.normal_(self.embedding.weight, std=TIED_STD if config.tied else EMBEDDING_STD)

    def matrix_parts(self, name: str) -> int:
        return 3 if name == "query_key_value.weight" else 1

    def hidden_layer(self) -> tuple[nn.Linear, str]:
        return self.hidden, "relu" if self.config.activation == "gelu" else "tanh"

    def start(self, batch_size: int, condition: object = None) -> State:
        heads = self.config.num_heads
        return KeyValues.start(1, batch_size, heads, self.embedding.weight.new_empty(self.config.width // heads))

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State | None]:
        first = 0 if state is None else state.first
        x = self.dropout(self._embed(tokens, first))  # (batch, time, width)
        query, key, value = self._project(x)
        after = None if state is None else state.extend(tokens.shape[1])
        if after is not None:
            key, value = after.write(0, key, value)
        attended = _attend(query, key, value, first).transpose(1, 2).flatten(2)  # (batch, time, width)
        return self._feed_forward(attended, x), after

    def output_layer(self) -> tuple[Tensor, Tensor | None]:
        return self.unembedding.layer(self.embedding.weight)

    def output(self, hidden: Tensor) -> Tensor:
        return linear(hidden, *self.output_layer())

    @torch.no_grad()
    def look_inside(self, ids: np.ndarray, token: int, token_text: TokenText) -> Positions:
        """The weight of every word before for each head, as seen from the latest."""
        tokens = torch.from_numpy(np.asarray(ids, np.int64))[None]
        query, key, _ = (each[0] for each in self._project(self._embed(tokens, 0)))  # (heads, time, head_width)
        scores = query[:, -1:] @ key.transpose(1, 2) / query.shape[-1] ** 0.5  # (heads, 1, time)
        hidden, _ = self.read(tokens, None)
        logit = float(self.output(hidden[0, -1])[token])
        return Positions(scores.softmax(-1)[:, 0].tolist(), None, None, logit)

    def _embed(self, tokens: Tensor, first: First) -> Tensor:
        """The vectors of words that stand at `first` and after it."""
        x: Tensor = self.embedding(tokens)
        count = tokens.shape[1]
        if self.config.positions == "learned":
            if end(first, count) > self.config.context_length:
                reads = self.config.context_length
                raise UserError(f"the text has {end(first, count)} tokens but this model reads {reads}; shorten it")
            x = x + self.positions(first, count)
        elif self.config.positions == "sinusoidal":
            x = x + sinusoids(first, count, self.config.width, tokens.device).to(x.dtype)
        return x

    def _project(self, x: Tensor) -> list[Tensor]:
        """Queries, keys and values, each (batch, heads, time, head_width)."""
        if self.config.weights == "softmax":
            parts = self.query_key_value(x).chunk(3, -1)
        else:
            nothing = torch.zeros_like(x)  # all scores are equal, so that every word weighs 1/i
            parts = nothing, nothing, x
        return [part.unflatten(-1, (self.config.num_heads, -1)).transpose(1, 2) for part in parts]

    def _feed_forward(self, attended: Tensor, x: Tensor) -> Tensor:
        z = attended + x if self.config.has_residuals else attended
        z = self.attention_norm(z) if self.config.has_layer_norm else z
        activation = F.gelu if self.config.activation == "gelu" else torch.tanh
        h: Tensor = self.dropout(activation(self.hidden(z)))  # (batch, time, hidden_width)
        h = self.back(h) if self.config.is_block else h
        h = h + z if self.config.has_residuals else h
        return self.feedforward_norm(h) if self.config.has_layer_norm else h


def _attend(query: Tensor, keys: Tensor, values: Tensor, first: First) -> Tensor:
    """softmax(q·k/√d) v, in which the query at `first` sees the keys up to its own, the next one more, and so on."""
    time = query.shape[2]
    if keys.shape[2] == time:
        return F.scaled_dot_product_attention(query, keys, values, is_causal=True)
    is_past = (distances(first, time, query.device) >= 0).unsqueeze(-3)  # ((batch,) 1, time, keys)
    return F.scaled_dot_product_attention(query, keys, values, attn_mask=is_past)


def for_budget(seconds: float, tokens: int, vocabulary_size: int) -> tuple[Config, Settings, list[str]]:
    return fit_budget(Config(), ATTENTION, seconds, tokens, vocabulary_size)
