"""The decoder-only Transformer, from Vaswani's to GPT-2's and Llama's, and a profile that learns fast on a CPU.

x = e(w) (+ position); L times: x + attention(norm(x)), x + feedforward(norm(x)); logits = W norm(x).
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.errors import UserError
from chainrule.layers import positions
from chainrule.layers.attention import Attention, Positions
from chainrule.layers.block import Block
from chainrule.layers.block_step import BlockSteps, is_for_kernels
from chainrule.layers.cache import KeyValues
from chainrule.layers.embedding import HashedNgrams
from chainrule.layers.feedforward import FeedForward
from chainrule.layers.linear import Linear, linear
from chainrule.layers.norm import make_norm, normalise
from chainrule.layers.roles import Role, declare
from chainrule.models._budgets import (
    LARGE_VOCABULARY,
    REFERENCE_FLOPS,
    TRANSFORMER,
    Settings,
    dropout_of_characters,
    fit_budget,
)
from chainrule.models._neural import NeuralModel
from chainrule.models._presets import PUBLISHED
from chainrule.models._recorded import Calls, read_recorded
from chainrule.models._residual_stream import Part, attention_weights, follow_parts, logit_lens
from chainrule.models._transformer_config import CHOICES as CHOICES
from chainrule.models._transformer_config import FAST as FAST
from chainrule.models._transformer_config import GPT2 as GPT2
from chainrule.models._transformer_config import LLAMA as LLAMA
from chainrule.models._transformer_config import Config as Config
from chainrule.models.contract import Array, State
from chainrule.models.explanation import Contribution, ResidualStream, TokenText

SIZES = {
    "tiny": FAST(width=32, num_layers=2, num_heads=2, context_length=512, ngram_order=2, ngram_rows=64),
    "small": FAST(width=128, num_layers=4, num_heads=4, context_length=128, ngram_order=3),
    "medium": FAST(width=256, num_layers=6, num_heads=4, context_length=256, ngram_order=3),
    "large": FAST(width=512, num_layers=8, num_heads=8, context_length=512, ngram_order=3),
    "gpt2-tiny": GPT2(width=64, num_layers=2, num_heads=4, context_length=128),
    "llama-tiny": LLAMA(width=64, num_layers=2, num_heads=4, num_key_value_heads=2, context_length=128),
    **{name: preset.config for name, preset in PUBLISHED.items()},
}
DEFAULT_SIZE = "small"
DEFAULT_TOKENIZER = "bpe"


class Model(NeuralModel):
    config: Config

    def __init__(self, config: Config, vocabulary_size: int, eos: int):
        super().__init__(config, vocabulary_size, eos)
        self.context_length = config.context_length
        self.embedding = declare(Role.TOKEN_TABLE, nn.Embedding(vocabulary_size, config.width_of_tokens))
        if config.ngram_order:
            self.ngrams = HashedNgrams(
                config.ngram_order, config.ngram_rows, config.width_of_tokens, config.ngram_dropout
            )
        if config.positions == "learned":
            self.positions = positions.LearnedPositions(config.context_length, config.width_of_positions)
        if config.positions in positions.BY_DISTANCE:
            self.distance_bias = positions.DistanceBias(config.positions, config.num_heads)
        self.dropout = nn.Dropout(config.dropout) if config.dropout else nn.Identity()
        self.blocks = nn.ModuleList(self._block(config) for _ in range(config.num_layers))
        self.norm = self._norm() if config.norm_placement == "pre" else nn.Identity()
        if not config.tied:
            self.unembedding = declare(Role.OUTPUT, Linear(config.width, vocabulary_size, bias=False))
        if config.output_bias:
            self.output_bias = declare(Role.OUTPUT_BIAS, nn.Parameter(torch.zeros(vocabulary_size)))
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

    @property
    def num_blocks(self) -> int:
        return len(self.blocks)

    def trunk_parameters(self, blocks: int) -> Iterator[nn.Parameter]:
        above = {id(each) for each in [*self.blocks[blocks:].parameters(), *self.norm.parameters()]}
        if not self.config.tied:
            above.add(id(self.unembedding.weight))
        if self.config.output_bias:
            above.add(id(self.output_bias))
        return (each for each in self.parameters() if id(each) not in above)

    def read_trunk(self, tokens: Tensor, blocks: int) -> Tensor:
        x, _ = self._embed(tokens, 0, None)
        return self._through(self.blocks[:blocks], x)

    def read_on(self, trunk: Tensor, blocks: int) -> Tensor:
        hidden: Tensor = self.norm(self._through(self.blocks[blocks:], trunk))
        return hidden

    def read_branches(self, tokens: Tensor, places: Tensor, sees: Tensor, state: State) -> tuple[Tensor, State]:
        """Tokens (time,) that go on in different ways with what one row has read: hidden states (1, time, width).

        Token i is read as the one at places[i] of a text, and sees the tokens that sees[i] marks, of all that were read
        before and then of these: sees (time, read + time). The new state has them all one after the other; `rewind`
        takes them back. Positions must be rotary, learned, sinusoids or none, and there must be no hashed n-grams.
        """
        config, device, dtype = self.config, self.device, self.embedding.weight.dtype
        x = self._embed(tokens[:, None], places, None)[0].transpose(0, 1)
        bias = torch.zeros(sees.shape, dtype=dtype, device=device).masked_fill_(~sees, -torch.inf)
        rotation = None
        if config.positions == "rotary":
            of_each = positions.rotary_angles(places, 1, config.width_of_rotation, config.rotary_base, device, dtype)
            rotation = of_each[0][:, 0], of_each[1][:, 0]
        cache: KeyValues = state["cache"].extend(len(tokens))
        for index, block in enumerate(self.blocks):
            x = block(x, Positions(rotation, bias[None, None]), partial(cache.write, index))
        return self.norm(x), {"cache": cache}

    def _through(self, blocks: nn.ModuleList, x: Tensor) -> Tensor:
        """x (batch, time, width) of whole texts after these blocks."""
        places = self._positions(0, x.shape[1])
        for block in blocks:
            x = block(x, places, None)
        return x

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
            x = normalise(x, x.new_ones(config.width), torch.finfo(x.dtype).eps)  # as F.rms_norm
        return self.dropout(x), recent

    def _positions(self, first: positions.First, time: int) -> Positions:
        config, device, dtype = self.config, self.device, self.embedding.weight.dtype
        hidden = None if isinstance(first, int) else positions.hidden_future(first, time, dtype)
        if config.positions == "rotary":
            rotation = positions.rotary_angles(first, time, config.width_of_rotation, config.rotary_base, device, dtype)
            return Positions(rotation, hidden)
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

    @torch.no_grad()
    def look_inside(self, ids: np.ndarray, token: int, token_text: TokenText) -> ResidualStream:
        """Where every head looks, what every layer would guess, and which parts made the logit of `token`."""
        hidden, calls = read_recorded(self, ids)
        blocks = [block for block in self.blocks if isinstance(block, Block)]
        weight, bias = self._output_layer()
        parts = follow_parts(self._embedded_parts(len(ids), calls), blocks, self.norm, calls)
        contributions = [Contribution(part.layer, part.name, float(part.vector @ weight[token])) for part in parts]
        if bias is not None:
            contributions.append(Contribution(None, "output bias", float(bias[token])))
        targets = np.append(ids[1:], token)
        return ResidualStream(
            torch.stack([attention_weights(block.attention, calls) for block in blocks]).numpy(),
            logit_lens(blocks, calls, lambda x: self.output(self.norm(x)), targets, token_text),
            contributions,
            logit=float(F.linear(hidden[-1], weight, bias)[token]),
            capped_logit=float(self.output(hidden[-1])[token]),
        )

    def _embedded_parts(self, count: int, calls: Calls) -> list[Part]:
        """What the stream begins with at the last of so many tokens; concatenated vectors are padded with zeros."""
        config = self.config
        room = config.width_of_positions if config.is_concatenated else 0
        parts = [Part(None, "embedding", F.pad(calls[self.embedding].output[0, -1], (0, room)))]
        if config.ngram_order:
            parts.append(Part(None, "n-grams", F.pad(calls[self.ngrams].output[0][0, -1], (0, room))))
        if config.positions in positions.AT_INPUT:
            last, width = count - 1, config.width_of_positions
            place = self.positions(last, 1) if config.positions == "learned" else positions.sinusoids(last, 1, width)
            parts.append(Part(None, "position", F.pad(place[0], (config.width - width, 0))))
        if config.embedding_norm:
            total = torch.stack([part.vector for part in parts]).sum(0)
            scale = F.rms_norm(total, total.shape).norm() / total.norm()
            parts = [part._replace(vector=part.vector * scale) for part in parts]
        return parts


WIDTH_OF_HEAD = 32


def for_budget(seconds: float, tokens: int, vocabulary_size: int) -> tuple[Config, Settings, list[str]]:
    """The fast profile at a size that suits the time; of few characters, with tables of n-grams that suit the text."""
    heads = TRANSFORMER.choose(seconds, tokens, vocabulary_size)[0]["width"] // WIDTH_OF_HEAD
    of_text = {"num_heads": heads}
    if vocabulary_size <= LARGE_VOCABULARY:
        rows = 1 << min(max(round(math.log2(max(tokens, 1) / 64)), 10), 18)
        of_text |= {"ngram_order": 6 if vocabulary_size <= 512 else 4, "ngram_rows": rows}
    return fit_budget(FAST(), TRANSFORMER, seconds, tokens, vocabulary_size, **of_text)


def for_speed(
    config: Config, tokens_per_second: float, seconds: float, tokens: int, vocabulary_size: int
) -> tuple[Config, Settings, list[str]] | None:
    """Of few characters: the size that such a machine has time for, and dropout by how often the text is read."""
    if vocabulary_size > LARGE_VOCABULARY:
        return None
    flops = tokens_per_second * _flops_per_token(config)
    chosen, training, why = for_budget(seconds * flops / REFERENCE_FLOPS, tokens, vocabulary_size)
    epochs = flops / _flops_per_token(chosen) * seconds / tokens
    return replace(chosen, **dropout_of_characters(epochs)), training, why


def _flops_per_token(config: Config) -> int:
    """Of training, by the matrices of its blocks."""
    return 6 * config.num_layers * config.width * (4 * config.width + 2 * config.width_of_feedforward)
