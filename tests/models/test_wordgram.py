"""The word n-gram of bytes against sums over all words, with p(word | words) from the project's own n-gram model."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from chainrule.errors import UserError
from chainrule.models import ngram
from chainrule.models.wordgram import Config, Model
from chainrule.storage import load_arrays, save_arrays

EOS = 256
ORDER, SPELLING_ORDER = 3, 3
DOCUMENTS = [
    b"The cow eats hay. The old cow, \xc3\xa0 la ferme, eats grass!\nThe cows eat.",
    b"An old cow eats 12 hay-stacks (or 13)...  The end",
    "The cow says: “moo”, “moo” — 牛吃草。牛吃".encode(),
    b"",
    b"the hay, the grass;\tthe cow's hay!\n\nThe cow eats hay.",
]
UNSEEN = [
    b"The cow eats the zebra, quickly.  Zounds! 77",
    "the café — 草吃牛“ oh”\n".encode() + b"\x80\x81 \xff\xfe\xc3\x00 x" + b"y" * 50 + b" hay",
    b" The  cow",
]

# What chainrule/models/wordgram.py says of tokens, as one regular expression.
WORD, PUNCTUATION, WIDE = rb"[A-Za-z0-9\x80-\xe1]+", rb"[!-/:-@\[-`{-~]+", rb"[\xe2-\xff][\x80-\xbf]*"
TOKEN = re.compile(b" ?(?:%b|%b|%b)|." % (WORD, PUNCTUATION, WIDE), re.DOTALL)
GROUPS = [rb"[a-z]", rb"[A-Z]", rb"[0-9]", rb"[\x80-\xbf]", rb"[\xc0-\xe1]", rb"[\xe2-\xff]", PUNCTUATION]
SINGLES = [bytes([byte]) for byte in range(128) if not re.match(b"%b|%b" % (WORD, PUNCTUATION), bytes([byte]))]
END = b"END"  # not a token: letters in capitals are a word, but no document below has this one


def stream_of(documents: list[bytes]) -> np.ndarray:
    return np.array([EOS, *(symbol for document in documents for symbol in (*document, EOS))], np.uint32)


def kind_of(token: bytes) -> str | None:
    """The kind of unknown word that a token is: the group of its first byte, with or without a space."""
    bare = token.removeprefix(b" ")
    for group, pattern in enumerate(GROUPS):
        if bare and re.match(pattern, bare):
            return f"{group} {token != bare}"
    return None


class Reference:
    """Every probability as a sum over the whole vocabulary."""

    def __init__(self, documents: list[bytes]):
        texts = [TOKEN.findall(document) for document in documents]
        counts = Counter(token for tokens in texts for token in tokens)
        runs = [token for token in counts if kind_of(token)]
        self.words = SINGLES + [token for token in runs if counts[token] > 1 and len(token) <= 32]
        kinds = [f"{group} {space}" for group in range(len(GROUPS)) for space in (False, True)]
        self.ids = {key: id for id, key in enumerate([*self.words, *kinds, END])}
        size = len(self.ids)
        stream = [size - 1, *(id for tokens in texts for id in (*map(self.id, tokens), size - 1))]
        self.model = ngram.Model(ngram.Config(order=ORDER), size, size - 1).fit([np.array(stream, np.uint32)])
        spelled = stream_of([token.removeprefix(b" ") for token in runs])
        self.speller = ngram.Model(ngram.Config(order=SPELLING_ORDER), 257, EOS).fit([spelled])

    def id(self, token: bytes) -> int:
        return self.ids[token] if token in self.ids else self.ids[kind_of(token)]

    def spelling(self, run: bytes) -> np.ndarray:
        """p(next byte, or the end, of a run): of what keeps it one token."""
        ids = np.array([[EOS, *run]])
        shares = np.exp(self.speller.step(ids, self.speller.start(1))[0][0, -1].astype(float))
        for byte in range(256):
            if run and len(TOKEN.findall(run + bytes([byte]))) > 1:
                shares[byte] = 0
        return shares / shares.sum()

    def begins(self, kind: str, beginning: bytes) -> float:
        """p_spelling(beginning ... | kind)."""
        group, space = kind.split()
        if space == "True" and not beginning.startswith(b" "):
            return float(beginning == b"")
        run = beginning[space == "True" :]
        if not run:
            return 1.0
        first = self.spelling(b"")
        is_member = [bool(re.match(GROUPS[int(group)], bytes([byte]))) for byte in range(256)]
        total = first[:256][is_member].sum()
        found = first[run[0]] / total if is_member[run[0]] else 0.0
        for i in range(1, len(run)):
            found *= self.spelling(run[:i])[run[i]]
        return found

    def tokens(self, before: list[bytes]) -> dict[object, float]:
        """p(token | tokens before) of the whole vocabulary, without what cannot follow the last one."""
        ids = np.array([[self.ids[END], *map(self.id, before)]])
        found = np.exp(self.model.step(ids, self.model.start(1))[0][0, -1].astype(float))
        shares = {}
        for key, id in self.ids.items():
            example = key if isinstance(key, bytes) else self.example(key)
            if not before or key == END or TOKEN.findall(before[-1] + example)[0] == before[-1]:
                shares[key] = found[id]
        total = sum(shares.values())
        return {key: share / total for key, share in shares.items()}

    @staticmethod
    def example(kind: str) -> bytes:
        group, space = kind.split()
        first = next(bytes([byte]) for byte in range(256) if re.match(GROUPS[int(group)], bytes([byte])))
        return (b" " if space == "True" else b"") + first

    def mass(self, shares: dict[object, float], beginning: bytes) -> float:
        """p(beginning ...) of the next token."""
        words = sum(share for key, share in shares.items() if key in self.words and key.startswith(beginning))
        kinds = [key for key in shares if isinstance(key, str)]
        return words + sum(shares[key] * self.begins(key, beginning) for key in kinds)

    def probability(self, text: bytes, symbol: int) -> float:
        """p(symbol | text, from the start of a document)."""
        *before, current = TOKEN.findall(text) or [b""]
        if not current or (current in SINGLES and current != b" "):
            shares = self.tokens([*before, *([current] if current else [])])
            return shares[END] if symbol == EOS else self.mass(shares, bytes([symbol]))
        shares = self.tokens(before)
        total = self.mass(shares, current)
        if symbol != EOS and len(TOKEN.findall(current + bytes([symbol]))) == 1:
            return self.mass(shares, current + bytes([symbol])) / total
        ended = shares.get(current, 0.0)
        if current != b" ":
            kind = kind_of(current)
            ended += shares[kind] * self.begins(kind, current) * self.spelling(current.removeprefix(b" "))[EOS]
        following = self.tokens([*before, current])
        return ended / total * (following[END] if symbol == EOS else self.mass(following, bytes([symbol])))


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(Config(ORDER, SPELLING_ORDER), 257, EOS).fit([stream_of(DOCUMENTS)])


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference(DOCUMENTS)


def test_probabilities_are_sums_over_all_words(model: Model, reference: Reference):
    for document in [*DOCUMENTS[1:3], *UNSEEN]:
        scores = model.score(stream_of([document]))
        for i, symbol in enumerate([*document, EOS]):
            assert scores[i] == pytest.approx(np.log(reference.probability(document[:i], symbol)), abs=1e-4)


def test_every_symbol_after_a_beginning_is_a_sum_over_all_words(model: Model, reference: Reference):
    for text in (b"", b"The", b"The ", b"The cow eats h", b"Zq", b"hay, ", "牛".encode(), b"\n", b"  "):
        logits = model.step(np.array([[EOS, *text]]), model.start(1))[0][0, -1]
        expected = [reference.probability(text, symbol) for symbol in range(257)]
        assert sum(expected) == pytest.approx(1, abs=1e-5)
        np.testing.assert_allclose(np.exp(logits), expected, rtol=1e-4)


def test_the_bits_lead_to_the_probabilities_of_steps(model: Model):
    stream = stream_of([*UNSEEN, *DOCUMENTS, b"\xff\xff", b""])
    logits = model.step(stream[None, :-1].astype(np.int64), model.start(1))[0][0]
    np.testing.assert_allclose(np.exp(logits).sum(-1), 1, atol=1e-5)
    expected = logits[np.arange(len(logits)), stream[1:]]
    np.testing.assert_allclose(model.score(stream), expected, atol=1e-5)
    bits = model.bit_probabilities(stream).astype(float)
    leaves = np.minimum(stream[1:], 255)
    is_one = np.concatenate([leaves[:, None] >> np.arange(7, -1, -1) & 1 == 1, (stream[1:] == EOS)[:, None]], 1)
    chosen = np.where(is_one, bits, 1 - bits)
    assert (bits[leaves < 255, 8] == 0.5).all()
    chosen[leaves < 255, 8] = 1.0
    # what a bit has of 32 bits tells apart steps of 2^-24, beside the smallest factor of the path
    np.testing.assert_allclose(np.log(chosen).sum(1), expected, atol=1e-4 + 2.0**-21 / chosen.min())
    is_clear = chosen.min(1) > 1e-2
    assert is_clear.mean() > 0.8
    np.testing.assert_allclose(np.log(chosen).sum(1)[is_clear], expected[is_clear], atol=1e-4)


def test_documents_scored_on_several_threads_are_as_if_in_a_row(model: Model, monkeypatch: pytest.MonkeyPatch):
    stream = stream_of((DOCUMENTS + UNSEEN) * 30)
    alone = model.score(stream)
    cuts = [(0, 3000), (3000, 3001), (3001, len(stream) - 1)]
    monkeypatch.setattr("chainrule.models.wordgram.ranges", lambda start, stop: cuts)
    np.testing.assert_array_equal(model.score(stream), alone)


def test_the_vocabulary_is_what_occurs_twice_and_every_single_byte(model: Model, reference: Reference):
    assert model.words == sorted(reference.words)
    assert {b"The", b" cow", b" eats", b" hay", b".", "吃".encode()} <= set(model.words)
    assert b" zebra" not in model.words and b" grass" in model.words


def test_streams_are_read_as_one(model: Model):
    parts = [stream_of(DOCUMENTS[:2]), stream_of(DOCUMENTS[2:])]
    again = Model(model.config, 257, EOS).fit(parts)
    stream = stream_of(UNSEEN)
    np.testing.assert_array_equal(again.score(stream), model.score(stream))


def test_other_tokens_than_bytes_are_refused():
    for size, eos in ((258, 257), (257, 0)):
        with pytest.raises(UserError, match="a wordgram reads bytes"):
            Model(Config(), size, eos)
    with pytest.raises(UserError, match="the spelling order must be between 2 and 15, got 1"):
        Config(spelling_order=1)


@pytest.mark.parametrize("name", ["words", "lengths", "word_word", "word_suffix", "spelling_first_child"])
def test_files_that_lie_are_refused(model: Model, name: str, tmp_path: Path):
    path = tmp_path / "model.safetensors"
    model.save(path)
    arrays, metadata = load_arrays(path)
    largest = np.full_like(arrays[name], np.iinfo(arrays[name].dtype).max)
    for changed in (arrays[name][:-1], arrays[name].astype(np.float64), largest, None):
        others = {key: array for key, array in arrays.items() if key != name}
        save_arrays(tmp_path / "bad", others if changed is None else others | {name: changed}, metadata)
        with pytest.raises(UserError, match="does not hold a wordgram"):
            Model.load(tmp_path / "bad")
