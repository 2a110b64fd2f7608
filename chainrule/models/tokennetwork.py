"""A Transformer of byte pairs that predicts bytes: p(token | all tokens before it), summed over ways to cut a text.

After the tokens h of all that is certainly cut, and the beginning u of what follows (chainrule/models/_token_paths.py),

    p(byte b | h, u) ∝ sum over hypotheses c of p(c1 | h) p(c2 | h c1) ... p(tokens that begin with r b | h c)

where the tokens c are the first that the tokenizer would make of u, none to all of them, and r is the rest of u. So
the network need not have read what is cut in the end, and a prediction depends on what came before it alone.

A hypothesis with hardly any share is not worth a step of the network: what followed its first tokens stands in.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from chainrule.errors import UserError
from chainrule.layers import positions
from chainrule.models import transformer
from chainrule.models._bits import BYTES
from chainrule.models._token_branches import AT_ONCE, Branches, Weighed, weigh
from chainrule.models._token_paths import Beginning, TokenPaths, cannot_be_followed
from chainrule.models.contract import LanguageModel, State, check_ids
from chainrule.models.explanation import Mixture, Share, TokenText
from chainrule.storage import load_arrays, save_arrays
from chainrule.text import stored
from chainrule.text.base import Tokenizer

EOS = 256
LONGEST, KEPT = 2048, 512  # tokens that are read before the oldest are left out, and how many stay
ROOM = 64  # the most tokens of a hypothesis that the network reads


def why_not_by_bytes(network: object, tokenizer: Tokenizer) -> str | None:
    """Why a network of tokens cannot be seen byte by byte; None where it can."""
    if not isinstance(network, transformer.Model):
        return "it is no Transformer"
    if network.config.positions in positions.BY_DISTANCE or network.config.ngram_order:
        return "its positions are biases by distance, or it has hashed n-grams"
    if network.config.context_length < 4:
        return "it reads fewer than 4 tokens"
    return cannot_be_followed(tokenizer)


def can_be_seen_by_bytes(network: object, tokenizer: Tokenizer) -> bool:
    return why_not_by_bytes(network, tokenizer) is None


@dataclass(frozen=True)
class Read:
    """What one text has been read as: a state of the network, and the beginning of what it has not read yet."""

    network: State
    tokens: tuple[int, ...]  # that the state has read
    chances: np.ndarray  # p(token) after them, in the order of spellings
    beginning: Beginning | None = None  # None: nothing was read, not even what begins a text


class Rows:
    """A batch of `Read`, as a leaf of a state."""

    def __init__(self, rows: Sequence[Read]):
        self.rows = tuple(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: object) -> "Rows":
        chosen = np.atleast_1d(np.arange(len(self))[rows])  # type: ignore[call-overload]
        return Rows([self.rows[row] for row in chosen])

    def add_rows(self, others: "Rows") -> "Rows":
        return Rows([*self.rows, *others.rows])

    def remove_row(self, row: int) -> "Rows":
        kept = list(self.rows[:-1])
        kept[row : row + 1] = self.rows[-1:] if row < len(kept) else []
        return Rows(kept)


class Model(LanguageModel):
    """A state is a `Rows`. The vocabulary is that of the tokenizer 'bytes'."""

    def __init__(self, network: transformer.Model, tokenizer: Tokenizer):
        why_not = why_not_by_bytes(network, tokenizer)
        if why_not:
            raise UserError(f"this network of tokens cannot be seen byte by byte: {why_not}")
        if network.vocabulary_size < tokenizer.vocabulary_size:
            raise UserError(
                f"the tokenizer has {tokenizer.vocabulary_size} tokens but the network knows {network.vocabulary_size}"
            )
        self.network, self.tokenizer = network.eval(), tokenizer
        self.vocabulary_size, self.eos = BYTES, EOS
        self.paths = TokenPaths(tokenizer)
        self._order = torch.from_numpy(self.paths.order).to(network.device)
        self._room = min(ROOM, network.config.context_length // 4)
        self._longest = min(LONGEST, network.config.context_length - self._room)
        self._kept = min(KEPT, self._longest // 2)

    @torch.no_grad()
    def start(self, batch_size: int, condition: object = None) -> State:
        first = (self.paths.first,)
        hidden, network = self.network.read(self._tensor(first)[None], self.network.start(1))
        return {"rows": Rows([Read(network, first, self._chances(hidden)[0])] * batch_size)}

    @torch.no_grad()
    def step(self, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        check_ids(tokens, self.vocabulary_size)
        found = [self._predict(row, ids) for row, ids in zip(state["rows"].rows, np.asarray(tokens), strict=True)]
        log_p = np.log(np.stack([each for each, _ in found])).astype(np.float32)
        return log_p, {"rows": Rows([read for _, read in found])}

    def _predict(self, read: Read, symbols: np.ndarray) -> tuple[np.ndarray, Read]:
        """p(symbol) after each of these symbols, (symbols, 257), and what has been read then."""
        out = np.empty((len(symbols), BYTES))
        tokens, counts, beginnings = self._follow(symbols, read.beginning)
        done, known = 0, 0  # how many symbols are predicted, how many tokens read
        while done < len(symbols):
            room = self._longest - len(read.tokens)
            if not room and counts[done] > known:
                read, room = self._forget(read), self._longest - self._kept
            new = tokens[known : known + min(AT_ONCE, room)]
            chances, read = self._read(new, read)
            last = int(np.searchsorted(counts, known + len(new), side="right"))
            if last > done:
                rows = counts[done:last] - known
                found, read = self._weigh(beginnings[done:last], rows, chances, new, read)
                out[done:last] = found.predictions()
            done, known = last, known + len(new)
        return out, Read(read.network, read.tokens, read.chances, beginnings[-1] if beginnings else read.beginning)

    def _follow(
        self, symbols: np.ndarray, beginning: Beginning | None
    ) -> tuple[list[int], np.ndarray, list[Beginning]]:
        """The tokens that become known along symbols, how many of them after each, and the beginnings."""
        tokens: list[int] = []
        counts, beginnings = [], []
        for symbol in symbols.tolist():
            if symbol == EOS:
                tokens += () if beginning is None else (*self.paths.close(beginning), *self.paths.between)
                beginning = Beginning()
            else:
                known, beginning = self.paths.advance(beginning or Beginning(), symbol)
                tokens += known
            counts.append(len(tokens))
            beginnings.append(beginning)
        return tokens, np.array(counts, np.int64), beginnings

    def _read(self, tokens: Sequence[int], read: Read) -> tuple[np.ndarray, Read]:
        """The network reads tokens: what it says before the first and after each, and what has been read then."""
        if not tokens:
            return read.chances[None], read
        hidden, network = self.network.read(self._tensor(tokens)[None], read.network)
        chances = np.concatenate([read.chances[None], self._chances(hidden)])
        return chances, Read(network, (*read.tokens, *tokens), chances[-1].copy())

    def _forget(self, read: Read) -> Read:
        """All but the latest tokens are left out of what has been read."""
        kept = read.tokens[-self._kept :]
        _, network = self.network.read(self._tensor(kept)[None], self.network.start(1))
        return Read(network, kept, read.chances, read.beginning)

    def _chances(self, hidden: torch.Tensor) -> np.ndarray:
        """p(token) after hidden states (1, tokens, width), in the order of spellings; the end of a text is the last."""
        found: np.ndarray = torch.softmax(self.network.output(hidden)[0], -1)[:, self._order].cpu().numpy()
        return found

    def _weigh(
        self, beginnings: Sequence[Beginning], rows: np.ndarray, chances: np.ndarray, tokens: Sequence[int], read: Read
    ) -> tuple[Weighed, Read]:
        """The hypotheses of beginnings, each after one of the rows that the latest tokens have made."""
        before = len(read.tokens) - len(tokens)
        branches = Branches(self.network, self._chances, read.network, tokens, before)
        found = weigh([self.paths.hypotheses(each) for each in beginnings], rows, chances, branches, self._room)
        return found, Read(branches.take_back(), read.tokens, read.chances, read.beginning)

    def _tensor(self, tokens: Sequence[int]) -> torch.Tensor:
        return torch.tensor(tokens, dtype=torch.long, device=self.network.device)

    @property
    def num_parameters(self) -> int:
        return self.network.num_parameters

    def describe(self) -> dict[str, object]:
        return {"tokens": self.tokenizer.vocabulary_size, "network": "transformer"}

    @torch.no_grad()
    def look_inside(self, ids: np.ndarray, token: int, token_text: TokenText) -> Mixture:
        """The ways to cut what was read last into tokens, and what follows by each of them."""
        _, read = self._predict(self.start(1)["rows"].rows[0], np.asarray(ids))
        beginning = read.beginning or Beginning()
        found, _ = self._weigh([beginning], np.zeros(1, np.int64), read.chances[None], [], read)
        symbols = found.weight[:, None] * found.following
        mass = symbols.sum(1)
        cuts = [b"|".join(cut) + b"..." for cut in self.paths.cuts(beginning)]
        shares = [
            Share(
                cuts[each].decode("utf-8", "backslashreplace"),
                float(mass[each] / mass.sum()),
                float(symbols[each, token] / mass[each]),
                float(symbols[each, token] / mass.sum()),
            )
            for each in np.flatnonzero(mass)
        ]
        return Mixture(shares, sum(share.contribution for share in shares), "how likely each way to cut the text is")

    def save(self, path: Path) -> None:
        """What it is in the file; network and tokenizer beside it, in files of their own."""
        folder = path.with_suffix(".parts")
        folder.mkdir(exist_ok=True)
        self.network.save(folder / "network.safetensors")
        self.tokenizer.save(folder / "tokenizer.json")
        facts = {"tokenizer": stored.describe(self.tokenizer)}
        save_arrays(path, {}, {"architecture": "tokennetwork", "model": json.dumps(facts)})

    @classmethod
    def load(cls, path: Path) -> "Model":
        _, metadata = load_arrays(path)
        folder = path.with_suffix(".parts")
        try:
            tokenizer = stored.load(folder / "tokenizer.json", json.loads(metadata["model"])["tokenizer"])
            return cls(transformer.Model.load(folder / "network.safetensors"), tokenizer)
        except (KeyError, TypeError, ValueError, UserError) as error:
            raise UserError(f"'{path}' does not hold a network of tokens ({error}); train it again") from None
