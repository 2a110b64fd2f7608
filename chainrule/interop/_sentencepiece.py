"""SentencePiece's tokenizers: its model files (.spm), and tokenizers of its two kinds, Unigram and BPE.

A file is one protobuf message, ModelProto: fields with a number, a wire type and a value, one after the other.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers

from chainrule.errors import UserError
from chainrule.text.base import SPACE, Tokenizer, library_errors

VARINT, EIGHT_BYTES, COUNTED, FOUR_BYTES = 0, 1, 2, 5  # wire types
PIECES, TRAINER, NORMALIZER = 1, 2, 3  # fields of a ModelProto
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # kinds of pieces
UNIGRAM = 1
# Fields that change the tokens of a text: name, the only value that is supported here, default.
KNOWN = {
    TRAINER: {3: ("model_type", UNIGRAM, UNIGRAM), 24: ("treat_whitespace_as_suffix", 0, 0)},
    NORMALIZER: {
        3: ("add_dummy_prefix", 1, 1),
        4: ("remove_extra_whitespaces", 1, 1),
        5: ("escape_whitespaces", 1, 1),
    },
}
CHARACTERS = 2  # of the normalizer: a compiled table of replacements of characters
FOREIGN = -1000.0  # the score of a character that is no piece of this language: used as a last resort
SPECIAL = ("<unk>", "<s>", "</s>")  # the first three ids of a BPE vocabulary
LONGEST_PIECE = 512  # characters


@dataclass(frozen=True)
class Pieces:
    """The pieces of a language with their scores, log p, and the compiled table of replacements of characters."""

    scores: dict[str, float]
    characters: bytes


def read_spm(path: Path) -> Pieces:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None
    try:
        return _read(data, path)
    except (ValueError, LookupError, TypeError, AttributeError, struct.error):  # of bytes that are no such message
        raise UserError(f"'{path}' is cut off, or is not a model of SentencePiece; download it again") from None


def _read(data: bytes, path: Path) -> Pieces:
    scores: dict[str, float] = {}
    specs: dict[int, dict[int, int | bytes]] = {}
    for number, value in _fields(data):
        if number == PIECES:
            piece = dict(_fields(_as_bytes(value)))
            kind = piece.get(3, NORMAL)
            if kind not in (NORMAL, UNKNOWN, CONTROL, UNUSED):
                raise UserError(
                    f"'{path}' has pieces of kind {kind!r} (user-defined, or bytes), which are not supported"
                )
            if kind == NORMAL:
                scores[_as_bytes(piece[1]).decode()] = _score(_as_bytes(piece.get(2, bytes(4))))
        elif number in KNOWN:
            specs[number] = dict(_fields(_as_bytes(value)))  # it comes last, so a file without it was cut off
    for where, known in KNOWN.items():
        for field, (name, wanted, default) in known.items():
            if (found := specs[where].get(field, default)) != wanted:
                raise UserError(f"'{path}' has the setting {name}={found!r}; only {wanted} is supported")
    if not scores:
        raise ValueError("no pieces")
    return Pieces(scores, _as_bytes(specs[NORMALIZER].get(CHARACTERS, b"")))


def _as_bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number where there should be bytes")
    return value


def _score(data: bytes) -> float:
    score: float = struct.unpack("<f", data)[0]
    if not isfinite(score):
        raise ValueError("a score that is no number")
    return round(score, 6)  # the library's JSON does not bring back every digit of longer ones


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: the number of each, and its value as a whole number or as bytes."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == VARINT:
            value: int | bytes
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
    """A number of seven bits per byte, the lowest first, where the eighth bit says that more follow; and its end."""
    value = 0
    for count in range(10):
        byte = data[place + count]
        value |= (byte & 127) << 7 * count
        if byte < 128:
            return value, place + count + 1
    raise ValueError("a number of more than ten bytes")


def make_unigram_tokenizer(
    pieces: Pieces, names: list[str], special: list[str], added: list[str], where: str
) -> Tokenizer:
    """A Unigram tokenizer: a text becomes the pieces with the largest Σ log p.

    `names` are the pieces in the order of their ids, followed by those in `special`. They may be of several languages:
    texts are cut into the pieces of one, and of others into single characters at worst. `added` are never cut.
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


def make_bpe_tokenizer(words: list[str], scores: list[float], where: str, kinds: Sequence[int] = ()) -> Tokenizer:
    """A BPE tokenizer with SentencePiece's pieces, of which the first three are <unk>, <s> and </s>.

    `kinds`: NORMAL, CONTROL, ... of each piece; empty: all after the first three are NORMAL.
    """
    names = [*SPECIAL, *words[3:]]
    kinds = [CONTROL] * 3 + list(kinds or [NORMAL] * len(names))[3:]
    ids = {name: id for id, name in enumerate(names)}
    if len(ids) < len(names):
        raise UserError(f"the tokenizer {where} has a piece twice")
    if max(map(len, names)) > LONGEST_PIECE:  # every way to cut it in two is tried below
        raise UserError(f"the tokenizer {where} has a piece of more than {LONGEST_PIECE} characters")
    ranked = sorted((id for id, kind in enumerate(kinds) if kind == NORMAL), key=lambda id: -scores[id])
    merges = [
        (name[:cut], name[cut:])
        for name in (names[id] for id in ranked)
        if not name.startswith("<0x")
        for cut in range(1, len(name))
        if name[:cut] in ids and name[cut:] in ids
    ]
    with library_errors(f"the tokenizer {where} cannot be read"):
        backend = tokenizers.Tokenizer(models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        backend.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
        backend.decoder = decoders.Sequence(
            [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
        backend.add_special_tokens([name for name, kind in zip(names, kinds, strict=True) if kind == CONTROL])
        added = [name for name, kind in zip(names, kinds, strict=True) if kind == USER_DEFINED]
        backend.add_tokens([tokenizers.AddedToken(name, normalized=False) for name in added])
        tokenizer = Tokenizer(backend, "</s>")
    tokenizer.start = ids["<s>"]
    return tokenizer
