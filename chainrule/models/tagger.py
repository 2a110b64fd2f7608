"""A tagger: every word read in both directions, and a tag for each of them.

    x_i = [φ(w_i); Σ_parts ψ(part of w_i)],   h_i = [ahead(x_1 … x_i); back(x_n … x_i)],   p(t_i) = softmax(W h_i + b)

φ is a vector per word, ψ one per beginning, ending, inner part and shape, so that words never seen have vectors too.
Several columns of tags, such as UPOS and XPOS, are learned together: a W and b each, all else in common.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.checks import require_choice, require_fractions, require_sizes
from chainrule.layers.cells import CELLS
from chainrule.layers.recurrent import Recurrent
from chainrule.layers.softmax import Candidates
from chainrule.models._neural import NeuralModel
from chainrule.models.base import IGNORE, Batch, Loss, State

TASK = "tagging"


@dataclass(frozen=True)
class Config:
    cell: str = "lstm"
    num_layers: int = 1
    width: int = 200  # of each direction
    word_width: int = 96
    spelling_width: int = 128
    spelling_rows: int = 32768  # of the table of parts of words
    directions: int = 2  # 1: from left to right alone
    input_dropout: float = 0.3
    spelling_dropout: float = 0.2  # of whole parts of words
    dropout: float = 0.4
    columns: tuple[int, ...] = ()  # how many tags there are in each; the data decide

    def __post_init__(self) -> None:
        require_choice("cell", self.cell, tuple(CELLS))
        require_choice("directions", str(self.directions), ("1", "2"))
        require_sizes(self, "num_layers", "width", "word_width", "spelling_width")
        require_fractions(self, "input_dropout", "spelling_dropout", "dropout")


SIZES = {
    "tiny": Config(width=8, word_width=8, spelling_width=8, spelling_rows=256),
    "small": Config(width=128, word_width=64, spelling_width=64, spelling_rows=16384),
    "medium": Config(),
}
DEFAULT_SIZE = "medium"
DEFAULT_TOKENIZER = "words"


class Vectors(nn.Module):
    """[φ(word); Σ ψ(part)]."""

    def __init__(self, config: Config, vocabulary_size: int):
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, config.word_width)
        self.parts = nn.Embedding(config.spelling_rows, config.spelling_width, padding_idx=0)
        self.dropout = config.spelling_dropout
        for table in (self.words, self.parts):
            nn.init.normal_(table.weight, std=0.1)
        nn.init.zeros_(self.parts.weight[0].detach())

    def forward(self, words: Tensor, parts: Tensor) -> Tensor:
        """words (batch, time), hashes of parts (batch, time, parts), 0 for none -> (batch, time, width)"""
        rows = torch.where(parts > 0, 1 + parts % (len(self.parts.weight) - 1), 0).flatten(0, 1)
        kept = F.dropout(self.parts.weight.new_ones(rows.shape), self.dropout, self.training)
        spelled = F.embedding_bag(rows, self.parts.weight, mode="sum", per_sample_weights=kept, padding_idx=0)
        return torch.cat([self.words(words), spelled.unflatten(0, words.shape)], 2)


class Model(NeuralModel):
    """Of words (batch, time) and their `parts` (batch, time, parts) in rows that end after `lengths` (batch) words."""

    config: Config

    def __init__(self, config: Config, vocabulary_size: int, eos: int):
        super().__init__(config, vocabulary_size, eos)
        self.embedding = Vectors(config, vocabulary_size)
        self.encoder = Recurrent(
            CELLS[config.cell],
            config.word_width + config.spelling_width,
            config.width,
            config.num_layers,
            bidirectional=config.directions == 2,
            input_dropout=config.input_dropout,
            dropout=config.dropout,
        )
        self.heads = nn.ModuleList(nn.Linear(self.encoder.output_width, size) for size in config.columns)

    def logits(self, words: Tensor, condition: dict[str, Tensor]) -> list[Tensor]:
        """(batch, time, tags) for each column."""
        vectors = self.embedding(words, condition["parts"])
        hidden, _ = self.encoder(vectors, None, condition["lengths"])
        return [head(hidden) for head in self.heads]

    def advance(
        self, batch: Batch, state: State | None, candidates: Candidates | None = None
    ) -> tuple[Loss, State | None]:
        """The sum over columns of the negative log-likelihood of every tag that is asked for."""
        targets = torch.as_tensor(batch.targets)
        found = self.logits(torch.as_tensor(batch.inputs), batch.condition)
        losses = [
            F.cross_entropy(logits.flatten(0, 1), targets[..., column].flatten(), ignore_index=IGNORE, reduction="sum")
            for column, logits in enumerate(found)
        ]
        return Loss(torch.stack(losses).sum(), int((targets != IGNORE).sum())), None

    def matrix_parts(self, name: str) -> int:
        is_gated = name.endswith(("input_weight", "recurrent_weight"))
        return CELLS[self.config.cell].gates if is_gated else 1


def for_budget(seconds: float, tokens: int, vocabulary_size: int) -> tuple[Config, dict[str, Any], list[str]]:
    """The medium size learns a treebank of 200,000 words in some minutes; with less time, the small one."""
    size = "medium" if seconds * 500 >= tokens else "small"
    changes = {"learning_rate": 0.002, "beta2": 0.99, "weight_decay": 0.01, "warmup": 0.02, "clip": 5.0}
    return SIZES[size], changes, [f"the {size} size: for {seconds:,.0f} seconds and {tokens:,} words"]
