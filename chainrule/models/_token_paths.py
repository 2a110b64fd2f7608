"""How the bytes of a text may be cut into tokens, as they come: what is certain, and what may still turn out.

A text is cut into pieces (words, numbers, white space) as the tokenizer's own pre-tokenizer does, and no token reaches
across two of them. So the tokens of a piece are known as soon as no byte to come can change where it ends. What was
read since then is known by its bytes alone: a beginning u of what comes, and hypotheses of the tokens that it may be.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from chainrule.text.base import Tokenizer, byte_level

LETTER = "a"
PROBES = ("", LETTER, "l", "e", "\n")  # what follows may move a cut: before a word's space, in 'll, 're, white space
MOST_BYTES = 256  # of a beginning: in longer pieces, all but the last half is taken to be cut as it is
REMEMBERED = 1 << 14  # beginnings whose hypotheses are kept
KEEPING = {"ByteLevel", "Split", "Digits"}  # the steps of a pre-tokenizer that only cut

Path = tuple[int, ...]  # tokens


class Hypotheses(NamedTuple):
    """The ways to begin u with tokens, as a tree: each is the one at `parent` with a token more. The first has none."""

    parent: np.ndarray  # (hypotheses,); -1 for the first
    token: np.ndarray
    column: np.ndarray  # the token's place in the order of spellings
    depth: np.ndarray  # how many tokens it has
    is_alone: np.ndarray  # whether it is the only one that u leaves
    is_empty: np.ndarray  # whether its tokens are all of u
    bounds: np.ndarray  # (hypotheses, 257): tokens in bounds[b] : bounds[b + 1] begin with the rest of u and byte b


class TokenPaths:
    """The tokens of one tokenizer, in the order of their spellings, and how they make up a text."""

    def __init__(self, tokenizer: Tokenizer):
        spelled = tokenizer.token_bytes
        ids = sorted((id for id, each in enumerate(spelled) if each), key=spelled.__getitem__)
        self.order = np.array([*ids, tokenizer.eos], np.int64)  # the ids in that order, the end of a text last
        self.num_texts = len(ids)
        self._columns = {id: column for column, id in enumerate(ids)}
        self._spelled, self._sorted = spelled, [spelled[id] for id in ids]
        self._backend, self._model = tokenizer.backend, tokenizer.backend.model
        self._id_of_byte = {spelled[id]: id for id in ids if len(spelled[id]) == 1}
        self.first = tokenizer.eos if tokenizer.start is None else tokenizer.start  # what the first text begins with
        self.between = tuple(dict.fromkeys((tokenizer.eos, self.first)))  # the tokens between two texts
        self.advance = lru_cache(REMEMBERED)(self._advance)
        self.hypotheses = lru_cache(REMEMBERED)(self._hypotheses)
        self._alive = lru_cache(REMEMBERED)(self._find_alive)
        self._bounds = cache(self._find_bounds)

    def _advance(self, beginning: bytes, byte: int) -> tuple[tuple[int, ...], bytes]:
        """What the next byte makes certain: tokens that are now known, and the beginning after them."""
        text, known = beginning + bytes([byte]), []
        while (broken := _broken(text)) is not None:
            known += self._tokens(text[: broken.start]) + self._bytes(text[broken])
            text = text[broken.stop :]
        whole, rest = _split(text)
        if whole and not rest:
            end = self._certain(whole)
            known += self._tokens(whole, end)
            text = whole[end:]
            if len(text) > MOST_BYTES:
                tokens = list(self._along(self._pieces(text.decode()), text))
                ends = np.cumsum([len(self._spelled[id]) for id in tokens])
                count = int(np.searchsorted(ends, len(text) - MOST_BYTES // 2, side="right"))
                known, text = known + tokens[:count], text[int(ends[count - 1]) if count else MOST_BYTES // 2 :]
        return tuple(known), text

    def close(self, beginning: bytes) -> list[int]:
        """The tokens of a beginning after which nothing comes."""
        whole, rest = _split(beginning)
        return self._tokens(whole) + self._bytes(rest)

    def _find_alive(self, beginning: bytes) -> tuple[Path, ...]:
        """Tokens of some of the first bytes of a beginning whose rest, if any, begins a token, longer than it."""
        before = self._alive(beginning[:-1]) if beginning else ()
        whole, rest = _split(beginning)
        text, broken = whole.decode(), byte_level(rest)
        ends_here = [*self._pieces(text), broken]
        goes_on = self._pieces(text + LETTER)
        goes_on[-1] = goes_on[-1].removesuffix(LETTER) + broken
        tokens = [tuple(self._along(pieces, beginning)) for pieces in (ends_here, goes_on)]
        found = [*before, *(each[:count] for each in tokens for count in range(len(each) + 1))]
        return tuple(path for path in dict.fromkeys(found) if self._goes_on(self._left(path, beginning)))

    def _left(self, path: Path, beginning: bytes) -> bytes:
        return beginning[sum(len(self._spelled[token]) for token in path) :]

    def _goes_on(self, rest: bytes) -> bool:
        bounds = self._bounds(rest)
        return not rest or bool(bounds[0] < bounds[-1])

    def _hypotheses(self, beginning: bytes) -> Hypotheses:
        alive = self._alive(beginning)
        closed = {path[:count] for path in alive for count in range(len(path) + 1)}
        paths = sorted(closed or {()}, key=len)
        place = {path: i for i, path in enumerate(paths)}
        left = [self._left(path, beginning) for path in paths]
        depth = np.array([len(path) for path in paths])
        nearest = min((len(path) for path in alive), default=0)
        return Hypotheses(
            parent=np.array([place[path[:-1]] if path else -1 for path in paths]),
            token=np.array([path[-1] if path else -1 for path in paths]),
            column=np.array([self._columns[path[-1]] if path else 0 for path in paths]),
            depth=depth,
            is_alone=(depth <= nearest) & (np.bincount(depth)[depth] == 1),
            is_empty=np.array([not rest for rest in left]),
            bounds=np.stack([self._bounds(rest) for rest in left]),
        )

    def spell(self, token: int) -> bytes:
        return self._spelled[token]

    def _find_bounds(self, text: bytes) -> np.ndarray:
        """Where the tokens that begin with a text and another byte are: bounds[b] : bounds[b + 1] for each byte b."""
        first = bisect_right(self._sorted, text)
        last = bisect_left(self._sorted, True, lo=first, key=lambda each: not each.startswith(text))
        following = np.array([each[len(text)] for each in self._sorted[first:last]], np.int64)
        return (first + np.searchsorted(following, np.arange(257))).astype(np.int32)

    def _pieces(self, text: str) -> list[str]:
        """How the tokenizer cuts a text, in its alphabet of bytes; one empty piece of nothing."""
        return [piece for piece, _ in self._backend.pre_tokenizer.pre_tokenize_str(text)] or [""]

    def _tokenize(self, piece: str) -> list[int]:
        return [token.id for token in self._model.tokenize(piece)] if piece else []

    def _tokens(self, text: bytes, end: int | None = None) -> list[int]:
        """The tokens of whole characters; of the pieces up to `end` alone."""
        found, read = [], 0
        for piece in self._pieces(text.decode()):
            read += len(piece)
            if end is not None and read > end:
                break
            found += self._tokenize(piece)
        return found

    def _bytes(self, text: bytes) -> list[int]:
        """Bytes that are no character, each a token by itself; those that the vocabulary lacks are left out."""
        return [self._id_of_byte[text[i : i + 1]] for i in range(len(text)) if text[i : i + 1] in self._id_of_byte]

    def _along(self, pieces: list[str], text: bytes) -> Iterator[int]:
        """The tokens of pieces as long as they spell the text: bytes that the vocabulary lacks are left out of them."""
        for token in (id for piece in pieces for id in self._tokenize(piece)):
            if not text.startswith(self._spelled[token]):
                return
            text = text[len(self._spelled[token]) :]
            yield token

    def _certain(self, text: bytes) -> int:
        """The last place before the end of a text where it is cut whatever follows."""
        cuts: set[int] = set(range(len(text)))
        for probe in PROBES:
            lengths = [len(piece) for piece in self._pieces(text.decode() + probe)]
            cuts &= {0, *np.cumsum(lengths).tolist()}
        return max(cuts)


def _broken(text: bytes) -> slice | None:
    """The first bytes that are no character, whatever follows; None where there are none."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return None if error.reason == "unexpected end of data" else slice(error.start, error.end)
    return None


def _split(text: bytes) -> tuple[bytes, bytes]:
    """Whole characters, and the bytes of one that is not whole yet."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return text[: error.start], text[error.start :]
    return text, b""


def cannot_be_followed(tokenizer: Tokenizer) -> str | None:
    """Why the bytes of a text cannot be followed through a tokenizer's tokens; None where they can."""
    settings: dict[str, Any] = json.loads(tokenizer.json)
    steps = settings["pre_tokenizer"] or {}
    steps = steps["pretokenizers"] if steps.get("type") == "Sequence" else [steps]
    kinds = {step.get("type") for step in steps}
    model = settings["model"]
    if tokenizer.is_closed or model["type"] != "BPE" or "ByteLevel" not in kinds:
        return "its tokenizer does not spell texts by their bytes"
    changes = any(
        step.get("add_prefix_space") or step.get("invert") or step.get("behavior", "Isolated") != "Isolated"
        for step in steps
    )
    changes |= tokenizer.adds_spaces or (settings["decoder"] or {}).get("type") != "ByteLevel"
    joins = model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")
    normalizer = settings["normalizer"] or {"type": "NFC"}  # which leaves nearly every text as it is
    if changes or joins or kinds - KEEPING or normalizer["type"] != "NFC":
        return "its tokenizer changes the text that it reads"
    return None
