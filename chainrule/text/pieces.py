"""Pre-tokenization in compiled code: text is cut into pieces (words, characters), and the different ones are numbered.

The cuts are exactly those that the tokenizer's own normalizer and pre-tokenizer make (for GPT-2's pattern: its regular
expression), so each piece has to be tokenized only once, however often it occurs.

In WORDS, every piece that begins a run of characters other than white space has a space in front: the single one that
is there, or one that is added (at the beginning of a document, and after any other white space). White space at the
beginning of a document gets a space in front, too.
"""

import itertools
import re
import sys
import threading
import unicodedata
from typing import Protocol

import numpy as np

from chainrule.kernels.hashing import hash_spaced
from chainrule.kernels.jit import inlined, kernel

GPT2, CHARACTERS, WHITESPACE, WORDS = 0, 1, 2, 3  # the ways to cut
OTHER, LETTER, NUMBER, SPACE, UNSEEN = 0, 1, 2, 3, 4
WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
END = 0  # the piece that stands for the end of a document
ADDED_SPACE = re.compile(f"\\A |(?<=[{WHITE_SPACE}]) (?=[^{WHITE_SPACE}])")  # in the joined pieces of WORDS
OUTSIDE, AFTER_SPACE, AFTER_WORD = 0, 1, 2  # where a piece begins: outside is the beginning of a document


class DocumentBatch(Protocol):
    """Documents in one UTF-8 buffer: document i is buffer[starts[i]:ends[i]]."""

    @property
    def buffer(self) -> np.ndarray: ...
    @property
    def starts(self) -> np.ndarray: ...
    @property
    def ends(self) -> np.ndarray: ...


def _classify(point: int) -> int:
    if chr(point) in WHITE_SPACE:
        return SPACE
    return {"L": LETTER, "N": NUMBER}.get(unicodedata.category(chr(point))[0], OTHER)


# The class of every code point; those beyond ASCII are filled in when a text first has them, to save start-up time.
CLASSES = np.full(sys.maxunicode + 1, UNSEEN, np.uint8)
CLASSES[:128] = [_classify(point) for point in range(128)]
IS_UNASSIGNED = np.zeros(len(CLASSES), bool)
LEARNING = threading.Lock()


@inlined
def _code_point(buffer, i):
    """(code point, width in bytes) of the character at i of valid UTF-8."""
    first = np.int64(buffer[i])
    if first < 0x80:
        return first, 1
    if first < 0xE0:
        return (first & 0x1F) << 6 | np.int64(buffer[i + 1]) & 0x3F, 2
    if first < 0xF0:
        return (first & 0x0F) << 12 | (np.int64(buffer[i + 1]) & 0x3F) << 6 | np.int64(buffer[i + 2]) & 0x3F, 3
    high = (first & 0x07) << 18 | (np.int64(buffer[i + 1]) & 0x3F) << 12
    return high | (np.int64(buffer[i + 2]) & 0x3F) << 6 | np.int64(buffer[i + 3]) & 0x3F, 4


@kernel
def _collect(buffer, classes, wanted, found):
    """The code points of one class in a text, each once; they are marked as OTHER when found. Returns how many."""
    size = 0
    i = 0
    while i < len(buffer) and size < len(found):
        point, width = _code_point(buffer, i)
        if classes[point] == wanted:
            found[size] = point
            classes[point] = OTHER
            size += 1
        i += width
    return size


@kernel
def _has_any(buffer, is_wanted):
    i = 0
    while i < len(buffer):
        point, width = _code_point(buffer, i)
        if is_wanted[point]:
            return True
        i += width
    return False


def learn_classes(buffer: np.ndarray) -> None:
    """Look up every character of a text (valid UTF-8) that was not met before."""
    found = np.empty(4096, np.int64)
    with LEARNING:
        while size := _collect(buffer, CLASSES, UNSEEN, found):
            points = found[:size].tolist()
            CLASSES[found[:size]] = [_classify(point) for point in points]
            IS_UNASSIGNED[found[:size]] = [unicodedata.category(chr(point)) == "Cn" for point in points]


def has_unassigned(buffer: np.ndarray) -> bool:
    """Characters that this Python's Unicode does not know yet: leave them to the library, which may be newer."""
    learn_classes(buffer)
    return bool(IS_UNASSIGNED.any()) and bool(_has_any(buffer, IS_UNASSIGNED))


@kernel
def _class_run(buffer, i, end, classes, wanted):
    """Where the run of characters of one class that starts at i ends, and where its last character starts."""
    last = i
    while i < end:
        point, width = _code_point(buffer, i)
        if classes[point] != wanted:
            break
        last = i
        i += width
    return i, last


@kernel
def _contraction(buffer, i, end):
    """Length of 's 't 'm 'd 're 've 'll at i, or 0."""
    if i + 1 >= end:
        return 0
    a = buffer[i + 1]
    if a == 115 or a == 116 or a == 109 or a == 100:
        return 2
    if i + 2 < end:
        b = buffer[i + 2]
        if (a == 114 and b == 101) or (a == 118 and b == 101) or (a == 108 and b == 108):
            return 3
    return 0


@kernel
def _gpt2_piece(buffer, i, end, classes):
    """The end of the piece at i: 's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"""
    point, _ = _code_point(buffer, i)
    if point == 39:
        length = _contraction(buffer, i, end)
        if length:
            return i + length
    kind = classes[point]
    if kind != SPACE:
        return _class_run(buffer, i, end, classes, kind)[0]
    if point == 32 and i + 1 < end:
        following = classes[_code_point(buffer, i + 1)[0]]
        if following != SPACE:
            return _class_run(buffer, i + 1, end, classes, following)[0]
    stop, last = _class_run(buffer, i, end, classes, SPACE)
    return last if stop < end and last > i else stop  # the last space goes with the word after it


@kernel
def _word_piece(buffer, i, end, classes, place):
    """(start, end, spaces in front: 0 or 1) of the piece at i, which begins at `place`: OUTSIDE, AFTER_SPACE, ..."""
    point, _ = _code_point(buffer, i)
    kind = classes[point]
    if place == AFTER_WORD:
        if kind != SPACE:
            return i, _gpt2_piece(buffer, i, end, classes), 0
        if point == 32 and i + 1 < end:
            following = classes[_code_point(buffer, i + 1)[0]]
            if following != SPACE:
                return i + 1, _class_run(buffer, i + 1, end, classes, following)[0], 1
    stop, _ = _class_run(buffer, i, end, classes, kind)
    return i, stop, 1 if place == OUTSIDE or kind != SPACE else 0


@inlined
def _slot(slots, hashes, offsets, arena, buffer, start, end, spaces, value):
    """Where the piece is, or the empty place where it belongs (open addressing, linear probing)."""
    mask = len(slots) - 1
    slot = np.int64(value & np.uint64(mask))
    while slots[slot] >= 0:
        piece = slots[slot]
        if hashes[piece] == value and offsets[piece + 1] - offsets[piece] == spaces + end - start:
            base = offsets[piece] + spaces
            i = 0
            while i < end - start and arena[base + i] == buffer[start + i]:
                i += 1
            if i == end - start and (spaces == 0 or arena[base - 1] == 32):
                return slot
        slot = (slot + 1) & mask
    return slot


@kernel
def _rehash(slots, hashes, size):
    mask = len(slots) - 1
    for piece in range(1, size):
        slot = np.int64(hashes[piece] & np.uint64(mask))
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = piece


@kernel
def _cut(mode, buffer, starts, ends, classes, slots, hashes, offsets, arena, progress, out):
    """Cut and number until the end or until a table is full.

    progress = [document, position, pieces known, out, place as in `_word_piece`]
    """
    document, position, size, written, place = progress
    while document < len(starts):
        end = ends[document]
        if position < 0:
            position = starts[document]
            place = OUTSIDE
        while position < end:
            if size + 2 >= len(hashes) or 2 * size >= len(slots):
                progress[:] = document, position, size, written, place
                return False
            start, spaces = position, 0
            if mode == WORDS:
                start, stop, spaces = _word_piece(buffer, position, end, classes, place)
            elif mode == WHITESPACE:
                point, width = _code_point(buffer, position)
                if classes[point] == SPACE:
                    position += width
                    continue
                stop = position
                while stop < end:
                    point, width = _code_point(buffer, stop)
                    if classes[point] == SPACE:
                        break
                    stop += width
            elif mode == CHARACTERS:
                stop = position + _code_point(buffer, position)[1]
            else:
                stop = _gpt2_piece(buffer, position, end, classes)
            value = hash_spaced(buffer, start, stop, spaces)
            slot = _slot(slots, hashes, offsets, arena, buffer, start, stop, spaces, value)
            if slots[slot] < 0:
                if offsets[size] + spaces + stop - start > len(arena):
                    progress[:] = document, position, size, written, place
                    return False
                slots[slot] = size
                hashes[size] = value
                base = offsets[size] + spaces
                arena[offsets[size] : base] = 32
                arena[base : base + stop - start] = buffer[start:stop]
                offsets[size + 1] = base + stop - start
                size += 1
            out[written] = slots[slot]
            written += 1
            position = stop
            if mode == WORDS:
                place = AFTER_SPACE if classes[_code_point(buffer, start)[0]] == SPACE else AFTER_WORD
        out[written] = END
        written += 1
        document += 1
        position = -1
    progress[:] = document, position, size, written, place
    return True


class PieceTable:
    """The different pieces met so far, numbered from 1; 0 is the end of a document."""

    def __init__(self, mode: int):
        self.mode = mode
        self.size = 1
        self._slots = np.full(1 << 15, -1, np.int32)
        self._hashes = np.zeros(1 << 14, np.uint64)
        self._offsets = np.zeros((1 << 14) + 1, np.int64)
        self._arena = np.zeros(1 << 17, np.uint8)

    def cut(self, documents: DocumentBatch) -> np.ndarray:
        """The numbers of all pieces of all documents, END after each document."""
        starts, ends, buffer = documents.starts, documents.ends, documents.buffer
        learn_classes(buffer)
        out = np.empty(int((ends - starts).sum()) + len(starts), np.uint32)
        progress = np.array([0, -1, self.size, 0, OUTSIDE], np.int64)
        while not _cut(
            self.mode, buffer, starts, ends, CLASSES,
            self._slots, self._hashes, self._offsets, self._arena, progress, out,
        ):  # fmt: skip
            self._grow(int(progress[2]), longest=int((ends - starts).max()))
        self.size = int(progress[2])
        return out[: int(progress[3])]

    def _grow(self, size: int, longest: int) -> None:
        if size + 2 >= len(self._hashes) or 2 * size >= len(self._slots):
            self._hashes = np.append(self._hashes, np.zeros_like(self._hashes))
            self._offsets = np.append(self._offsets, np.zeros(len(self._hashes) - len(self._offsets) + 1, np.int64))
            self._slots = np.full(2 * len(self._slots), -1, np.int32)
            _rehash(self._slots, self._hashes, size)
        else:  # the arena: a single piece may be as long as a document
            extra = max(len(self._arena), min(longest + 1, 1 << 40))
            self._arena = np.append(self._arena, np.zeros(extra, np.uint8))

    def pieces(self, first: int = 1) -> list[bytes]:
        """The pieces numbered first, first + 1, ..."""
        data = self._arena[: self._offsets[self.size]].tobytes()
        edges = self._offsets[first : self.size + 1].tolist()
        return [data[a:b] for a, b in itertools.pairwise(edges)]


@kernel
def _join(buffer, starts, ends, end, out):
    written = 0
    for document in range(len(starts)):
        for i in range(starts[document], ends[document]):
            out[written] = buffer[i]
            written += 1
        out[written] = end
        written += 1


def join_documents(documents: DocumentBatch, end: int) -> np.ndarray:
    """The bytes of all documents as ids, `end` after each."""
    sizes = documents.ends - documents.starts
    out = np.empty(int(sizes.sum()) + len(sizes), np.uint32)
    _join(documents.buffer, documents.starts, documents.ends, end, out)
    return out


@kernel
def _output_size(pieces, lengths):
    total = 0
    for i in range(len(pieces)):
        total += lengths[pieces[i]]
    return total


@kernel
def _expand(pieces, offsets, lengths, tokens, out):
    written = 0
    for i in range(len(pieces)):
        start = offsets[pieces[i]]
        for j in range(lengths[pieces[i]]):
            out[written] = tokens[start + j]
            written += 1


def expand(pieces: np.ndarray, lengths: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """The tokens of all pieces in turn; piece p has lengths[p] of them, one piece's after the other's in `tokens`."""
    out = np.empty(_output_size(pieces, lengths), np.uint32)
    _expand(pieces, np.cumsum(lengths) - lengths, lengths, tokens, out)
    return out
