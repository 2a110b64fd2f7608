"""The response schemas, OpenAI's and vLLM's, from which /openapi.json is made."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from chainrule.serving.errors import STATUSES

JsonObject = dict[str, object]  # what json.dumps writes as an object


class ResponseBody(BaseModel):
    """A response has exactly these fields; those with a default may be absent."""

    model_config = ConfigDict(extra="forbid")


class ErrorDetails(ResponseBody):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(ResponseBody):
    error: ErrorDetails


class Usage(ResponseBody):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Logprobs(ResponseBody):
    """Four lists of one length. The first token of an echoed prompt has no log-probability."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(ResponseBody):
    index: int
    text: str
    logprobs: Logprobs | None
    finish_reason: Literal["stop", "length"]
    token_ids: list[int] = []
    prompt_token_ids: list[int] = []


class CompletionResponse(ResponseBody):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage


class TokenLogprob(ResponseBody):
    token: str
    logprob: float
    bytes: list[int]


class ChatTokenLogprob(TokenLogprob):
    top_logprobs: list[TokenLogprob]


class ChatLogprobs(ResponseBody):
    content: list[ChatTokenLogprob]


class FunctionCall(ResponseBody):
    name: str
    arguments: str


class ToolCall(ResponseBody):
    id: str
    type: Literal["function"]
    function: FunctionCall


class ChatMessage(ResponseBody):
    """An answer in words, or a call of a tool, with null as its content."""

    role: Literal["assistant"]
    content: str | None
    tool_calls: list[ToolCall] = []


class ChatChoice(ResponseBody):
    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls"]


class ChatResponse(ResponseBody):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class Embedding(ResponseBody):
    object: Literal["embedding"]
    index: int
    embedding: list[float] | str  # base64 of little-endian floats


class EmbeddingUsage(ResponseBody):
    prompt_tokens: int
    total_tokens: int


class EmbeddingResponse(ResponseBody):
    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage


class OutputText(ResponseBody):
    type: Literal["output_text"]
    text: str
    annotations: list[str]  # always empty, as are log-probabilities
    logprobs: list[str]


class OutputMessage(ResponseBody):
    id: str
    type: Literal["message"]
    status: Literal["completed", "incomplete"]
    role: Literal["assistant"]
    content: list[OutputText]


class InputTokensDetails(ResponseBody):
    cached_tokens: int
    cache_write_tokens: int


class OutputTokensDetails(ResponseBody):
    reasoning_tokens: int


class ResponseUsage(ResponseBody):
    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class IncompleteDetails(ResponseBody):
    reason: Literal["max_output_tokens"]


class Response(ResponseBody):
    """Of /v1/responses: what was asked, and what was written."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["completed", "incomplete"]
    error: None
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, str]
    model: str
    output: list[OutputMessage]
    parallel_tool_calls: bool
    previous_response_id: None
    store: Literal[False]
    temperature: float
    text: dict[str, dict[str, str]]
    tool_choice: Literal["auto"]
    tools: list[str]  # always empty
    top_p: float
    truncation: Literal["disabled"]
    usage: ResponseUsage


class Target(ResponseBody):
    """A text written from a source; the one of an empty source has no score."""

    text: str
    score: float | None
    finish_reason: Literal["stop", "length"]
    alignment: str = ""


class Translation(Target):
    others: list[Target]


class TranslationResponse(ResponseBody):
    object: Literal["translation"]
    model: str
    translations: list[Translation]
    usage: Usage


class ChatStyle(ResponseBody):
    """How a model reads conversations, and the system message of those that have none."""

    style: str
    system: str | None


class ModelCard(ResponseBody):
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
    chat: ChatStyle | None


class ModelList(ResponseBody):
    object: Literal["list"]
    data: list[ModelCard]


class HealthResponse(ResponseBody):
    status: Literal["ok"]
    waiting: int
    decoding: int


class TokenizeResponse(ResponseBody):
    tokens: list[int]
    count: int
    max_model_len: int | None
    token_strs: list[str] = []


class DetokenizeResponse(ResponseBody):
    prompt: str


class TokenizerInfoResponse(ResponseBody):
    tokenizer_class: str
    kind: str
    vocab_size: int
    model_max_length: int | None
    eos_token: str
    eos_token_id: int
    bos_token: str | None
    pad_token: str | None
    chat_template: str | None


ERRORS: dict[int | str, dict[str, Any]] = {  # the type of FastAPI's `responses`
    status: {"model": ErrorResponse, "description": description} for status, description in STATUSES.items()
}


def declare(body: type[ResponseBody] | None = None, streams: bool = False) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route for /openapi.json: `body`, possibly as a stream of events, or an error.

    The routes that only the page uses declare no schema: their response is some JSON object.
    """
    if body is None:
        return {200: {"content": {"application/json": {"schema": {"type": "object"}}}}, **ERRORS}
    return {200: {"model": body, "content": {"text/event-stream": {}} if streams else {}}, **ERRORS}
