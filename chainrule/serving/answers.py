"""What answers look like: OpenAI's shapes and vLLM's, as /openapi.json tells them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from chainrule.serving.problems import STATUSES


class Answer(BaseModel):
    """Exactly these fields; those with a default may be absent."""

    model_config = ConfigDict(extra="forbid")


class ErrorDetails(Answer):
    message: str
    type: str
    param: str | None
    code: str | None


class Error(Answer):
    error: ErrorDetails


class Usage(Answer):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Logprobs(Answer):
    """Four lists of one length; nothing is known of the first token of an echoed prompt."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(Answer):
    index: int
    text: str
    logprobs: Logprobs | None
    finish_reason: Literal["stop", "length"]
    token_ids: list[int] = []
    prompt_token_ids: list[int] = []


class CompletionAnswer(Answer):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage


class LikelyToken(Answer):
    token: str
    logprob: float
    bytes: list[int]


class ChatToken(LikelyToken):
    top_logprobs: list[LikelyToken]


class ChatLogprobs(Answer):
    content: list[ChatToken]


class ChatMessage(Answer):
    role: Literal["assistant"]
    content: str


class ChatChoice(Answer):
    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length"]


class ChatAnswer(Answer):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class Target(Answer):
    """A text that was written from another; of an empty one, without a score."""

    text: str
    score: float | None
    finish_reason: Literal["stop", "length"]
    alignment: str = ""


class Translation(Target):
    others: list[Target]


class TranslationAnswer(Answer):
    object: Literal["translation"]
    model: str
    translations: list[Translation]
    usage: Usage


class ModelCard(Answer):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    task: str
    architecture: str
    hash: str
    parameters: int
    context_length: int | None
    vocabulary_size: int
    tokenizer: str
    tokenizer_hash: str


class ModelList(Answer):
    object: Literal["list"]
    data: list[ModelCard]


class Health(Answer):
    status: Literal["ok"]
    waiting: int
    decoding: int


class Tokenized(Answer):
    tokens: list[int]
    count: int
    max_model_len: int | None
    token_strs: list[str] = []


class Detokenized(Answer):
    prompt: str


class TokenizerInfo(Answer):
    tokenizer_class: str
    kind: str
    vocab_size: int
    model_max_length: int | None
    eos_token: str
    eos_token_id: int
    bos_token: str | None
    pad_token: str | None
    chat_template: str | None


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Error, "description": said} for status, said in STATUSES.items()
}


def answered(kind: type[Answer] | None, streams: bool = False) -> dict[int | str, dict[str, Any]]:
    """What a route may answer, for its `responses`: `kind`, which may also come piece by piece, or an error.

    What only the page asks for has no declared kind: it is an object, and the page knows what is in it.
    """
    if kind is None:
        return {200: {"content": {"application/json": {"schema": {"type": "object"}}}}, **ERRORS}
    content: dict[str, Any] = {"text/event-stream": {}} if streams else {}
    return {200: {"model": kind, "content": content}, **ERRORS}
