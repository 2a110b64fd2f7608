"""Tokenizers inside GGUF files: byte-level BPE ("gpt2"), or pieces with scores as SentencePiece has them ("llama")."""

import json
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, models, pre_tokenizers

from chainrule.errors import UserError
from chainrule.interop.chat_template import recognise, template_of
from chainrule.interop.llama2c import SPECIAL, sentencepiece
from chainrule.interop.spm import BYTE, CONTROL, NORMAL, UNKNOWN, USER_DEFINED
from chainrule.text.base import Tokenizer, byte_level_backend, library_errors

# How byte-level vocabularies cut a text before their merges.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
CUTS = ("gpt-2", "smollm", "llama-bpe", "qwen2")  # by GGUF's names


def _byte_level(model: Any, cut: str) -> tokenizers.Tokenizer:
    """By the name that GGUF has for the way to cut."""
    if cut == "gpt-2":
        return byte_level_backend(model)
    if cut == "smollm":
        return byte_level_backend(model, pre_tokenizers.Digits(individual_digits=True), cuts_as_gpt2=True)
    if cut in ("llama-bpe", "qwen2"):
        pattern = Regex(LLAMA3 if cut == "llama-bpe" else QWEN2)
        return byte_level_backend(model, pre_tokenizers.Split(pattern, behavior="isolated", invert=False))
    raise UserError(f"the model's tokenizer cuts text in a way not known here ('{cut}'); known are {', '.join(CUTS)}")


def _takes_whole_words(cut: str) -> bool:
    """Whether a piece that is a token stays whole, whatever the merges; llama.cpp tells it by the cut."""
    return cut == "llama-bpe"


def read_tokenizer(settings: dict[str, Any], path: Path) -> Tokenizer:
    tokenizer = _read(settings, path)
    tokenizer.chat = recognise(settings.get("tokenizer.chat_template"))
    return tokenizer


def _read(settings: dict[str, Any], path: Path) -> Tokenizer:
    own = {name.removeprefix("tokenizer.ggml."): value for name, value in settings.items()}
    words, kind = own.get("tokens"), own.get("model")
    if not isinstance(words, list) or not words or not all(isinstance(each, str) for each in words):
        raise UserError(f"'{path}' has no tokenizer")
    kinds = own.get("token_type", [NORMAL] * len(words))
    is_one_each = isinstance(kinds, list) and len(kinds) == len(words)
    if not is_one_each or not all(type(each) is int and NORMAL <= each <= BYTE for each in kinds):
        raise UserError(f"the tokenizer of '{path}' has kinds of tokens that are not known here")
    end = own.get("eos_token_id")
    if type(end) is not int or not 0 <= end < len(words):
        raise UserError(f"the tokenizer of '{path}' ends texts with token {end}, but has {len(words)}")
    if kind == "llama":
        return _read_sentencepiece(own, words, kinds, words[end], path)
    if kind != "gpt2":
        raise UserError(f"the tokenizer of '{path}' is of type {kind!r}; known here are gpt2 and llama")
    tokenizer = _read_bpe(own, words, kinds, words[end], path)
    begins = own.get("add_bos_token", False) is True
    tokenizer.start = _token(own.get("bos_token_id"), words, path) if begins else None
    return tokenizer


def _read_sentencepiece(own: dict[str, Any], words: list[str], kinds: list[int], end: str, path: Path) -> Tokenizer:
    scores = own.get("scores")
    is_scored = isinstance(scores, list) and len(scores) == len(words) and all(type(each) is float for each in scores)
    is_known = tuple(words[1:3]) == SPECIAL[1:] and end == "</s>" and own.get("add_space_prefix", True) is True
    is_plain = UNKNOWN not in kinds[1:] and own.get("bos_token_id", 1) == 1
    if not (is_scored and is_known and is_plain):
        raise UserError(f"the tokenizer of '{path}' is not the SentencePiece that is known here")
    tokenizer = sentencepiece(words, own["scores"], f"of '{path}'", kinds)
    tokenizer.start = tokenizer.start if own.get("add_bos_token", True) is True else None
    return tokenizer


def _read_bpe(own: dict[str, Any], words: list[str], kinds: list[int], end: str, path: Path) -> Tokenizer:
    found = own.get("merges", [])
    pieces = [str(each).split(" ") for each in found] if isinstance(found, list) else [[]]
    if any(len(each) != 2 for each in pieces):
        raise UserError(f"the tokenizer of '{path}' has merges that are not of two pieces")
    merges = [(left, right) for left, right in pieces]
    cut = str(own.get("pre", "default"))  # as llama.cpp takes it, whose default is no model's way to cut
    added = [word for word, kind in zip(words, kinds, strict=True) if kind == USER_DEFINED]
    special = [word for word, kind in zip(words, kinds, strict=True) if kind == CONTROL]
    with library_errors(f"the tokenizer of '{path}' cannot be read"):
        last = max((id for id, kind in enumerate(kinds) if kind != CONTROL), default=0)
        ids = {word: id for id, word in enumerate(words[: last + 1])}  # those after it are added below
        backend = _byte_level(models.BPE(ids, merges, ignore_merges=_takes_whole_words(cut)), cut)
        backend.add_tokens([tokenizers.AddedToken(word, normalized=False) for word in added])
        backend.add_special_tokens(list(dict.fromkeys([*special, end])))
        if any(backend.token_to_id(word) != id for id, word in enumerate(words)):
            raise UserError(f"the tokenizer of '{path}' has a token twice, or one without a name")
        return Tokenizer(backend, end)


def _token(id: Any, words: list[str], path: Path) -> int:
    if type(id) is not int or not 0 <= id < len(words):
        raise UserError(f"the tokenizer of '{path}' begins texts with token {id}, but has {len(words)}")
    return id


def write_tokenizer(writer: Any, tokenizer: Tokenizer) -> None:
    """Into a writer of the gguf package; a tokenizer that llama.cpp cannot follow is refused."""
    words = [str(tokenizer.backend.id_to_token(id)) for id in range(tokenizer.vocabulary_size)]
    settings = json.loads(tokenizer.json)
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
    if tokenizer.start is not None:
        writer.add_bos_token_id(tokenizer.start)
    writer.add_add_bos_token(tokenizer.start is not None)
    writer.add_add_eos_token(False)
    if template := template_of(tokenizer.chat):
        writer.add_chat_template(template)


def _cut(settings: dict[str, Any]) -> str:
    """GGUF's name for how a byte-level tokenizer cuts text."""
    model = settings["model"]
    is_plain = settings["normalizer"] is None and all(token["special"] for token in settings["added_tokens"])
    if model["type"] == "BPE" and model["merges"] and is_plain:  # llama.cpp reads no vocabulary without merges
        for cut in CUTS:
            backend = _byte_level(models.BPE(ignore_merges=_takes_whole_words(cut)), cut)
            known = json.loads(backend.to_str())
            if _cutting(known) == _cutting(settings):
                return cut
    raise UserError("llama.cpp cannot cut text as this run's tokenizer does; train with --tokenizer bpe")


def _cutting(settings: dict[str, Any]) -> tuple[Any, ...]:
    """What decides which tokens a text becomes, beside vocabulary and merges."""
    steps = settings["pre_tokenizer"] or {}
    steps = steps.get("pretokenizers", [steps])
    steps = [{name: value for name, value in step.items() if name != "trim_offsets"} for step in steps]
    return steps, settings["model"]["ignore_merges"]


def _kinds(settings: dict[str, Any], words: list[str]) -> list[int]:
    """Of SentencePiece's pieces."""
    added = {token["id"]: CONTROL if token["special"] else USER_DEFINED for token in settings["added_tokens"]}
    kinds = [added.get(id, BYTE if word.startswith("<0x") else NORMAL) for id, word in enumerate(words)]
    return [UNKNOWN, *kinds[1:]]


def _scores(settings: dict[str, Any], words: list[str], kinds: list[int]) -> list[float]:
    """SentencePiece keeps no merges: the piece with the highest score is made first. Checked by making them again."""
    order = list(dict.fromkeys(left + right for left, right in settings["model"]["merges"]))
    ranks = {word: float(-rank) for rank, word in enumerate(order)}
    scores = [0.0] * len(SPECIAL) + [ranks.get(word, float(-len(order))) for word in words[len(SPECIAL) :]]
    parts = ("model", "normalizer", "pre_tokenizer", "decoder")
    if words[: len(SPECIAL)] == list(SPECIAL):
        again = json.loads(sentencepiece(words, scores, "to be written", kinds).json)
        if all(again[part] == settings[part] for part in parts):
            return scores
    raise UserError("llama.cpp cannot cut text as this run's tokenizer does; it is not SentencePiece's usual BPE")
