"""Output that must match a JSON schema, a regular expression or a grammar: which tokens may come next.

llguidance (https://github.com/guidance-ai/llguidance) follows the text by an Earley parser on bytes and says which
texts may follow; here these become tokens, whose text may depend on what came before (`text/spelling.py`). Every way to
cut the output into tokens is allowed, and an end token exactly where the output is complete.
"""

import json
from bisect import bisect_left
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from chainrule.errors import UserError
from chainrule.generation.prompt import Prompt
from chainrule.generation.prompt import Tokenizer as PromptTokenizer
from chainrule.text.base import Tokenizer
from chainrule.text.pieces import WHITE_SPACE
from chainrule.text.spelling import HELD, OPENING, STATES, Spelling, spell_tokens

if TYPE_CHECKING:
    from llguidance import LLMatcher

NOT_INSTALLED = "output that must match something needs llguidance; install it: pip install 'chainrule[constraints]'"
NO_TOKEN = (
    "no token that this model may take next continues an output that matches the {kind}; use a model of bytes, of an "
    "open vocabulary, or one that is smoothed"
)
MOST_KEPT = 32  # compiled constraints of a tokenizer
MOST_CHARACTERS = 100_000  # of a schema, an expression or a grammar
SAYS_OTHERWISE = {"additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "$ref"}
# One style, that of Python's json.dumps, so that no model is lost in white space.
JSON_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class Vocabulary:
    """The texts of a tokenizer as llguidance sees them: an id for every different text, and one for the end."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        try:
            import llguidance
        except ImportError:
            raise UserError(NOT_INSTALLED) from None
        self.spelling: Spelling = spell_tokens(tokenizer)
        texts = self.spelling.texts
        self.end = len(texts)
        self.space = texts.index(b" ")
        self.holding = [np.flatnonzero(row == HELD).tolist() for row in self.spelling.following]  # tokens, by state
        self.places = {text: place for place, text in enumerate(texts)}
        self.begins_word = np.array([text[:1].decode("latin-1") not in WHITE_SPACE for text in texts] + [False, False])
        self._compiled: OrderedDict[tuple[str, str], LLMatcher] = OrderedDict()
        self._lock = Lock()
        self._tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Texts(texts)))

    def matcher(self, kind: str, source: str) -> "LLMatcher":
        """A matcher at the beginning of an output; the errors of a schema, expression or grammar are refused here."""
        with self._lock:
            found = self._compiled.pop((kind, source), None)
            if found is None:
                found = self._compile(kind, source)
            self._compiled[kind, source] = found
            if len(self._compiled) > MOST_KEPT:
                self._compiled.popitem(last=False)
            return found.deep_copy()

    def _compile(self, kind: str, source: str) -> "LLMatcher":
        from llguidance import LLMatcher

        if len(source) > MOST_CHARACTERS:
            raise UserError(f"the {kind} has {len(source):,} characters; {MOST_CHARACTERS:,} are allowed")
        matcher = LLMatcher(self._tokenizer, _grammar(kind, source), log_level=0)
        if matcher.is_error():
            raise UserError(f"the {kind} cannot be followed: {_first_line(matcher.get_error())}")
        return matcher


class _Texts:
    """What llguidance asks of a tokenizer. It never has to cut a text, as forced bytes are turned into tokens here."""

    bos_token_id = None

    def __init__(self, texts: list[bytes]) -> None:
        self.tokens = [*texts, b"<end>"]
        self.eos_token_id = len(texts)
        self.special_token_ids = [self.eos_token_id]

    def __call__(self, text: str | bytes) -> list[int]:
        raise NotImplementedError


class TokenConstraint:
    """The constraint on one sample: `allowed` says which tokens may come next, `append` tells it the one that came."""

    def __init__(self, tokenizer: Tokenizer, prompt: Prompt, kind: str, source: str) -> None:
        self.kind = kind
        self._vocabulary = vocabulary_of(tokenizer)
        self._matcher = self._vocabulary.matcher(kind, source)
        self._ends = [tokenizer.eos, *prompt.ends]
        state = prompt.continuation(tokenizer).state
        self._state = OPENING if prompt.opening else STATES.index(state)

    def apply(self, logits: np.ndarray) -> np.ndarray:
        """The logits (vocabulary,) with -inf for every token that may not come next."""
        allowed = self.allowed()
        if len(allowed) < len(logits):  # a vocabulary that was filled up to a round number
            allowed = np.append(allowed, np.zeros(len(logits) - len(allowed), bool))
        masked = np.where(allowed, logits, logits.dtype.type(-np.inf))
        if masked.max() == -np.inf:
            raise UserError(NO_TOKEN.format(kind=self.kind))
        return masked

    def allowed(self) -> np.ndarray:
        """(vocabulary,) The tokens after which the output can still become complete; ends where it is complete."""
        self._check()
        vocabulary, spelling, state = self._vocabulary, self._vocabulary.spelling, self._state
        texts = self._next_texts()
        is_allowed: np.ndarray = texts[spelling.texts_of[state]]
        for token in vocabulary.holding[state]:
            # Where the space that it holds back cannot come next, a word must.
            if is_allowed[token] and not texts[spelling.held_texts_of[state, token]]:
                is_allowed[token] = self._can_go_on_after(int(spelling.texts_of[state, token]))
        is_allowed[self._ends] = False
        if state != OPENING:
            space = [vocabulary.space] if state == HELD else []
            is_allowed[self._ends] = texts[vocabulary.end] if not space else self._is_complete_after(space)
        return is_allowed

    def append(self, token: int) -> None:
        if token in self._ends:
            return
        spelling = self._vocabulary.spelling
        text = int(spelling.texts_of[self._state, token])
        self._state = int(spelling.following[self._state, token])
        if text:  # the first text is empty
            self._matcher.consume_token(text)

    @property
    def is_complete(self) -> bool:
        """Whether the output is complete and nothing can be added to it."""
        return self._matcher.is_stopped() and self._state != HELD

    def _next_texts(self) -> np.ndarray:
        """(texts + 2,) Which texts may follow, then whether the end may, then False, for tokens without a text."""
        forced = self._matcher.compute_ff_bytes()
        allowed = self._forced_texts(forced) if forced else self._masked_texts()
        allowed[0] = not self._matcher.is_stopped()
        return allowed

    def _masked_texts(self) -> np.ndarray:
        mask = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        allowed = np.unpackbits(mask, count=self._vocabulary.end + 2, bitorder="little").view(bool)
        allowed[-1] = False
        return allowed

    def _forced_texts(self, forced: bytes) -> np.ndarray:
        """Where some bytes must follow: the texts that begin them, and those that go on rightly after them.

        llguidance itself would allow one way to cut them alone.
        """
        vocabulary, texts = self._vocabulary, self._vocabulary.spelling.texts
        allowed = np.zeros(vocabulary.end + 2, bool)
        for length in range(1, len(forced) + 1):
            place = vocabulary.places.get(forced[:length])
            if place is not None:
                allowed[place] = True
        place = bisect_left(texts, forced) + (forced in vocabulary.places)
        while place < len(texts) and texts[place].startswith(forced):
            allowed[place] = self._matcher.validate_tokens([place]) == 1
            place += 1
        return allowed

    def _can_go_on_after(self, text: int) -> bool:
        """Whether a word, or a space, may come after this text."""
        if text:
            self._matcher.consume_token(text)
        texts = self._next_texts()
        if text:
            self._matcher.rollback(1)
        return bool(texts[self._vocabulary.space] or (texts & self._vocabulary.begins_word)[1:].any())

    def _is_complete_after(self, texts: list[int]) -> bool:
        return self._matcher.validate_tokens([*texts, self._vocabulary.end]) == len(texts) + 1

    def _check(self) -> None:
        if self._matcher.is_error():
            raise UserError(f"the {self.kind} cannot be followed any further: {_first_line(self._matcher.get_error())}")


_vocabularies: "WeakKeyDictionary[Tokenizer, Vocabulary]" = WeakKeyDictionary()
_lock = Lock()


def vocabulary_of(tokenizer: Tokenizer) -> Vocabulary:
    """The texts of a tokenizer, prepared once: with 50,000 tokens that takes a second."""
    with _lock:
        found = _vocabularies.get(tokenizer)
        if found is None:
            found = _vocabularies[tokenizer] = Vocabulary(tokenizer)
        return found


def constrain(tokenizer: PromptTokenizer, prompt: Prompt, constraint: tuple[str, str] | None) -> TokenConstraint | None:
    """The constraint on a continuation of the prompt; None where there is none."""
    if constraint is None:
        return None
    assert isinstance(tokenizer, Tokenizer)
    return TokenConstraint(tokenizer, prompt, *constraint)


def check_constraint(tokenizer: PromptTokenizer, constraint: tuple[str, str] | None) -> None:
    """Refuse a constraint that cannot be compiled; one that can is kept, so that samples start at once."""
    if constraint is not None:
        assert isinstance(tokenizer, Tokenizer)
        vocabulary_of(tokenizer).matcher(*constraint)


def _grammar(kind: str, source: str) -> str:
    from llguidance import LLMatcher, grammar_from, regex_to_lark

    if kind == "regex":  # where \d, \w and \s are of ASCII
        return LLMatcher.grammar_from_lark(f"start: /{regex_to_lark(source, 'dws')}/")
    if kind == "json_schema":
        schema = close_objects(_parse_schema(source))
        return LLMatcher.grammar_from_json_schema(schema, overrides=JSON_STYLE)  # type: ignore[arg-type]
    try:
        return grammar_from("grammar", source)
    except ValueError as error:
        raise UserError(f"the grammar cannot be read: {_first_line(str(error))}") from None


def close_objects(schema: Any) -> Any:
    """The schema with objects that have the properties it names and no others, where it does not say otherwise.

    JSON Schema would allow any others, and a small model that may go on does. (llama.cpp and xgrammar do the same.)
    Parts of an allOf, which describe one object together, are left as they are.
    """
    if isinstance(schema, list):
        return [close_objects(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {
        key: value if key in ("allOf", "const", "enum", "default", "examples") else close_objects(value)
        for key, value in schema.items()
    }
    if isinstance(schema.get("properties"), dict) and not schema.keys() & SAYS_OTHERWISE:
        closed["additionalProperties"] = False
    return closed


def _parse_schema(source: str) -> dict[str, Any]:
    try:
        schema = json.loads(source)
    except ValueError as error:
        raise UserError(f"the json_schema is not valid JSON: {error}") from None
    if not isinstance(schema, dict):
        raise UserError(f"the json_schema must be a JSON object, got {source[:80]}")
    return schema


def _first_line(message: str) -> str:
    """The part of an error that says what is wrong; llguidance adds the parser's state."""
    lines = [line.strip() for line in message.split("<state>")[0].splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error: ")]
    return (errors or lines or ["it is too complex"])[0].removeprefix("error: ")[:300]
