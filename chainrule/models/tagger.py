"""A tagger: every word is read with those around it, in both directions, and gets a tag.

    x_i = [φ(w_i); Σ ψ(part of w_i); Σ χ(case of w_i)]
    h_i = [ahead(x_1 … x_i); back(x_n … x_i)],   p(t_i) = softmax(W h_i + b)

φ is a vector per word, ψ one per beginning, ending and inner part, and χ one per shape, there and at the beginning of a
sentence, so that words never seen have vectors too.
Several columns of tags, such as UPOS and XPOS, are learned together: a W and b each, all else in common. There may be
several such taggers in one: each learns by itself, and what they say is averaged.
"""

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.checks import require_choice, require_fractions, require_sizes, require_whole
from chainrule.errors import UserError
from chainrule.layers.block_config import BlockConfig
from chainrule.layers.cells import CELLS
from chainrule.layers.encoders import TransformerEncoder
from chainrule.layers.recurrent import Recurrent
from chainrule.layers.roles import Role, declare
from chainrule.layers.softmax import Candidates
from chainrule.models._neural import NeuralModel
from chainrule.models.contract import IGNORE, Batch, Loss, State

TASK = "tagging"
TRANSFORMER = "transformer"
CASE_ROWS = 4096


@dataclass(frozen=True)
class Config:
    members: int = 1  # taggers in one
    encoder: str = "lstm"  # or another recurrent cell, or transformer
    num_layers: int = 1
    width: int = 200  # of each direction, or of the Transformer
    num_heads: int = 4  # of the Transformer
    word_width: int = 96
    spelling_width: int = 128
    spelling_rows: int = 32768  # of the table of parts of words
    case_width: int = 48
    directions: int = 2  # of a recurrent encoder; 1: from left to right alone
    input_dropout: float = 0.4
    spelling_dropout: float = 0.3  # of whole parts of words
    case_dropout: float = 0.3
    dropout: float = 0.5
    columns: tuple[int, ...] = ()  # how many tags there are in each; the data decide

    def __post_init__(self) -> None:
        require_choice("encoder", self.encoder, (*CELLS, TRANSFORMER))
        require_whole("directions", self.directions, 1, 2)
        require_whole("spelling_rows", self.spelling_rows, 2)
        require_sizes(self, "members", "num_layers", "width", "num_heads", "word_width", "spelling_width", "case_width")
        require_fractions(self, "input_dropout", "spelling_dropout", "case_dropout", "dropout")
        if self.encoder == TRANSFORMER and self.width % (2 * self.num_heads):
            raise UserError(f"width must be a multiple of twice num_heads, got {self.width} and {self.num_heads}")

    @property
    def input_width(self) -> int:
        return self.word_width + self.spelling_width + self.case_width


SIZES = {
    "tiny": Config(width=8, word_width=8, spelling_width=8, spelling_rows=256, case_width=4),
    "small": Config(width=128, word_width=64, spelling_width=64, spelling_rows=16384, case_width=32),
    "medium": Config(),
}
DEFAULT_SIZE = "medium"
DEFAULT_TOKENIZER = "words"


class Vectors(nn.Module):
    """[φ(word); Σ ψ(part); Σ χ(case)]. Parts and cases begin as nothing, so that one never seen says nothing."""

    def __init__(self, config: Config, vocabulary_size: int):
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, config.word_width)
        self.parts = nn.Embedding(config.spelling_rows, config.spelling_width, padding_idx=0)
        self.cases = nn.Embedding(CASE_ROWS, config.case_width, padding_idx=0)
        self.config = config
        nn.init.normal_(self.words.weight, std=0.1)
        nn.init.zeros_(self.parts.weight)
        nn.init.zeros_(self.cases.weight)

    def forward(self, words: Tensor, parts: Tensor, cases: Tensor) -> Tensor:
        """words (batch, time), hashes (batch, time, several) of each, 0 for none -> (batch, time, width)"""
        config = self.config
        word = torch.cat([self.words(words), _sum(self.parts, parts, config.spelling_dropout * self.training)], 2)
        word = F.dropout(word, config.input_dropout, self.training)
        return torch.cat([word, F.dropout(_sum(self.cases, cases), config.case_dropout, self.training)], 2)


def _sum(table: nn.Embedding, hashes: Tensor, dropout: float = 0.0) -> Tensor:
    """(batch, time, hashes) -> (batch, time, width): the sum of their rows, some of which are dropped."""
    rows = torch.where(hashes > 0, 1 + hashes % (len(table.weight) - 1), 0).flatten(0, 1)
    kept = F.dropout(torch.ones(rows.shape), dropout)
    found = F.embedding_bag(rows, table.weight, mode="sum", per_sample_weights=kept, padding_idx=0)
    sums: Tensor = found.unflatten(0, hashes.shape[:2])
    return sums


class RecurrentReader(nn.Module):
    """Every word with what stands before it and after it: (batch, time, vectors) -> (batch, time, width)."""

    def __init__(self, config: Config):
        super().__init__()
        self.recurrent = Recurrent(
            CELLS[config.encoder],
            config.input_width,
            config.width,
            config.num_layers,
            bidirectional=config.directions == 2,
            dropout=config.dropout,
        )

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        hidden: Tensor = self.recurrent(vectors, None, lengths)[0]
        return hidden


class TransformerReader(nn.Module):
    """The same by attention to all words of the sentence."""

    def __init__(self, config: Config):
        super().__init__()
        self.widen = nn.Linear(config.input_width, config.width)
        blocks = BlockConfig(config.width, config.num_heads, 4 * config.width, "gelu", config.dropout)
        self.blocks = TransformerEncoder(blocks, config.num_layers)

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        hidden: Tensor = self.blocks(self.widen(vectors), lengths)[0]
        return hidden


def make_encoder(config: Config) -> nn.Module:
    return TransformerReader(config) if config.encoder == TRANSFORMER else RecurrentReader(config)


class Member(nn.Module):
    """One tagger: logits (batch, time, tags) for each column."""

    def __init__(self, config: Config, vocabulary_size: int):
        super().__init__()
        self.embedding = declare(Role.TOKEN_TABLE, Vectors(config, vocabulary_size))
        self.encoder = make_encoder(config)
        read = config.width * (1 if config.encoder == TRANSFORMER else config.directions)
        self.heads = nn.ModuleList(nn.Linear(read, size) for size in config.columns)

    def forward(self, words: Tensor, condition: dict[str, Tensor]) -> list[Tensor]:
        vectors = self.embedding(words, condition["parts"], condition["cases"])
        hidden = self.encoder(vectors, condition["lengths"])
        return [head(hidden) for head in self.heads]


class Model(NeuralModel):
    """Of words (batch, time), hashes of their `parts` and `cases` (batch, time, several), rows ending at `lengths`."""

    config: Config

    def __init__(self, config: Config, vocabulary_size: int, eos: int):
        super().__init__(config, vocabulary_size, eos)
        self.members = nn.ModuleList(Member(config, vocabulary_size) for _ in range(config.members))

    def logits(self, words: Tensor, condition: dict[str, Tensor]) -> list[Tensor]:
        """(batch, time, tags) for each column; of several members, the logarithm of their average probabilities."""
        said = self._said(words, condition)
        if len(said) == 1:
            return said[0]
        columns = [torch.stack([each.log_softmax(-1) for each in column]) for column in zip(*said, strict=True)]
        return [column.logsumexp(0) - math.log(len(said)) for column in columns]

    def _said(self, words: Tensor, condition: dict[str, Tensor]) -> list[list[Tensor]]:
        """By each member, for each column."""
        return [member(words, condition) for member in self.members]

    def advance(
        self, batch: Batch, state: State | None, candidates: Candidates | None = None
    ) -> tuple[Loss, State | None]:
        """The sum over columns of the negative log-likelihood of every tag that is asked for; while they learn, the
        average of what the members lose each."""
        targets, inputs = torch.as_tensor(batch.targets), torch.as_tensor(batch.inputs)
        said = self._said(inputs, batch.condition) if self.training else [self.logits(inputs, batch.condition)]
        losses = [
            F.cross_entropy(logits.flatten(0, 1), targets[..., column].flatten(), ignore_index=IGNORE, reduction="sum")
            for each in said
            for column, logits in enumerate(each)
        ]
        return Loss(torch.stack(losses).sum() / len(said), int((targets != IGNORE).sum())), None

    def matrix_parts(self, name: str) -> int:
        is_gated = name.endswith(("input_weight", "recurrent_weight"))
        return CELLS[self.config.encoder].gates if is_gated else 1


def recipe(config: Config) -> dict[str, object]:
    """A batch is about batch_size × window words."""
    rates = {"learning_rate": 0.002, "beta2": 0.99, "weight_decay": 0.05, "warmup": 0.02, "clip": 5.0}
    return {"optimizer": "adamw", "batch_size": 16, "window": 64, **rates}


WORDS_A_SECOND = 6000  # that a tagger of the medium size learns from on one core
FOR_ONE, FOR_FIVE = 3, 18  # so many times through the words there must be time for


def for_budget(seconds: float, tokens: int, vocabulary_size: int) -> tuple[Config, dict[str, object], list[str]]:
    """The small size where there is little time, five of the medium size where there is much."""
    times = seconds * WORDS_A_SECOND / max(tokens, 1)
    size = "medium" if times >= FOR_ONE else "small"
    members = 5 if times >= FOR_FIVE else 1
    config = replace(SIZES[size], members=members)
    what = f"{members} taggers of the {size} size in one" if members > 1 else f"the {size} size"
    return config, {}, [f"{what}: for {seconds:,.0f} seconds and {tokens:,} words"]
