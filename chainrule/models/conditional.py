"""One text from another: p(y | x) = Π p(y_t | y_<t, x). An encoder reads the source x, a decoder writes the target y.

They are joined by one context vector (the encoder's last state starts the decoder; Sutskever et al., 2014), by additive
or dot-product attention, or by the cross-attention of Transformers. The condition is
{"source": (batch, places), "lengths": (batch,)}.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.checks import require_choice, require_fractions, require_number, require_sizes, require_whole
from chainrule.errors import UserError
from chainrule.layers.activation import ACTIVATIONS
from chainrule.layers.block import Block
from chainrule.layers.block_config import POSITIONS, BlockConfig
from chainrule.layers.cells import CELLS
from chainrule.layers.decoders import RecurrentDecoder, TransformerDecoder
from chainrule.layers.encoders import DIRECTIONS, RecurrentEncoder, TransformerEncoder
from chainrule.layers.norm import KINDS as NORMS
from chainrule.layers.roles import Role, declare
from chainrule.layers.softmax import Candidates, linear_cross_entropy
from chainrule.models._neural import LARGE_VOCABULARY, NeuralModel
from chainrule.models.contract import IGNORE, Array, Batch, Loss, State, check_ids

TASK = "translation"  # what it learns, for people who give it plain text
KINDS = (*CELLS, "transformer")
Source = Mapping[str, Array]  # {"source": ids (batch, places), "lengths": (batch,)}
CONTEXT_VECTOR, THOUGHT = "context-vector", "thought"  # the second is an old spelling of the first
JOINS = (CONTEXT_VECTOR, "additive", "dot", "cross")
CHOICES = {
    "activation": tuple(ACTIVATIONS),
    "norm": NORMS,
    "norm_placement": ("pre", "post"),
    "positions": POSITIONS,
    "embedding_scale": ("unit", "root", "none"),
}


@dataclass(frozen=True)
class Config:
    encoder: str = "transformer"  # or elman, ugrnn, gru, lstm
    decoder: str = "transformer"  # the same kinds
    join: str = "cross"  # of a Transformer that writes; of a recurrent decoder: context-vector, additive or dot
    direction: str = "both"  # in which a recurrent encoder reads: ahead, back (right to left) or both
    width: int = 256
    encoder_layers: int = 3
    decoder_layers: int = 3
    num_heads: int = 4
    hidden_width: int | None = None  # of the feed-forward parts; None: 2 x width
    activation: str = "relu-squared"
    norm: str = "rms"  # or layer
    norm_placement: str = "pre"  # or post, as the original Transformer
    qk_norm: bool = True
    bias: bool = False  # of the matrices and norms of a Transformer
    positions: str = "rotary"  # or sinusoidal
    embedding_scale: str = "unit"  # the vector of a word is made as long as √width; or root: times √width; or none
    residual: bool = False  # whether each recurrent layer after the first adds to what it reads
    dropout: float = 0.1
    tied: bool = True  # the output matrix is the embedding of the target
    longest: int = 256  # the most tokens of a source that are read
    teacher_forcing: float = 1.0  # how often, while learning, the decoder reads the true word and not its own guess
    label_smoothing: float = 0.0  # the part of the probability that should go to all words alike
    source_vocabulary_size: int | None = None  # None: source and target share one vocabulary, and its embeddings
    begin: int | None = None  # the token read before the first word of a target, where that is not <eos>

    def __post_init__(self) -> None:
        require_choice("encoder", self.encoder, KINDS)
        require_choice("decoder", self.decoder, KINDS)
        if self.join == THOUGHT:
            object.__setattr__(self, "join", CONTEXT_VECTOR)
        require_choice("join", self.join, JOINS)
        require_choice("direction", self.direction, DIRECTIONS)
        for name, known in CHOICES.items():
            require_choice(name, getattr(self, name), known)
        require_sizes(self, "width", "encoder_layers", "decoder_layers", "num_heads", "hidden_width", "longest")
        require_sizes(self, "source_vocabulary_size")
        require_fractions(self, "dropout", "label_smoothing")
        require_number("teacher_forcing", self.teacher_forcing, 0, 1)
        if (self.decoder == "transformer") != (self.join == "cross"):
            raise UserError(
                f"a {self.decoder} decoder cannot have the join '{self.join}'; a transformer has cross, "
                "the others have context-vector, additive or dot"
            )
        if "transformer" in (self.encoder, self.decoder) and self.width % (2 * self.num_heads):
            raise UserError(f"width must be an even multiple of num_heads, got {self.width} and {self.num_heads}")
        if self.direction == "both" and self.width % 2:
            raise UserError(f"width must be even where both directions are read, got {self.width}")

    @property
    def width_of_feedforward(self) -> int:
        return self.hidden_width or 2 * self.width


_recurrent = partial(Config, encoder="gru", decoder="gru", encoder_layers=1)

SIZES = {
    "tiny": Config(width=32, encoder_layers=1, decoder_layers=2, num_heads=2),
    "small": Config(width=256, encoder_layers=3, decoder_layers=3),
    "medium": Config(width=512, encoder_layers=6, decoder_layers=6, num_heads=8),
    CONTEXT_VECTOR: _recurrent(join=CONTEXT_VECTOR, direction="back", decoder_layers=1),
    "additive": _recurrent(join="additive", decoder_layers=2),
    "dot": _recurrent(join="dot", decoder_layers=2),
}
SIZES[THOUGHT] = SIZES[CONTEXT_VECTOR]
DEFAULT_SIZE = "small"
DEFAULT_TOKENIZER = "bpe"


class Model(NeuralModel):
    config: Config

    def __init__(self, config: Config, vocabulary_size: int, eos: int):
        super().__init__(config, vocabulary_size, eos)
        if config.begin is not None:
            require_whole("begin", config.begin, 0, vocabulary_size - 1)
        self.embedding = declare(Role.TOKEN_TABLE, nn.Embedding(vocabulary_size, config.width))
        if config.source_vocabulary_size is not None:
            table = nn.Embedding(config.source_vocabulary_size, config.width)
            self.source_embedding = declare(Role.TOKEN_TABLE, table)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = self._make_encoder(config)
        self.decoder = self._make_decoder(config)
        if not config.tied:
            self.unembedding = declare(Role.OUTPUT, nn.Linear(config.width, vocabulary_size, bias=False))
        self.output_bias = declare(Role.OUTPUT_BIAS, nn.Parameter(torch.zeros(vocabulary_size)))
        self._initialise()

    def _make_encoder(self, config: Config) -> RecurrentEncoder | TransformerEncoder:
        if config.encoder == "transformer":
            return TransformerEncoder(self._blocks(config), config.encoder_layers)
        return RecurrentEncoder(
            config.encoder, config.width, config.encoder_layers, config.direction, config.residual, config.dropout
        )

    def _make_decoder(self, config: Config) -> RecurrentDecoder | TransformerDecoder:
        if config.decoder == "transformer":
            return TransformerDecoder(self._blocks(config), config.decoder_layers)
        return RecurrentDecoder(
            config.decoder, config.width, config.decoder_layers, config.join, config.residual, config.dropout
        )

    def _blocks(self, config: Config) -> BlockConfig:
        return BlockConfig(
            config.width, config.num_heads, config.width_of_feedforward, config.activation, config.dropout,
            config.norm, config.norm_placement, config.qk_norm, config.bias, config.positions,
        )  # fmt: skip

    def _initialise(self) -> None:
        """Matrices keep the length of what they are given; blocks of a Transformer first add nothing."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=module.in_features**-0.5)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)  # tied, a longer one would foretell itself
        for block in self.modules():
            if isinstance(block, Block):
                cross = getattr(block, "cross_attention", None)
                for part in (block.attention, block.feedforward, *([cross] if cross is not None else [])):
                    nn.init.zeros_(part.output.weight)
        if not self.config.tied:
            nn.init.zeros_(self.unembedding.weight)

    def matrix_parts(self, name: str) -> int:
        """Cells stack the matrices of their gates; attention those of queries, keys and values."""
        if ".cells." in name:
            kind = self.config.encoder if name.startswith("encoder.") else self.config.decoder
            return CELLS[kind].gates
        return 3 if name.endswith("query_key_value.weight") else 2 if name.endswith("key_value.weight") else 1

    def start(self, batch_size: int, condition: Source | None = None) -> State:
        if condition is None:
            raise UserError("this model writes one text from another, so it needs a source to start from")
        return self._begin(condition, is_continued=True)

    def _begin(self, condition: Source, is_continued: bool) -> State:
        return self.begin_from(*self.source_vectors(condition), is_continued)

    @property
    def source_table(self) -> nn.Embedding:
        return self.embedding if self.config.source_vocabulary_size is None else self.source_embedding

    def source_vectors(self, condition: Source) -> tuple[Tensor, Tensor]:
        """The vectors of the source's words, (batch, places, width), and how many each row has."""
        source = torch.as_tensor(condition["source"]).long().to(self.device)
        lengths = torch.as_tensor(condition["lengths"]).long().to(self.device)
        if source.shape[1] > self.config.longest:
            raise UserError(
                f"the source has {source.shape[1]} tokens but this model reads {self.config.longest}; shorten it"
            )
        check_ids(np.array([int(bound) for bound in source.aminmax()]), self.source_table.num_embeddings)
        return self.source_table(source), lengths

    def begin_from(self, vectors: Tensor, lengths: Tensor, is_continued: bool) -> State:
        """The state after encoding vectors (batch, places, width); `is_continued`: `read` will be called repeatedly."""
        outputs, context = self.encoder(self._scaled(vectors), lengths)
        return self.decoder.start(outputs, lengths, context, is_continued)

    def _scaled(self, vectors: Tensor) -> Tensor:
        if self.config.embedding_scale == "unit":
            vectors = F.rms_norm(vectors, (self.config.width,))
        elif self.config.embedding_scale == "root":
            vectors = vectors * self.config.width**0.5
        x: Tensor = self.dropout(vectors)
        return x

    def _target_vectors(self, tokens: Tensor) -> Tensor:
        """Of the words that the decoder reads; <eos> is read before the first of them only."""
        if self.config.begin is not None:
            tokens = tokens.masked_fill(tokens == self.eos, self.config.begin)
        return self._scaled(self.embedding(tokens))

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        assert state is not None, "a decoder cannot read without a source"
        return self.decoder.read(self._target_vectors(tokens), state)

    def advance(
        self, batch: Batch, state: State | None, candidates: Candidates | None = None
    ) -> tuple[Loss, State | None]:
        """The loss of targets given their sources; `state` and `candidates` are for models of plain text."""
        inputs, targets = torch.as_tensor(batch.inputs).long(), torch.as_tensor(batch.targets).long()
        state = self._begin(batch.condition, is_continued=False)
        if self.training and self.config.teacher_forcing < 1:
            inputs = self._with_guesses(inputs, state)
        hidden, _ = self.read(inputs, state)
        asked = targets != IGNORE
        hidden, targets = hidden[asked], targets[asked]
        smoothing = self.config.label_smoothing if self.training else 0.0
        if self.vocabulary_size >= LARGE_VOCABULARY and torch.is_grad_enabled():
            total = linear_cross_entropy(hidden, targets, *self.output_layer(), smoothing)
        else:
            total = F.cross_entropy(self.output(hidden), targets, reduction="sum", label_smoothing=smoothing)
        return Loss(total, len(targets)), None

    @torch.no_grad()
    def _with_guesses(self, inputs: Tensor, state: State) -> Tensor:
        """Some of the words that the decoder reads are what it would have said itself, given the true words before."""
        hidden, _ = self.read(inputs, state)
        guesses = self.output(hidden).argmax(-1)
        is_guessed = torch.rand(inputs[:, 1:].shape) >= self.config.teacher_forcing
        return torch.cat([inputs[:, :1], torch.where(is_guessed, guesses[:, :-1], inputs[:, 1:])], 1)

    @torch.no_grad()
    def alignment(self, condition: Source, targets: Array) -> Tensor | None:
        """How much each target token looked at each place of its source, (batch, time, places).

        targets (batch, time) begin with what is read before the first word is said; None where there is no attention.
        """
        tokens = torch.as_tensor(targets).long().to(self.device)
        return self.decoder.alignment(self._target_vectors(tokens), self._begin(condition, is_continued=False))

    def output_layer(self) -> tuple[Tensor, Tensor]:
        return self.embedding.weight if self.config.tied else self.unembedding.weight, self.output_bias

    def output(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, *self.output_layer())


def recipe(config: Config) -> dict[str, object]:
    """The settings of training that go with it: batches of about 2,000 tokens on either side."""
    return {
        "batch_size": 64,
        "window": 32,
        "learning_rate": 0.005,
        "matrix_learning_rate": 0.02,
        "muon_rounds": 3,
        "schedule": "trapezoidal",
        "warmup": 0.02,
        "cooldown": 0.7,
        "weight_decay": 0.01,
    }


SHORT_SECONDS, FEW_TOKENS, FEWER_TOKENS = 1200.0, 200_000, 50_000


def for_budget(seconds: float, tokens: int, vocabulary_size: int) -> tuple[Config, dict[str, object], list[str]]:
    """A Transformer at a size that suits the time and the pairs; `tokens` are those of the targets."""
    is_small = seconds < SHORT_SECONDS or tokens < FEW_TOKENS
    config = Config(width=128, encoder_layers=2, decoder_layers=2, hidden_width=384, dropout=0.1, label_smoothing=0.1)
    if not is_small:
        config = Config(width=256, encoder_layers=3, decoder_layers=3, dropout=0.2, label_smoothing=0.1)
    size = f"an encoder and a decoder of {config.encoder_layers} layers, {config.width} wide"
    changes: dict[str, object] = {"batch_size": 16 if tokens < FEWER_TOKENS else 48}  # small data want more updates
    return config, changes, [f"{size}: for {seconds:,.0f} seconds and {tokens:,} tokens"]
