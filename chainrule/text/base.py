"""A tokenizer: text to ids and back, one `tokenizer.json` that Hugging Face `tokenizers` reads.

Open vocabularies are byte-level: whatever is not in the vocabulary is spelled in bytes, so decode(encode(x)) = x for
any text. Closed vocabularies map what they do not know to <unk>. One token, <eos>, starts and ends every document;
it never comes out of text, even where the text says "<eos>".

Special tokens, <eos> among them, stand for no text, in tokenizers of every kind. `decode` leaves them out, or writes
their names with skip_special_tokens=False; `encode` reads their names as plain text, or as the tokens with
special_tokens=True. Other tokens that were added to a vocabulary are found in every text, kept whole, and are text.
"""

import codecs
import hashlib
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from chainrule.errors import UserError
from chainrule.text.chat import Chat, Piece
from chainrule.text.incremental import ACROSS, cut_before_spaces
from chainrule.text.pieces import (
    ADDED_SPACE,
    CHARACTERS,
    GPT2,
    WHITE_SPACE,
    WHITESPACE,
    WORDS,
    DocumentBatch,
    PieceTable,
    expand,
    has_unassigned,
    join_documents,
)

EOS = "<eos>"
UNKNOWN = "<unk>"
END_NAMES = (EOS, "<|endoftext|>", "</s>", "<|end_of_text|>", "<|im_end|>")
_SURROGATES = re.compile("[\ud800-\udfff]")  # what Python makes of bytes that are not UTF-8
EVERY_CHARACTER = r"[\s\S]"
SPACE = "▁"  # SentencePiece's sign for a space; every text gets one in front
_BYTE = re.compile("<0x([0-9A-F]{2})>")
CUT_BY_CHARACTERS = {"Prepend", "Replace", "ByteLevel", "Split", "Digits", "WhitespaceSplit", "Metaspace"}
NOT_CUT = "the tokenizer cannot cut this text"  # though its file was read: not every text meets what is wrong in it


@dataclass(frozen=True)
class Vocabulary:
    """How large a vocabulary is made. None: chosen from the text."""

    size: int | None = None
    min_count: int | None = None
    is_closed: bool = False
    special_tokens: tuple[str, ...] = ()  # that are found in text and kept whole

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise UserError(f"the vocabulary size must be at least 1, got {self.size}")
        if self.min_count is not None and self.min_count < 1:
            raise UserError(f"the minimum count must be at least 1, got {self.min_count}")


def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for every byte: {'!': 33, ..., 'Ġ': 32, ...}."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(rest)}


BYTES = byte_alphabet()
SYMBOLS = {byte: symbol for symbol, byte in BYTES.items()}


def byte_level(data: bytes) -> str:
    """Bytes written in GPT-2's alphabet: b' the' -> 'Ġthe'."""
    return "".join(map(SYMBOLS.__getitem__, data))


def end_with_eos(backend: tokenizers.Tokenizer) -> "Tokenizer":
    """The last id becomes <eos>; the model's own vocabulary does not hold it, so no text can spell it."""
    backend.add_special_tokens([EOS])
    return Tokenizer(backend)


@contextmanager
def library_errors(what: str) -> Iterator[None]:
    """Turn the library's errors about a bad file into one UserError; on some it panics, which is not an Exception."""
    try:
        yield
    except (UserError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        said = " ".join(str(error).split())[:120]
        raise UserError(f"{what} ({said or type(error).__name__})") from None


class Tokenizer:
    def __init__(self, backend: tokenizers.Tokenizer, end: str | None = None):
        """`end`: the token that ends a text, where it is none of the usual names or there are several."""
        _make_plain(backend)
        self.backend = backend
        self.vocabulary_size: int = backend.get_vocab_size()
        self._settings: dict[str, Any] = json.loads(backend.to_str())
        self.is_closed = self._settings["model"]["type"] == "WordLevel"
        self.marks_spaces = SPACE in json.dumps(self._settings["decoder"], ensure_ascii=False)  # as SentencePiece does
        self.adds_spaces = _adds_spaces(backend)
        self.unknown: int | None = self._find_unknown() if self.is_closed else None
        self.eos: int = self._find_eos((end,) if end else END_NAMES)
        self._added = {each["id"]: each for each in self._settings["added_tokens"] if not each["special"]}
        self.hidden = {id: name for name, id in self.special.items() if id != self.unknown}  # stand for no text
        self.start: int | None = (
            self.eos
        )  # what every text begins with; None: nothing, as some models elsewhere have it
        self.chat: Chat | None = None  # how conversations are written, where the model was trained on them
        self._pattern = self._way_to_cut()
        self._cut = None if self._added else self._pattern
        self._lock = threading.Lock()
        self._forget_pieces()

    def _find_unknown(self) -> int:
        name = self._settings["model"]["unk_token"]
        unknown = self.backend.token_to_id(name)
        if unknown is None:
            raise UserError(f"the tokenizer's vocabulary is closed but has no token for unknown words, '{name}'")
        return int(unknown)

    def _find_eos(self, names: tuple[str, ...]) -> int:
        """The end token: special, so that no text can spell it."""
        name = next((name for name in names if name in self.special), None)
        if name is None:
            raise UserError(f"the tokenizer has no end token: none of {', '.join(names)} is a special token of it")
        eos: int = self.backend.token_to_id(name)  # type: ignore[assignment]
        if eos in self.backend.encode(name, add_special_tokens=False).ids:
            raise UserError(f"the tokenizer takes '{name}' in a text for the end of the document; rename that word")
        return eos

    def _way_to_cut(self) -> int | None:
        """The compiled pre-tokenizer that makes this tokenizer's cuts; None where only the library can make them."""
        settings, model = self._settings, self._settings["model"]
        if self.adds_spaces and self.is_lossless and model["ignore_merges"] and not model["merges"]:
            return WORDS
        if settings["normalizer"] is not None:
            return None
        steps = settings["pre_tokenizer"] or {}
        steps = steps["pretokenizers"] if steps.get("type") == "Sequence" else [steps]
        kinds = [step.get("type") for step in steps]
        if kinds == ["ByteLevel"] and steps[0]["use_regex"] and not steps[0]["add_prefix_space"]:
            return GPT2
        if kinds[0] == "Split" and steps[0]["pattern"] == {"Regex": EVERY_CHARACTER}:
            return CHARACTERS
        return WHITESPACE if kinds == ["WhitespaceSplit"] else None

    @property
    def kind(self) -> str:
        """bytes, characters, words or bpe; 'other' for tokenizers made elsewhere in other ways."""
        model = self._settings["model"]
        if self._cut == CHARACTERS:
            return "bytes" if model["type"] == "BPE" and not model["ignore_merges"] else "characters"
        if self._cut == WHITESPACE or (model["type"] == "BPE" and model["ignore_merges"] and not model["merges"]):
            return "words"
        return "bpe" if model["type"] == "BPE" else "other"

    def encode(self, text: str, special_tokens: bool = False) -> np.ndarray:
        """'to be' -> [1045, 307]: no <eos> is added.

        With `special_tokens`, names of special tokens in the text are these tokens (where several begin at one place,
        the longest); without it they are text like any other.
        """
        return self._encode_part(text, special_tokens, self.backend)

    def encode_iterable(self, texts: Iterable[str], special_tokens: bool = False) -> Iterator[int]:
        """The ids of the joined texts, such as the lines of an open file, which are read as the ids are needed.

        Where tokens may reach across spaces, or it is not known what the tokenizer does, all texts are read first.
        """
        backend = self.backend
        for part in cut_before_spaces(texts) if self._can_be_cut else ["".join(texts)]:
            ids = self._encode_part(part, special_tokens, backend).tolist()
            yield from ids
            is_after_special = special_tokens and ids and ids[-1] in self.hidden
            backend = self._further if is_after_special else self._continuing

    def _encode_part(self, text: str, special_tokens: bool, backend: tokenizers.Tokenizer) -> np.ndarray:
        if special_tokens:
            return self._encode_marked([Piece(text, is_ours=True)], self.special, backend)
        return _encode(backend, text)

    @cached_property
    def _can_be_cut(self) -> bool:
        """Whether no token of any text reaches across a space that follows other characters."""
        steps = [*_kinds(self._settings["normalizer"]), *_kinds(self._settings["pre_tokenizer"])]
        is_known = self.adds_spaces or all(kind in CUT_BY_CHARACTERS for kind in steps)
        names = [*self.special, *(each["content"] for each in self._added.values())]
        names += [spelled.decode("utf-8", "replace") for spelled in self.token_bytes]
        adds_or_strips = any(each["lstrip"] or each["rstrip"] for each in self._settings["added_tokens"])
        adds_or_strips |= bool(self._added) and (self.marks_spaces or self.adds_spaces)
        keeps = self.is_lossless or self.is_closed
        return is_known and keeps and not adds_or_strips and not any(map(ACROSS.search, names))

    @cached_property
    def _continuing(self) -> tokenizers.Tokenizer:
        """The tokenizer for text that goes on with a space: nothing is put before it."""
        settings = json.loads(self._further.to_str())
        steps = settings["normalizer"]
        if self.adds_spaces or (steps and steps["type"] == "Prepend"):
            settings["normalizer"] = None
        elif steps and steps["type"] == "Sequence":
            steps["normalizers"] = [step for step in steps["normalizers"] if step["type"] != "Prepend"]
        backend = tokenizers.Tokenizer.from_str(json.dumps(settings))
        backend.encode_special_tokens = True
        return backend

    def encode_within(self, text: str) -> np.ndarray:
        """The ids of a text that stands in the middle of another, glued to what is before it unless it has a space."""
        return _encode(self._glued, text)

    @cached_property
    def _glued(self) -> tokenizers.Tokenizer:
        """The tokenizer without the space that is added before the first word."""
        if not self.adds_spaces:
            return self._further
        return byte_level_backend(self.backend.model)

    def encode_pieces(self, pieces: Iterable[Piece], known: dict[str, list[int]] | None = None) -> np.ndarray:
        """The ids of a conversation: special tokens where ours name them, everything else as text.

        Text between two special tokens is cut as one, whoever wrote it. `known` keeps the ids of such texts, for a
        conversation that is encoded again and again as it grows.
        """
        return self._encode_marked(pieces, {**self.special, "<s>": self.start, "</s>": self.eos}, self.backend, known)

    def _encode_marked(
        self,
        pieces: Iterable[Piece],
        marks: Mapping[str, int | None],
        first: tokenizers.Tokenizer,
        known: dict[str, list[int]] | None = None,
    ) -> np.ndarray:
        """The ids of pieces; `first` reads the text before any mark."""
        known = {} if known is None else known
        names = re.compile("(" + "|".join(map(re.escape, sorted(marks, key=len, reverse=True))) + ")")
        parts: list[Any] = [""]  # text, mark, text, mark, ..., text
        for piece in pieces:
            for part in names.split(piece.text) if piece.is_ours else [piece.text]:
                if piece.is_ours and part in marks:
                    parts += [marks[part], ""]
                else:
                    parts[-1] += part
        ids = [] if parts[0] == "" else _encode(first, parts[0]).tolist()
        for mark, text in zip(parts[1::2], parts[2::2], strict=True):
            ids += [] if mark is None else [mark]
            if text and text not in known:
                known[text] = _encode(self._further, text).tolist()
            ids += known[text] if text else []
        return np.array(ids, np.uint32)

    @cached_property
    def _further(self) -> tokenizers.Tokenizer:
        """The tokenizer for text after a special token: without the space that some put before a text's first word."""
        once = '"prepend_scheme":"first"'
        if once not in self.json:
            return self.backend
        backend = tokenizers.Tokenizer.from_str(self.json.replace(once, '"prepend_scheme":"never"'))
        _make_plain(backend)
        return backend

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """The text of tokens. Special tokens are left out, or with skip_special_tokens=False written by their names."""
        if self.joins_with_spaces or self.marks_spaces:
            stream = self.stream(skip_special_tokens)
            return "".join([stream.feed(int(id)) for id in ids]) + stream.flush()
        spelled = self.token_bytes if skip_special_tokens else self.named_token_bytes
        text = b"".join([spelled[int(id)] for id in ids]).decode("utf-8", "replace")
        return ADDED_SPACE.sub("", text) if self.adds_spaces else text

    def decode_parts(self, parts: Iterable[Iterable[int]]) -> list[str]:
        """The texts of parts of one text, which joined are the text of all their ids."""
        stream = self.stream()
        texts = ["".join([stream.feed(int(id)) for id in part]) for part in parts]
        return [*texts[:-1], texts[-1] + stream.flush()] if texts else []

    def ends(self, ids: Iterable[int]) -> np.ndarray:
        """Where each token of a text ends, in bytes of the text."""
        spelled = [self.token_bytes[int(id)] for id in ids]
        ends = np.cumsum([len(each) for each in spelled], dtype=np.int64)
        if not self.adds_spaces:
            return ends
        between = ADDED_SPACE.split(b"".join(spelled).decode("utf-8", "surrogateescape"))
        sizes = [len(each.encode("utf-8", "surrogateescape")) + 1 for each in between[:-1]]
        return ends - np.searchsorted(np.cumsum(sizes), ends, side="right")

    def stream(self, skip_special_tokens: bool = True) -> "StreamDecoder":
        return StreamDecoder(self, skip_special_tokens)

    def spell(self, ids: Iterable[int]) -> bytes:
        """The bytes of a text of these tokens: `decode` before a character that was cut off is replaced."""
        spelled = (b" " if self.joins_with_spaces else b"").join(map(self.token_bytes.__getitem__, ids))
        if self.adds_spaces:
            text = spelled.decode("utf-8", "surrogateescape")
            return ADDED_SPACE.sub("", text).encode("utf-8", "surrogateescape")
        return spelled.removeprefix(b" ") if self.marks_spaces else spelled

    def find_changed(self, documents: DocumentBatch, ids: np.ndarray) -> np.ndarray:
        """Which documents are not what their tokens spell; all of them, where a vocabulary is closed.

        `ids`: the tokens of all documents, <eos> after each.
        """
        if self.is_closed or self.keeps_every_text:
            return np.full(len(documents.starts), self.is_closed)
        ends = np.flatnonzero(ids == self.eos)
        begins = np.concatenate([[0], ends[:-1] + 1])
        columns = zip(begins, ends, documents.starts, documents.ends, strict=True)
        return np.array(
            [self.spell(ids[a:b].tolist()) != documents.buffer[start:end].tobytes() for a, b, start, end in columns],
            dtype=bool,
        )

    @property
    def answer_ends(self) -> tuple[int, ...]:
        """Special tokens that end an answer in the conversations it was made for, beside its end token."""
        names = self.chat.written.ends if self.chat else ()
        return tuple(self.special[name] for name in names if name in self.special)

    @cached_property
    def special(self) -> dict[str, int]:
        """Ids of the special tokens, by their names."""
        return {token["content"]: token["id"] for token in self._settings["added_tokens"] if token["special"]}

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """The bytes of UTF-8 that each id stands for; none for special tokens."""
        return [b"" if id in self.hidden else self._spell_token(id) for id in range(self.vocabulary_size)]

    @cached_property
    def named_token_bytes(self) -> list[bytes]:
        """The bytes of UTF-8 that each id stands for; the names of special tokens."""
        return [
            self.hidden[id].encode() if id in self.hidden else spelled for id, spelled in enumerate(self.token_bytes)
        ]

    def _spell_token(self, id: int) -> bytes:
        name = self.backend.id_to_token(id) or ""
        if self.marks_spaces:
            return _spelled(name)
        if id in self._added or not self._is_byte_level:
            return name.encode()
        return bytes(BYTES[symbol] for symbol in name) if all(symbol in BYTES for symbol in name) else b""

    @property
    def _is_byte_level(self) -> bool:
        return self.adds_spaces or isinstance(self.backend.decoder, decoders.ByteLevel)

    @cached_property
    def is_lossless(self) -> bool:
        """Whether every text comes back from its tokens: all bytes are there, and nothing is changed on the way."""
        if self.marks_spaces:
            return self._is_lossless_with_marks()
        steps = self._settings["pre_tokenizer"] or {}
        steps = steps["pretokenizers"] if steps.get("type") == "Sequence" else [steps]
        keeps = self.adds_spaces or all(
            (step.get("type") == "ByteLevel" and not step["add_prefix_space"])
            or (step.get("type") == "Split" and step["behavior"] == "Isolated" and not step["invert"])
            or step.get("type") == "Digits"
            for step in steps
        )
        known = self.backend.get_vocab(with_added_tokens=False)
        model = self._settings["model"]
        is_plain = not (model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"))
        return (
            keeps
            and is_plain
            and any(step.get("type") == "ByteLevel" for step in steps)
            and (self._settings["normalizer"] is None or self.adds_spaces)
            and self._is_byte_level
            and all(symbol in known for symbol in BYTES)
            and not any(each["lstrip"] or each["rstrip"] for each in self._added.values())
        )

    @property
    def keeps_every_text(self) -> bool:
        """Whether losslessness is certain for any text, with no need to look at it. SentencePiece's sign for a space,
        and what its normalizers change, come back otherwise."""
        return self.is_lossless and not self.marks_spaces

    def _is_lossless_with_marks(self) -> bool:
        """Whether bytes spell what the vocabulary has not. (A text that has the sign itself gets a space for it.)"""
        known = self.backend.get_vocab(with_added_tokens=True)
        return all(f"<0x{byte:02X}>" in known for byte in range(256))

    @property
    def joins_with_spaces(self) -> bool:
        return self._cut == WHITESPACE

    @property
    def ignores_first_space(self) -> bool:
        """Whether a space before the first word of a prompt says nothing: in our own tokenizers of words or byte pairs.

        Their documents begin with a word. Tokenizers made elsewhere may tell " The" from "The", and words of version
        0.1 do.
        """
        return self.adds_spaces or (self.kind == "bpe" and self._pattern == GPT2 and self.end == EOS)

    def token_text(self, id: int) -> str:
        """One token as a person would want to see it: 'the', ' the', '<eos>', '\\xe2' for half a character."""
        return self.named_token_bytes[id].decode("utf-8", "backslashreplace")

    def encode_documents(self, documents: DocumentBatch) -> np.ndarray:
        """The tokens of all documents, <eos> after each: the same ids as `encode`, but each piece is looked up once."""
        if self._ids_are_bytes:
            return join_documents(documents, self.eos)
        if self._table is None or has_unassigned(documents.buffer):
            return self._encode_slowly(documents)
        with self._lock:  # the table grows as it is read
            pieces = self._table.cut(documents)
            if self._table.size > len(self._lengths):
                try:
                    self._learn(self._table.pieces(len(self._lengths)))
                except BaseException:
                    self._forget_pieces()  # those of this text alone have no tokens
                    raise
            return expand(pieces, self._lengths, self._tokens)

    @cached_property
    def _ids_are_bytes(self) -> bool:
        """Whether every byte of a text is its own id."""
        ours, mine = _settings_of_bytes(), self._settings
        return (
            not self._added
            and all(mine[part] == ours[part] for part in ("normalizer", "pre_tokenizer"))
            and {**mine["model"], "vocab": None} == {**ours["model"], "vocab": None}
            and self.token_bytes[:256] == [bytes([byte]) for byte in range(256)]
        )

    def _forget_pieces(self) -> None:
        self._table = PieceTable(self._cut) if self._cut is not None else None
        self._lengths = np.array([1], np.int64)  # piece 0 is the end of a document
        self._tokens = np.array([self.eos], np.uint32)

    def _learn(self, pieces: Sequence[bytes]) -> None:
        """Tokenize the pieces that were not met before."""
        ids = self._ids_of(pieces)
        self._lengths = np.append(self._lengths, np.array([len(each) for each in ids], np.int64))
        self._tokens = np.append(self._tokens, np.array([id for each in ids for id in each], np.uint32))

    def _ids_of(self, pieces: Sequence[bytes]) -> list[list[int]]:
        """Vocabularies without merges are looked up here, which is much faster than asking the library."""
        model = self._settings["model"]
        if self.unknown is not None and self._cut is not None:
            return [[model["vocab"].get(piece.decode(), self.unknown)] for piece in pieces]
        if self.is_lossless and not model["merges"]:
            known, is_whole = model["vocab"], model["ignore_merges"]
            names = [byte_level(piece) for piece in pieces]
            return [
                [known[name]] if is_whole and name in known else [known[symbol] for symbol in name] for name in names
            ]
        return self._encode_batch([piece.decode() for piece in pieces])

    def _encode_slowly(self, documents: DocumentBatch) -> np.ndarray:
        texts = [
            documents.buffer[start:end].tobytes().decode()
            for start, end in zip(documents.starts, documents.ends, strict=True)
        ]
        return np.array([id for ids in self._encode_batch(texts) for id in (*ids, self.eos)], np.uint32)

    def _encode_batch(self, texts: list[str]) -> list[list[int]]:
        with library_errors(NOT_CUT):
            encodings = self.backend.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    @cached_property
    def json(self) -> str:
        return self.backend.to_str()

    @property
    def end(self) -> str:
        """The end token by its own name."""
        name: str = self.backend.id_to_token(self.eos)  # type: ignore[assignment]
        return name

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.json.encode()).hexdigest()

    def save(self, path: Path) -> None:
        path.write_text(self.json, encoding="utf-8")

    @classmethod
    def load(cls, path: Path, end: str | None = None) -> "Tokenizer":
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read the tokenizer '{path}': {error}") from None
        with library_errors(f"'{path}' is not a tokenizer that can be read"):
            return cls(tokenizers.Tokenizer.from_str(text), end)


class StreamDecoder:
    """Decodes tokens as they come: a character that needs several tokens appears with its last one.

    A space that may turn out to be an added one appears with what follows it.
    """

    def __init__(self, tokenizer: Tokenizer, skip_special_tokens: bool = True):
        self._bytes = tokenizer.token_bytes if skip_special_tokens else tokenizer.named_token_bytes
        self._skipped = tokenizer.hidden if skip_special_tokens else {}
        self._space = tokenizer.joins_with_spaces
        self._marks = tokenizer.marks_spaces
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_first = True
        self._adds = tokenizer.adds_spaces
        self._before = "\n"  # white space or "x" for what came before, and the space that is held back

    def feed(self, id: int) -> str:
        if id in self._skipped:
            return ""
        text = self._decoder.decode(self._bytes[id])
        if self._adds:
            return self._without_added(text)
        if self._space and not self._is_first:
            text = " " + text
        if self._marks and self._is_first and self._bytes[id]:
            text = text.removeprefix(" ")
        self._is_first = self._is_first and not self._bytes[id]
        return text

    @property
    def state(self) -> str:
        """What the text of the next token depends on: whether it is the "first" one, comes after white "space", after
        white space and a space that is "held" back, or "later"."""
        if self._is_first and (self._adds or self._space or self._marks):
            return "first"
        return {"\n": "space", "\n ": "held"}.get(self._before, "later") if self._adds else "later"

    def flush(self) -> str:
        text = self._decoder.decode(b"", final=True)
        if not self._adds:
            return text
        text = self._without_added(text) + self._before[1:]
        self.settle()
        return text

    def settle(self) -> None:
        """Take a space that is held back for one that is in the text, and already shown."""
        self._before = self._before[0]

    def _without_added(self, text: str) -> str:
        """What is now certain: without the first space of the text, and the last of white space before a word."""
        if not text:
            return ""
        text = self._before + (text.removeprefix(" ") if self._is_first else text)
        self._is_first = False
        is_held = text[-1] == " " and text[-2:-1] in WHITE_SPACE
        shown = text[:-1] if is_held else text
        self._before = ("\n" if shown[-1] in WHITE_SPACE else "x") + text[len(shown) :]
        return ADDED_SPACE.sub("", shown)[1:]


def _encode(backend: tokenizers.Tokenizer, text: str) -> np.ndarray:
    if not text.isascii() and _SURROGATES.search(text):
        raise UserError("the text has bytes that are not UTF-8; save it as UTF-8, or check your terminal's encoding")
    with library_errors(NOT_CUT):
        return np.array(backend.encode(text, add_special_tokens=False).ids, np.uint32)


def _make_plain(backend: tokenizers.Tokenizer) -> None:
    """Switch off truncation, padding and dropout, so that ids depend on the text alone; refuse what is unsupported."""
    ids = backend.get_vocab(with_added_tokens=True).values()
    if not ids or max(ids) >= len(ids):
        found = f"{len(ids)} tokens with ids up to {max(ids, default=0)}"
        raise UserError(f"the tokenizer.json has {found}; ids must count up without gaps")
    is_known = isinstance(backend.decoder, decoders.ByteLevel | decoders.Fuse | None)
    if not is_known and not _undoes_marks(backend) and not _adds_spaces(backend):
        raise UserError(
            f"the tokenizer decodes by {type(backend.decoder).__name__}, which is not supported; use ByteLevel, or "
            "SentencePiece's ▁ and <0x00> to <0xFF>"
        )
    backend.no_padding()
    backend.no_truncation()
    if isinstance(backend.model, models.BPE):
        backend.model.dropout = None
    backend.encode_special_tokens = True  # special tokens written out in a text are just text


def _undoes_marks(backend: tokenizers.Tokenizer) -> bool:
    """Whether a decoder works as SentencePiece's: ▁ is a space, <0xE2> a byte, and the first space is dropped."""
    steps = json.loads(backend.decoder.__getstate__())
    steps = steps["decoders"] if steps["type"] == "Sequence" else [steps]
    kinds = [step["type"] for step in steps]
    spaces = [step for step in steps if step["type"] == "Replace"]
    return kinds in (["Replace", "ByteFallback", "Fuse", "Strip"], ["Replace", "ByteFallback", "Fuse"]) and (
        spaces == [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}]
    )


def _kinds(step: dict[str, Any] | None) -> list[str]:
    """The kinds of all steps of a normalizer or pre-tokenizer."""
    if step is None:
        return []
    inner = step.get("normalizers") or step.get("pretokenizers")
    if inner:
        return [kind for each in inner for kind in _kinds(each)]
    is_by_pattern = step["type"] == "Replace" and "Regex" in step["pattern"]  # which may look at what is around it
    return ["Replace by pattern" if is_by_pattern else step["type"]]


def _spelled(name: str) -> bytes:
    """'▁the' -> b' the', '<0xE2>' -> b'\\xe2'."""
    byte = _BYTE.fullmatch(name)
    return bytes([int(byte[1], 16)]) if byte else name.replace(SPACE, " ").encode()


def bytes_backend() -> tokenizers.Tokenizer:
    """A library tokenizer whose ids are the bytes of a text."""
    every_character = pre_tokenizers.Split(tokenizers.Regex(EVERY_CHARACTER), "isolated")
    return byte_level_backend(models.BPE(vocab=byte_alphabet(), merges=[]), every_character)


@cache
def _settings_of_bytes() -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(bytes_backend().to_str())
    return settings


def byte_level_backend(
    model: Any, pre_tokenizer: Any | None = None, cuts_as_gpt2: bool | None = None
) -> tokenizers.Tokenizer:
    """A backend whose tokens are bytes in GPT-2's alphabet, cut by GPT-2's pattern where nothing else cuts."""
    backend = tokenizers.Tokenizer(model)
    cuts_as_gpt2 = pre_tokenizer is None if cuts_as_gpt2 is None else cuts_as_gpt2
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=cuts_as_gpt2)
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizer, gpt2]) if pre_tokenizer else gpt2
    backend.decoder = decoders.ByteLevel()
    return backend


def add_spaces(backend: tokenizers.Tokenizer) -> None:
    """Let a byte-level backend read every word with a space in front, at the beginning of a line or document too.

    The text is cut after white space other than single spaces, and every part gets a space in front, the first one even
    if it begins with a space. So the added ones are the first of the text, and those before a word after other white
    space; decoding takes them away.
    """
    backend.normalizer = normalizers.Replace(tokenizers.Regex(r"\A "), "  ")
    after_space = pre_tokenizers.Split(tokenizers.Regex(r"\s\s+|[^\S ]"), "merged_with_previous")
    backend.pre_tokenizer = pre_tokenizers.Sequence([after_space, pre_tokenizers.ByteLevel(add_prefix_space=True)])
    drop = decoders.Replace(tokenizers.Regex(r"\A |(?<=\s) (?=\S)"), "")
    backend.decoder = decoders.Sequence([decoders.ByteLevel(), drop])


def _adds_spaces(backend: tokenizers.Tokenizer) -> bool:
    """Whether a tokenizer has exactly the steps of `add_spaces`."""
    return _steps(backend) == _steps_that_add_spaces()


def _steps(backend: tokenizers.Tokenizer) -> list[bytes]:
    """What a backend does around its model, as JSON."""
    steps = (backend.normalizer, backend.pre_tokenizer, backend.decoder)
    return [b"" if step is None else step.__getstate__() for step in steps]


@cache
def _steps_that_add_spaces() -> list[bytes]:
    backend = tokenizers.Tokenizer(models.BPE())
    add_spaces(backend)
    return _steps(backend)
