"""SentencePiece's models (.spm): pieces with scores, and how a text is made ready for them.

The file is one protobuf message, ModelProto: fields with a number, a wire type and a value, one after the other.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers

from chainrule.errors import UserError
from chainrule.text.base import SPACE, Tokenizer, library_errors

VARINT, EIGHT_BYTES, COUNTED, FOUR_BYTES = 0, 1, 2, 5  # wire types
PIECES, TRAINER, NORMALIZER = 1, 2, 3  # fields of a ModelProto
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # kinds of pieces
UNIGRAM = 1
# Fields that change what a text is cut into, by where they are: a name, the value that is known here, the default.
KNOWN = {
    TRAINER: {3: ("model_type", UNIGRAM, UNIGRAM), 24: ("treat_whitespace_as_suffix", 0, 0)},
    NORMALIZER: {
        3: ("add_dummy_prefix", 1, 1),
        4: ("remove_extra_whitespaces", 1, 1),
        5: ("escape_whitespaces", 1, 1),
    },
}
CHARACTERS = 2  # of the normalizer: which characters become which, compiled
FOREIGN = -1000.0  # the score of a character that this language has not: taken if there is no other way


@dataclass(frozen=True)
class Pieces:
    """A language's pieces with their scores, log p of each, and the table of characters if there is one."""

    scores: dict[str, float]
    characters: bytes


def read_spm(path: Path) -> Pieces:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None
    try:
        return _read(data, path)
    except (ValueError, LookupError, TypeError, AttributeError, struct.error):  # whatever bytes that mean nothing cause
        raise UserError(f"'{path}' is cut off, or is not a model of SentencePiece; fetch it again") from None


def _read(data: bytes, path: Path) -> Pieces:
    scores: dict[str, float] = {}
    specs: dict[int, dict[int, Any]] = {}
    for number, value in _fields(data):
        if number == PIECES:
            piece = dict(_fields(value))
            kind = piece.get(3, NORMAL)
            if kind not in (NORMAL, UNKNOWN, CONTROL, UNUSED):
                raise UserError(f"'{path}' has pieces of kind {kind} (of a user, or bytes), which are not known here")
            if kind == NORMAL:
                scores[piece[1].decode()] = _score(piece.get(2, bytes(4)))
        elif number in KNOWN:
            specs[number] = dict(_fields(value))  # after all pieces, so that a file without it is not whole
    for where, known in KNOWN.items():
        for field, (name, wanted, default) in known.items():
            if (found := specs[where].get(field, default)) != wanted:
                raise UserError(f"'{path}' has the setting {name}={found}; only {wanted} is known here")
    if not scores:
        raise ValueError("no pieces")
    return Pieces(scores, specs[NORMALIZER].get(CHARACTERS, b""))


def _score(data: bytes) -> float:
    score: float = struct.unpack("<f", data)[0]
    if not isfinite(score):
        raise ValueError("a score that is no number")
    return round(score, 6)  # the library's JSON does not bring back every digit of longer ones


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value): a whole number, or the bytes of a text, of a message or of a float."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == VARINT:
            value: Any
            value, place = _varint(data, place)
        else:
            size = {EIGHT_BYTES: 8, FOUR_BYTES: 4}.get(kind)
            if kind == COUNTED:
                size, place = _varint(data, place)
            if size is None or size > len(data) - place:
                raise ValueError(f"a field of wire type {kind} ends beyond the message")
            value, place = data[place : place + size], place + size
        yield key >> 3, value


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first; the eighth says that more follow. And where it ends."""
    value = 0
    for count in range(10):
        byte = data[place + count]
        value |= (byte & 127) << 7 * count
        if byte < 128:
            return value, place + count + 1
    raise ValueError("a number of more than ten bytes")


def make_tokenizer(pieces: Pieces, names: list[str], special: list[str], added: list[str], where: str) -> Tokenizer:
    """The likeliest pieces of a text, Σ log p, among `names` in the order of their ids; those of `special` follow.

    `names` may be of several languages; texts are cut into the pieces of one, and at worst into single characters of
    another. `added` are names that are always whole.
    """
    scored = [(name, pieces.scores.get(name, FOREIGN * len(name) ** 2)) for name in names]
    ready = [
        normalizers.Replace(Regex("^ +| +$"), ""),
        normalizers.Replace(Regex(" {2,}"), " "),
        normalizers.Prepend(SPACE),
        normalizers.Replace(" ", SPACE),
    ]
    with library_errors(f"the tokenizer {where} cannot be read"):
        if pieces.characters:
            ready.insert(0, normalizers.Precompiled(pieces.characters))
        backend = tokenizers.Tokenizer(models.Unigram(scored, names.index("<unk>"), byte_fallback=False))
        backend.normalizer = normalizers.Sequence(ready)
        backend.decoder = decoders.Sequence(
            [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
        backend.add_special_tokens(["<unk>", *special])
        backend.add_tokens([tokenizers.AddedToken(name, normalized=False) for name in added])
        return Tokenizer(backend, special[0])
