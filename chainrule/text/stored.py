"""What a tokenizer.json does not say of a tokenizer: what begins and ends a text, and how conversations are written."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from chainrule.errors import UserError
from chainrule.text.base import EOS, Tokenizer
from chainrule.text.chat import read_chat


def describe(tokenizer: Tokenizer) -> dict[str, Any]:
    """As JSON: `start` and `end` where they are not the usual ones, `chat` where it has a style."""
    found: dict[str, Any] = {}
    if tokenizer.start != tokenizer.eos or tokenizer.end != EOS:
        found["start"], found["end"] = tokenizer.start, tokenizer.end
    if tokenizer.chat:
        found["chat"] = asdict(tokenizer.chat)
    return found


def load(path: Path, facts: Mapping[str, Any]) -> Tokenizer:
    """A tokenizer.json with these facts; a ValueError, TypeError or KeyError where they do not fit it."""
    tokenizer = Tokenizer.load(path, facts.get("end"))
    start = facts.get("start", tokenizer.eos)
    if start is not None and not (type(start) is int and 0 <= start < tokenizer.vocabulary_size):
        raise ValueError(f"no token has the id {start}")
    tokenizer.start = start
    try:
        tokenizer.chat = read_chat(facts.get("chat"))
    except UserError as error:
        raise ValueError(str(error)) from None
    return tokenizer


def write_facts(tokenizer: Tokenizer, path: Path) -> None:
    """A file of the facts; none where the tokenizer.json says it all."""
    if found := describe(tokenizer):
        path.write_text(json.dumps(found), encoding="utf-8")


def read_facts(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
