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
MOST_BYTES = 256  # of a beginning: of longer pieces, what is known is left out
REMEMBERED = 1 << 14  # beginnings whose hypotheses are kept
KEEPING = {"ByteLevel", "Split", "Digits"}  # the steps of a pre-tokenizer that only cut

Path = tuple[int, ...]  # tokens


class Beginning(NamedTuple):
    """What was read since the last certain end of a piece, and its first tokens that are certain all the same."""

    text: bytes = b""
    known: Path = ()


class Hypotheses(NamedTuple):
    """Ways to go on with tokens after the known ones of a beginning, as a tree: each has a token more than the one at
    `parent`, and the first none. The rest is what they leave of the beginning."""

    parent: np.ndarray  # (hypotheses,); -1 for the first
    token: np.ndarray
    column: np.ndarray  # the token's place in the order of spellings
    depth: np.ndarray  # how many tokens it has
    is_empty: np.ndarray  # whether there is no rest
    bounds: np.ndarray  # (hypotheses, 257): tokens in bounds[b] : bounds[b + 1] begin with the rest and byte b


class TokenPaths:
    """The tokens of one tokenizer, in the order of their spellings, and how they make up a text."""

    def __init__(self, tokenizer: Tokenizer):
        spelled = tokenizer.token_bytes
        ids = sorted((id for id, each in enumerate(spelled) if each), key=spelled.__getitem__)
        self.order = np.array([*ids, tokenizer.eos], np.int64)  # the ids in that order, the end of a text last
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

    def _advance(self, before: Beginning, byte: int) -> tuple[Path, Beginning]:
        """What the next byte makes certain: tokens that are now known, and the beginning after them."""
        text, known, new = before.text + bytes([byte]), before.known, []
        while (broken := _broken(text)) is not None:
            new += self.close(Beginning(text[: broken.start], known)) + self._bytes(text[broken])
            text, known = text[broken.stop :], ()
        whole, rest = _split(text)
        if whole and not rest:
            end = self._certain(whole)
            read = len(self._spell(known))
            if end >= read:
                new += self._after(known, self._tokens(text, end), text[read:end])
                text, known = text[end:], known if not end else ()
        paths = [path[len(known) :] for path in self._alive(text) if path[: len(known)] == known]
        shared = _shared(paths)
        new, known = [*new, *shared], known + shared
        if len(text) > MOST_BYTES:
            left = text[len(self._spell(known)) :]
            text, known = left if len(left) <= MOST_BYTES else b"", ()
        return tuple(new), Beginning(text, known)

    def close(self, beginning: Beginning) -> list[int]:
        """The tokens of a beginning after which nothing comes; without those that are known."""
        whole, rest = _split(beginning.text)
        left = beginning.text[len(self._spell(beginning.known)) :]
        return self._after(beginning.known, [*self._tokens(whole), *self._bytes(rest)], left)

    def _after(self, known: Path, tokens: list[int], left: bytes) -> list[int]:
        """The tokens after those that are known; where these are others, those of the bytes that they leave."""
        goes_on = tuple(tokens[: len(known)]) == known
        return tokens[len(known) :] if goes_on else self._tokenize(byte_level(left))

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
        return beginning[len(self._spell(path)) :]

    def _goes_on(self, rest: bytes) -> bool:
        bounds = self._bounds(rest)
        return not rest or bool(bounds[0] < bounds[-1])

    def _hypotheses(self, beginning: Beginning) -> Hypotheses:
        text, known = beginning
        alive = [path[len(known) :] for path in self._alive(text) if path[: len(known)] == known]
        text = text[len(self._spell(known)) :]
        paths = sorted({(), *(path[:count] for path in alive for count in range(len(path) + 1))}, key=len)
        place = {path: i for i, path in enumerate(paths)}
        left = [self._left(path, text) for path in paths]
        return Hypotheses(
            parent=np.array([place[path[:-1]] if path else -1 for path in paths]),
            token=np.array([path[-1] if path else -1 for path in paths]),
            column=np.array([self._columns[path[-1]] if path else 0 for path in paths]),
            depth=np.array([len(path) for path in paths]),
            is_empty=np.array([not rest for rest in left]),
            bounds=np.stack([self._bounds(rest) for rest in left]),
        )

    def cuts(self, beginning: Beginning) -> list[list[bytes]]:
        """What each hypothesis makes of a beginning: the spellings of its tokens, and what they leave."""
        found, text = self.hypotheses(beginning), beginning.text[len(self._spell(beginning.known)) :]
        cuts: list[list[bytes]] = []
        for parent, token in zip(found.parent.tolist(), found.token.tolist(), strict=True):
            tokens = [*cuts[parent][:-1], self._spelled[token]] if parent >= 0 else []
            cuts.append([*tokens, text[len(b"".join(tokens)) :]])
        return cuts

    def _spell(self, path: Path) -> bytes:
        return b"".join([self._spelled[token] for token in path])

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


def _shared(paths: list[Path]) -> Path:
    """The tokens that all of some paths begin with."""
    if not paths:
        return ()
    first, last = min(paths), max(paths)
    count = next((i for i, token in enumerate(first) if last[i] != token), len(first))
    return first[:count]


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
