"""Reads and writes the tokenizer of a GGUF file: byte-level BPE ("gpt2"), or SentencePiece's BPE ("llama")."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import tokenizers
from tokenizers import Regex, models, pre_tokenizers

from chainrule.errors import UserError
from chainrule.interop._chat_template import recognise, template_of
from chainrule.interop._sentencepiece import BYTE, CONTROL, NORMAL, SPECIAL, UNKNOWN, USER_DEFINED, make_bpe_tokenizer
from chainrule.interop._weights import Settings
from chainrule.text.base import Tokenizer, byte_level_backend, library_errors

if TYPE_CHECKING:
    from gguf import GGUFWriter

Step = dict[str, object]  # one of a tokenizer's steps, as its JSON has it


class AddedToken(TypedDict):
    id: int
    special: bool


class BpeModel(TypedDict):
    type: str
    merges: list[list[str]]
    ignore_merges: bool


class TokenizerSettings(TypedDict):
    """A tokenizer of the tokenizers library as JSON, as far as it is looked at here."""

    model: BpeModel
    added_tokens: list[AddedToken]
    normalizer: Step | None
    pre_tokenizer: Step | None
    decoder: Step | None


# How byte-level vocabularies cut a text before their merges.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
CUTS = ("gpt-2", "smollm", "llama-bpe", "qwen2")  # by GGUF's names


def _byte_level(model: models.BPE, cut: str) -> tokenizers.Tokenizer:
    """A byte-level tokenizer that cuts texts in the way to which GGUF gives this name."""
    if cut == "gpt-2":
        return byte_level_backend(model)
    if cut == "smollm":
        return byte_level_backend(model, pre_tokenizers.Digits(individual_digits=True), cuts_as_gpt2=True)
    if cut in ("llama-bpe", "qwen2"):
        pattern = Regex(LLAMA3 if cut == "llama-bpe" else QWEN2)
        return byte_level_backend(model, pre_tokenizers.Split(pattern, behavior="isolated", invert=False))
    raise UserError(f"the model's tokenizer cuts text in an unsupported way ('{cut}'); supported are {', '.join(CUTS)}")


def _takes_whole_words(cut: str) -> bool:
    """Whether a word that is a token is never cut, whatever the merges; llama.cpp decides it by the way to cut."""
    return cut == "llama-bpe"


def read_tokenizer(settings: Settings, path: Path) -> Tokenizer:
    """The tokenizer that the settings of a GGUF file describe; `path` is for messages."""
    tokenizer = _read(settings, path)
    tokenizer.chat = recognise(settings.get("tokenizer.chat_template"))
    return tokenizer


def _is_kind(value: object) -> bool:
    return type(value) is int and NORMAL <= value <= BYTE


def _read(settings: Settings, path: Path) -> Tokenizer:
    own = {name.removeprefix("tokenizer.ggml."): value for name, value in settings.items()}
    words, kind = own.get("tokens"), own.get("model")
    if not isinstance(words, list) or not words or not all(isinstance(each, str) for each in words):
        raise UserError(f"'{path}' has no tokenizer")
    kinds = own.get("token_type", [NORMAL] * len(words))
    if not isinstance(kinds, list) or len(kinds) != len(words) or not all(map(_is_kind, kinds)):
        raise UserError(f"the tokenizer of '{path}' has kinds of tokens that are not supported")
    end = own.get("eos_token_id")
    if type(end) is not int or not 0 <= end < len(words):
        raise UserError(f"the tokenizer of '{path}' ends texts with token {end}, but has {len(words)}")
    if kind == "llama":
        return _read_sentencepiece(own, words, kinds, words[end], path)
    if kind != "gpt2":
        raise UserError(f"the tokenizer of '{path}' is of type {kind!r}; supported are gpt2 and llama")
    tokenizer = _read_bpe(own, words, kinds, words[end], path)
    begins = own.get("add_bos_token", False) is True
    tokenizer.start = _token(own.get("bos_token_id"), words, path) if begins else None
    return tokenizer


def _read_sentencepiece(own: Settings, words: list[str], kinds: list[int], end: str, path: Path) -> Tokenizer:
    scores = own.get("scores")
    if not isinstance(scores, list) or len(scores) != len(words) or not all(type(each) is float for each in scores):
        scores = None
    is_known = tuple(words[1:3]) == SPECIAL[1:] and end == "</s>" and own.get("add_space_prefix", True) is True
    is_plain = UNKNOWN not in kinds[1:] and own.get("bos_token_id", 1) == 1
    if scores is None or not (is_known and is_plain):
        raise UserError(f"the tokenizer of '{path}' is not SentencePiece's usual BPE, and nothing else is supported")
    tokenizer = make_bpe_tokenizer(words, scores, f"of '{path}'", kinds)
    tokenizer.start = tokenizer.start if own.get("add_bos_token", True) is True else None
    return tokenizer


def _read_bpe(own: Settings, words: list[str], kinds: list[int], end: str, path: Path) -> Tokenizer:
    found = own.get("merges", [])
    pieces = [str(each).split(" ") for each in found] if isinstance(found, list) else [[]]
    if any(len(each) != 2 for each in pieces):
        raise UserError(f"the tokenizer of '{path}' has merges that are not of two pieces")
    merges = [(left, right) for left, right in pieces]
    cut = str(own.get("pre", "default"))  # llama.cpp has a default, too, but no model cuts so
    added = [word for word, kind in zip(words, kinds, strict=True) if kind == USER_DEFINED]
    special = [word for word, kind in zip(words, kinds, strict=True) if kind == CONTROL]
    with library_errors(f"the tokenizer of '{path}' cannot be read"):
        last = max((id for id, kind in enumerate(kinds) if kind != CONTROL), default=0)
        ids = {word: id for id, word in enumerate(words[: last + 1])}  # the rest is added below
        backend = _byte_level(models.BPE(ids, merges, ignore_merges=_takes_whole_words(cut)), cut)
        backend.add_tokens([tokenizers.AddedToken(word, normalized=False) for word in added])
        backend.add_special_tokens(list(dict.fromkeys([*special, end])))
        if any(backend.token_to_id(word) != id for id, word in enumerate(words)):
            raise UserError(f"the tokenizer of '{path}' has a token twice, or one without a name")
        return Tokenizer(backend, end)


def _token(id: object, words: list[str], path: Path) -> int:
    if type(id) is not int or not 0 <= id < len(words):
        raise UserError(f"the tokenizer of '{path}' begins texts with token {id}, but has {len(words)}")
    return id


def write_tokenizer(writer: "GGUFWriter", tokenizer: Tokenizer) -> None:
    """Write a tokenizer; one that llama.cpp cannot reproduce is refused."""
    words = [str(tokenizer.backend.id_to_token(id)) for id in range(tokenizer.vocabulary_size)]
    settings: TokenizerSettings = json.loads(tokenizer.json)
    if tokenizer.marks_spaces:
        kinds = _kinds(settings, words)
        scores = _scores(settings, words, kinds)
        writer.add_tokenizer_model("llama")
        writer.add_token_scores(scores)
    else:
        cut = _cut(settings)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(cut)
        writer.add_token_merges([" ".join(pair) for pair in settings["model"]["merges"]])
        special = {token["id"] for token in settings["added_tokens"]}
        kinds = [CONTROL if id in special else NORMAL for id in range(len(words))]
    writer.add_token_list(words)
    writer.add_token_types(kinds)
    writer.add_eos_token_id(tokenizer.eos)
    for id in [id for id in tokenizer.answer_ends if id != tokenizer.eos][
        :1
    ]:  # what ends a turn, if another token does
        writer.add_eot_token_id(id)
    if tokenizer.start is not None:
        writer.add_bos_token_id(tokenizer.start)
    writer.add_add_bos_token(tokenizer.start is not None)
    writer.add_add_eos_token(False)
    if template := template_of(tokenizer.chat):
        writer.add_chat_template(template)


def _cut(settings: TokenizerSettings) -> str:
    """GGUF's name for the way in which a byte-level tokenizer cuts texts."""
    model = settings["model"]
    is_plain = settings["normalizer"] is None and all(token["special"] for token in settings["added_tokens"])
    if model["type"] == "BPE" and model["merges"] and is_plain:  # llama.cpp reads no vocabulary without merges
        for cut in CUTS:
            backend = _byte_level(models.BPE(ignore_merges=_takes_whole_words(cut)), cut)
            known = json.loads(backend.to_str())
            if _cutting(known) == _cutting(settings):
                return cut
    raise UserError("llama.cpp cannot tokenize text as this run does; train with the tokenizer bpe")


def _cutting(settings: TokenizerSettings) -> tuple[list[Step], bool]:
    """What decides on the tokens of a text beside vocabulary and merges."""
    first = settings["pre_tokenizer"] or {}
    inner = first.get("pretokenizers", [first])
    assert isinstance(inner, list)
    steps = [{name: value for name, value in step.items() if name != "trim_offsets"} for step in inner]
    return steps, settings["model"]["ignore_merges"]


def _made_of(settings: TokenizerSettings) -> list[object]:
    """All parts that decide on the tokens of a text and on the text of tokens."""
    return [settings["model"], settings["normalizer"], settings["pre_tokenizer"], settings["decoder"]]


def _kinds(settings: TokenizerSettings, words: list[str]) -> list[int]:
    """The kind of each of SentencePiece's pieces."""
    added = {token["id"]: CONTROL if token["special"] else USER_DEFINED for token in settings["added_tokens"]}
    kinds = [added.get(id, BYTE if word.startswith("<0x") else NORMAL) for id, word in enumerate(words)]
    return [UNKNOWN, *kinds[1:]]


def _scores(settings: TokenizerSettings, words: list[str], kinds: list[int]) -> list[float]:
    """Scores that give these merges: SentencePiece keeps no merges, it makes the piece with the highest score first.

    That they do is checked by making the tokenizer again.
    """
    order = list(dict.fromkeys(left + right for left, right in settings["model"]["merges"]))
    ranks = {word: float(-rank) for rank, word in enumerate(order)}
    scores = [0.0] * len(SPECIAL) + [ranks.get(word, float(-len(order))) for word in words[len(SPECIAL) :]]
    if words[: len(SPECIAL)] == list(SPECIAL):
        again: TokenizerSettings = json.loads(make_bpe_tokenizer(words, scores, "to be written", kinds).json)
        if _made_of(again) == _made_of(settings):
            return scores
    raise UserError("llama.cpp cannot tokenize text as this run does; it is not SentencePiece's usual BPE")
