"""/tokenize, /detokenize and /tokenizer_info, as vLLM has them and lm-eval uses them."""

from typing import Annotated

from fastapi import FastAPI
from pydantic import Field

from chainrule.serving.errors import APIError
from chainrule.serving.requests import Ids, RequestBody, Text
from chainrule.serving.responses import (
    DetokenizeResponse,
    JsonObject,
    TokenizeResponse,
    TokenizerInfoResponse,
    declare,
)
from chainrule.serving.service import Service
from chainrule.text.base import EOS, Tokenizer

TokenizerOf = Annotated[
    str | None, Field(max_length=4096, description="One of /v1/models; needed where their tokenizers differ.")
]


class TokenizeRequest(RequestBody):
    """A prompt that consists of the end token's name alone becomes that token, which no other text can contain."""

    model: TokenizerOf = None
    prompt: Text
    add_special_tokens: bool = Field(False, description="Put the end token, with which every text begins, in front.")
    return_token_strs: bool = False


class DetokenizeRequest(RequestBody):
    model: TokenizerOf = None
    tokens: Ids


def add_routes(app: FastAPI, service: Service) -> None:
    @app.post("/tokenize", summary="The ids of a text.", response_model=None, responses=declare(TokenizeResponse))
    async def tokenize(body: TokenizeRequest) -> JsonObject:
        tokenizer, longest = service.models.tokenizer(body.model)
        ids = [tokenizer.eos] if body.prompt == EOS else tokenizer.encode(body.prompt).tolist()
        if body.add_special_tokens:
            ids = [tokenizer.eos, *ids]
        tokens: JsonObject = {"tokens": ids, "count": len(ids), "max_model_len": longest}
        return tokens | ({"token_strs": [token_name(tokenizer, id) for id in ids]} if body.return_token_strs else {})

    @app.post(
        "/detokenize", summary="The text of some ids.", response_model=None, responses=declare(DetokenizeResponse)
    )
    async def detokenize(body: DetokenizeRequest) -> JsonObject:
        tokenizer, _ = service.models.tokenizer(body.model)
        check_ids(tokenizer, body.tokens, "tokens")
        return {"prompt": tokenizer.decode(body.tokens)}

    @app.get(
        "/tokenizer_info",
        summary="The tokenizer of a model.",
        response_model=None,
        responses=declare(TokenizerInfoResponse),
    )
    async def tokenizer_info(model: str | None = None) -> JsonObject:
        tokenizer, longest = service.models.tokenizer(model)
        return {
            "tokenizer_class": "chainrule",
            "kind": tokenizer.kind,
            "vocab_size": tokenizer.vocabulary_size,
            "model_max_length": longest,
            "eos_token": EOS,
            "eos_token_id": tokenizer.eos,
            "bos_token": None,
            "pad_token": None,
            "chat_template": None,
        }


def check_ids(tokenizer: Tokenizer, ids: list[int], field: str) -> None:
    """Refuse ids beyond the vocabulary."""
    if ids and max(ids) >= tokenizer.vocabulary_size:
        largest = tokenizer.vocabulary_size - 1
        raise APIError(400, f"token ids of this model are from 0 to {largest}, got {max(ids)}", "invalid_value", field)


def token_name(tokenizer: Tokenizer, id: int) -> str:
    """A token as OpenAI writes it: its text, or 'bytes:\\xe2' where its bytes are not whole characters."""
    if id == tokenizer.eos:
        return EOS
    data = tokenizer.token_bytes[id]
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
