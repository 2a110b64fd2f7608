"""Raw chunks of a text file to chunks of valid UTF-8 with line feeds only, whatever encoding it is in."""

import codecs
import encodings.aliases
from collections.abc import Callable, Iterable, Iterator

from chainrule.data.signatures import refuse_binary
from chainrule.data.tally import Tally, count_carriage_returns
from chainrule.errors import Argument, UserError, did_you_mean

# UTF-32 comes first: its little-endian mark begins with that of UTF-16.
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
WINDOWS = "cp1252"
ABOVE_ASCII = bytes(range(128, 256))
CONTROLS = bytes(each for each in range(32) if each not in b"\t\n\v\f\r\x1b") + b"\x81\x8d\x8f\x90\x9d"
HEAD_BYTES = 16  # enough to tell byte order marks and signatures


def _may_begin_windows(data: bytes, error: UnicodeDecodeError) -> bool:
    """Whether bytes in which there is no UTF-8 before the error, nor part of a character at their end, look like it."""
    is_cut_off = error.reason == "unexpected end of data" and error.end - error.start > 1
    return data[: error.start].isascii() and not is_cut_off and looks_like_windows(data)


def looks_like_windows(data: bytes) -> bool:
    """Whether bytes that are not UTF-8 look like a western language in Windows-1252: letters with accents, quotes and
    the euro sign among ASCII; no control characters, and not one character of UTF-8 for each that is none."""
    above = len(data) - len(data.translate(None, ABOVE_ASCII))
    if above > max(len(data) // 3, 3) or data.translate(None, CONTROLS) != data:
        return False
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    return broken > len(text) - len(text.encode("ascii", "ignore")) - broken


def check_encoding(encoding: str) -> None:
    """Refuse a name that is not 'auto' or a text codec of Python."""
    try:
        if encoding != "auto":
            "a".encode(encoding)
            codecs.getincrementaldecoder(encoding)
    except (LookupError, UnicodeError, ValueError) as error:
        aliases = encodings.aliases.aliases
        known = {"auto", "latin-1", "utf-8", "utf-16", "utf-32", *aliases, *aliases.values()}
        hint = did_you_mean(encoding, sorted(known)) or ";"
        raise UserError(
            f"encoding '{encoding}' is not known{hint} pass auto or a codec of Python such as latin-1 or cp1252"
        ) from error


def clean_chunks(name: str, chunks: Iterable[bytes], encoding: str, tally: Tally) -> Iterator[bytes]:
    """The text of a file as valid UTF-8 without a byte order mark, every line end a line feed."""
    return _line_feeds(TextDecoder(name, encoding, tally).decode(chunks), tally)


class TextDecoder:
    """Decodes one file, and knows the byte and the line it has come to."""

    def __init__(self, name: str, encoding: str, tally: Tally | None = None) -> None:
        self.name = name
        self.encoding = encoding
        self.tally = tally or Tally()
        self.may_be_windows = encoding == "auto"  # as long as nothing in it speaks for UTF-8
        self.offset = 0  # bytes of the file that are decoded
        self.line = 1  # line of the file at which the part to come begins
        self.carry = b""  # the beginning of a UTF-8 character whose end is in the next chunk
        self.ended_in_return = False

    def decode(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Chunks of valid UTF-8, line ends as they are."""
        raw = iter(chunks)
        head = b""
        while len(head) < HEAD_BYTES and (chunk := next(raw, b"")):
            head += chunk
        self.decode_part = self._begin(head)
        yield self.decode_part(head[self.offset :], False)
        for chunk in raw:
            yield self.decode_part(chunk, False)
        yield self.decode_part(b"", True)

    def _begin(self, head: bytes) -> Callable[[bytes, bool], bytes]:
        """Settle the encoding by the first bytes, and pass over a byte order mark."""
        refuse_binary(self.name, head)
        named = "auto" if self.encoding == "auto" else codecs.lookup(self.encoding).name
        self.encoding = "utf-8" if named in ("auto", "utf-8-sig") else named
        for mark, encoding in BYTE_ORDER_MARKS:
            if head.startswith(mark) and (named == "auto" or encoding.startswith(self.encoding)):
                self.encoding, self.offset = encoding, len(mark)
                self.may_be_windows = False
                break
        if self.encoding == "utf-8":
            return self._decode_utf8
        self.decoder = codecs.getincrementaldecoder(self.encoding)("strict")
        return self._decode_other

    def _decode_utf8(self, chunk: bytes, final: bool) -> bytes:
        data = self.carry + chunk if self.carry else chunk
        if (position := data.find(0)) >= 0:
            raise self._has_nul(self.offset + position)
        consumed = len(data)
        if not data.isascii():
            try:
                _, consumed = codecs.utf_8_decode(data, "strict", final)
            except UnicodeDecodeError as error:
                if self.may_be_windows and _may_begin_windows(data, error):
                    return self._go_on_as_windows(data, final)
                raise self._invalid(error.start, data[: error.start]) from error
            self.may_be_windows &= data[:consumed].isascii()
        self.carry = data[consumed:]
        return self._advance(data[:consumed], consumed)

    def _go_on_as_windows(self, data: bytes, final: bool) -> bytes:
        """Decode this part and all that follows as Windows-1252; what was before it is the same in both encodings."""
        self.carry, self.encoding = b"", WINDOWS
        self.decoder = codecs.getincrementaldecoder(WINDOWS)("strict")
        self.decode_part = self._decode_windows
        return self._decode_windows(data, final)

    def _decode_windows(self, chunk: bytes, final: bool) -> bytes:
        text = self._decode_other(chunk, final)
        characters = len(chunk) - len(chunk.translate(None, ABOVE_ASCII))
        self.tally.add("character{s} read as Windows-1252, since the file is not UTF-8", characters)
        return text

    def _decode_other(self, chunk: bytes, final: bool) -> bytes:
        pending = self.decoder.getstate()[0]
        try:
            text = self.decoder.decode(chunk, final)
            encoded = text.encode()
        except UnicodeError as error:
            start = error.start if isinstance(error, UnicodeDecodeError) else 0
            before = (pending + chunk)[:start].decode(self.encoding, "replace")
            raise self._invalid(start, before.encode("utf-8", "replace")) from error
        if (position := text.find("\0")) >= 0:
            raise self._has_nul(self.offset + len(text[:position].encode(self.encoding)))
        left = self.decoder.getstate()[0]
        return self._advance(encoded, len(pending) + len(chunk) - len(left))

    def _advance(self, text: bytes, consumed: int) -> bytes:
        self.offset += consumed
        self.line += self._line_ends(text)
        self.ended_in_return = text.endswith(b"\r") if text else self.ended_in_return
        return text

    def _line_ends(self, text: bytes) -> int:
        count = text.count(b"\n")
        if b"\r" in text:
            count += text.count(b"\r") - text.count(b"\r\n")
        return count - (self.ended_in_return and text.startswith(b"\n"))

    def _invalid(self, start: int, before: bytes) -> UserError:
        return UserError(
            f"'{self.name}' is not {self.encoding.upper()} at byte {self.offset + start} "
            f"(line {self.line + self._line_ends(before)}); convert it to UTF-8",
            Argument("encoding", "cp1252"),
        )

    def _has_nul(self, position: int) -> UserError:
        return UserError(
            f"'{self.name}' looks like a binary file (NUL at byte {position}); give a text file",
            Argument("encoding", "utf-16-le"),
        )


def _line_feeds(chunks: Iterable[bytes], tally: Tally) -> Iterator[bytes]:
    """The same text with CRLF and lone CR as LF, counted; empty chunks are left out."""
    held = b""  # a carriage return at the end of a chunk, whose line feed may open the next
    for chunk in chunks:
        data = held + chunk if held else chunk
        held = b"\r" if data.endswith(b"\r") else b""
        if b"\r" in data:
            data = _replace_returns(data.removesuffix(b"\r"), tally)
        if data:
            yield data
    if held:
        yield _replace_returns(held, tally)


def _replace_returns(data: bytes, tally: Tally) -> bytes:
    pairs = data.count(b"\r\n")
    count_carriage_returns(tally, pairs, data.count(b"\r") - pairs)
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
