"""OpenAI's request fields that do nothing here: which values they may have, and what is said of any other.

A value that asks for nothing, as `tools: []`, is accepted, since many clients send it. One that would change the answer
is refused by name rather than ignored. The fields that do something are declared with their routes.
"""

from typing import Annotated

from pydantic import Field, JsonValue

from chainrule.serving.requests import RequestBody
from chainrule.serving.unsupported import Accepts

Label = Annotated[str, Field(max_length=1000)]
Labels = Annotated[dict[str, Label], Field(max_length=100)]
Options = Annotated[dict[str, JsonValue], Field(max_length=100)]
TEXT = {"type": "text"}
IGNORED = "Ignored."
NO_TOOLS = "models here call no tools"
NO_THOUGHT = "models here answer at once"
ONLY_TEXT = "models here read and write text"
NOTHING_KEPT = "nothing is kept here"
ALL_MESSAGES = "send all messages as input"


class IgnoredFields(RequestBody):
    """About the account, the speed or the price: the answer is the same whatever they are."""

    metadata: Labels | None = Field(None, description=IGNORED)
    parallel_tool_calls: bool | None = Field(None, description=IGNORED)
    prompt_cache_key: Label | None = Field(None, description=IGNORED)
    prompt_cache_options: Options | None = Field(None, description=IGNORED)
    prompt_cache_retention: Label | None = Field(None, description=IGNORED)
    safety_identifier: Label | None = Field(None, description=IGNORED)
    service_tier: Label | None = Field(None, description=IGNORED)
    user: Label | None = Field(None, description=IGNORED)
    store: Annotated[JsonValue, Accepts(False, because=NOTHING_KEPT)] = None
    moderation: Annotated[JsonValue, Accepts()] = None


class UnusedChatFields(IgnoredFields):
    """Of /v1/chat/completions."""

    prediction: Options | None = Field(None, description=IGNORED)  # it is for speed alone
    audio: Annotated[JsonValue, Accepts(because=ONLY_TEXT)] = None
    modalities: Annotated[JsonValue, Accepts(["text"], because=ONLY_TEXT)] = None
    functions: Annotated[JsonValue, Accepts([], because=NO_TOOLS)] = None
    function_call: Annotated[JsonValue, Accepts("none", "auto", because=NO_TOOLS)] = None
    reasoning_effort: Annotated[JsonValue, Accepts("none", because=NO_THOUGHT)] = None
    verbosity: Annotated[JsonValue, Accepts("medium", instead="use max_completion_tokens or stop")] = None
    web_search_options: Annotated[JsonValue, Accepts(because=NO_TOOLS)] = None


class UnusedMessageFields(RequestBody):
    """Of a message of /v1/chat/completions, as OpenAI's client writes an answer that is sent back."""

    annotations: Annotated[JsonValue, Accepts([])] = None
    audio: Annotated[JsonValue, Accepts(because=ONLY_TEXT)] = None
    function_call: Annotated[JsonValue, Accepts(because=NO_TOOLS)] = None
    refusal: Annotated[JsonValue, Accepts("", instead="write it as content")] = None


class UnusedResponseFields(IgnoredFields):
    """Of /v1/responses."""

    max_tool_calls: Annotated[int, Field(ge=0)] | None = Field(None, description=IGNORED)
    access_programs: Annotated[JsonValue, Accepts()] = None
    background: Annotated[JsonValue, Accepts(False, instead="use stream")] = None
    context_management: Annotated[JsonValue, Accepts([], instead="shorten the input")] = None
    conversation: Annotated[JsonValue, Accepts(because=NOTHING_KEPT, instead=ALL_MESSAGES)] = None
    image: Annotated[JsonValue, Accepts(because=ONLY_TEXT)] = None
    include: Annotated[JsonValue, Accepts([], instead="use /v1/chat/completions for logprobs")] = None
    previous_response_id: Annotated[JsonValue, Accepts(because=NOTHING_KEPT, instead=ALL_MESSAGES)] = None
    prompt: Annotated[JsonValue, Accepts(because=NOTHING_KEPT, instead="use instructions and input")] = None
    reasoning: Annotated[JsonValue, Accepts({}, {"effort": "none"}, because=NO_THOUGHT)] = None
    text: Annotated[JsonValue, Accepts({}, {"format": TEXT}, {"format": TEXT, "verbosity": "medium"})] = None
    tools: Annotated[JsonValue, Accepts([], because=NO_TOOLS)] = None
    tool_choice: Annotated[JsonValue, Accepts("none", "auto", because=NO_TOOLS)] = None
    top_logprobs: Annotated[JsonValue, Accepts(0, instead="use /v1/chat/completions for logprobs")] = None
    truncation: Annotated[JsonValue, Accepts("disabled", instead="shorten the input")] = None
