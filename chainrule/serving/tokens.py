"""Text to ids and back: /tokenize, /detokenize and /tokenizer_info, as vLLM has them and lm-eval asks for them."""

from typing import Any

from fastapi import FastAPI, Request
from pydantic import Field

from chainrule.serving.answers import Detokenized, Tokenized, TokenizerInfo, answered
from chainrule.serving.problems import Problem
from chainrule.serving.schema import Body, Ids, ModelName, Text, post
from chainrule.serving.service import Service
from chainrule.text.base import EOS, Tokenizer


class Tokenize(Body):
    """A prompt that is the end token's name and nothing else is that token, which no other text can spell."""

    model: ModelName = None
    prompt: Text
    add_special_tokens: bool = Field(False, description="Put the end token, with which every text begins, in front.")
    return_token_strs: bool = False


class Detokenize(Body):
    model: ModelName = None
    tokens: Ids


def add_routes(app: FastAPI, service: Service) -> None:
    @post(app, "/tokenize", Tokenize, "The ids of a text.", Tokenized)
    async def tokenize(body: Tokenize, request: Request) -> dict[str, Any]:
        served = service.library.language(body.model)
        tokenizer = served.tokenizer
        ids = [tokenizer.eos] if body.prompt == EOS else tokenizer.encode(body.prompt).tolist()
        if body.add_special_tokens:
            ids = [tokenizer.eos, *ids]
        found = {"tokens": ids, "count": len(ids), "max_model_len": served.context_length}
        return found | ({"token_strs": [token_name(tokenizer, id) for id in ids]} if body.return_token_strs else {})

    @post(app, "/detokenize", Detokenize, "The text of some ids.", Detokenized)
    async def detokenize(body: Detokenize, request: Request) -> dict[str, Any]:
        tokenizer = service.library.language(body.model).tokenizer
        check_ids(tokenizer, body.tokens, "tokens")
        return {"prompt": tokenizer.decode(body.tokens)}

    @app.get(
        "/tokenizer_info",
        summary="The tokenizer of a model.",
        response_model=None,
        responses=answered(TokenizerInfo),
    )
    async def tokenizer_info(model: str | None = None) -> dict[str, Any]:
        served = service.library.language(model)
        return {
            "tokenizer_class": "chainrule",
            "kind": served.tokenizer.kind,
            "vocab_size": served.tokenizer.vocabulary_size,
            "model_max_length": served.context_length,
            "eos_token": EOS,
            "eos_token_id": served.tokenizer.eos,
            "bos_token": None,
            "pad_token": None,
            "chat_template": None,
        }


def check_ids(tokenizer: Tokenizer, ids: list[int], field: str) -> None:
    if ids and max(ids) >= tokenizer.vocabulary_size:
        largest = tokenizer.vocabulary_size - 1
        raise Problem(400, f"token ids of this model are from 0 to {largest}, got {max(ids)}", "invalid_value", field)


def token_name(tokenizer: Tokenizer, id: int) -> str:
    """A token as OpenAI writes it: its text, or 'bytes:\\xe2' where it is not whole characters."""
    if id == tokenizer.eos:
        return EOS
    data = tokenizer.token_bytes[id]
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
