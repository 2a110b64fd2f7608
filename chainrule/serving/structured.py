"""What an answer must match: OpenAI's `response_format`, and `tools` that the model is told to call.

A tool call is an answer that must match the parameters of the function; which function it is, is part of the answer
where there is a choice. With `tool_choice` "auto", an answer that begins with a brace is a call, any other is words.
"""

import json
from secrets import token_hex
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field

from chainrule.errors import UserError
from chainrule.generation.constraint import JSON_STYLE, check_constraint, close_objects
from chainrule.generation.settings import Sampling
from chainrule.serving.errors import APIError
from chainrule.serving.requests import RequestBody, Text
from chainrule.serving.responses import JsonObject
from chainrule.text.base import Tokenizer
from chainrule.text.chat import Message

MOST_TOOLS = 128
JsonSchema = dict[str, Any]
Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
ANY_OBJECT: JsonSchema = {"type": "object"}
NO_ARGUMENTS: JsonSchema = {"type": "object", "properties": {}, "additionalProperties": False}
CALL = '{{"name": "{name}", "arguments": '  # how a call begins, in the one style in which JSON is written
CALL_OR_WORDS = r"""
start: call | words
call: %json {schema}
words: /\s*[^{{\s](.|\n)*/ | ""
"""
MUST_CALL = "Call one of these tools, with arguments as JSON."
MAY_CALL = 'Answer in words, or call one of these tools: {"name": the tool, "arguments": its arguments as JSON}.'


class SchemaFormat(RequestBody):
    name: Name | None = None
    description: Text | None = None
    schema_: JsonSchema = Field(validation_alias=AliasChoices("schema"))
    strict: bool | None = Field(None, description="Ignored: answers always match.")


class ResponseFormat(RequestBody):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: SchemaFormat | None = None

    @property
    def schema_to_match(self) -> JsonSchema | None:
        if self.type == "json_schema":
            if self.json_schema is None:
                sentence = "response_format of the type json_schema needs a json_schema"
                raise APIError(400, sentence, "invalid_value", "response_format")
            return self.json_schema.schema_
        return ANY_OBJECT if self.type == "json_object" else None


class ToolFunction(RequestBody):
    name: Name
    description: Text | None = None
    parameters: JsonSchema | None = None
    strict: bool | None = Field(None, description="Ignored: arguments always match.")


class Tool(RequestBody):
    type: Literal["function"]
    function: ToolFunction


class FunctionName(RequestBody):
    name: Name


class NamedTool(RequestBody):
    type: Literal["function"]
    function: FunctionName


Tools = Annotated[list[Tool], Field(max_length=MOST_TOOLS, fail_fast=True)]
ToolChoice = Literal["none", "auto", "required"] | NamedTool


class ToolCalling:
    """The functions of which an answer calls one; it may also be words where that is for the model to choose."""

    def __init__(self, tools: list[Tool], choice: ToolChoice | None) -> None:
        self.functions = {each.function.name: each.function for each in tools}
        if len(self.functions) < len(tools):
            raise APIError(400, "two tools have the same name", "invalid_value", "tools")
        self.is_named, self.is_optional = isinstance(choice, NamedTool), choice in (None, "auto")
        if isinstance(choice, NamedTool):
            name = choice.function.name
            if name not in self.functions:
                known = ", ".join(self.functions)
                raise APIError(400, f"tool_choice names '{name}', but the tools are: {known}", None, "tool_choice")
            self.functions = {name: self.functions[name]}

    @property
    def names_function(self) -> bool:
        """Whether a call says which function it calls."""
        return self.is_optional or len(self.functions) > 1

    @property
    def constraint(self) -> dict[str, Any]:
        """The settings of sampling that make an answer match."""
        if not self.is_optional:
            return {"json_schema": self.schema}
        schema = {**close_objects(self.schema), "x-guidance": JSON_STYLE}
        return {"grammar": CALL_OR_WORDS.format(schema=json.dumps(schema))}

    @property
    def schema(self) -> JsonSchema:
        """What a call must match: the arguments of the only function, or an object that names one."""
        if not self.names_function:
            return next(map(_parameters, self.functions.values()))
        return {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"name": {"const": each.name}, "arguments": _parameters(each)},
                    "required": ["name", "arguments"],
                    "additionalProperties": False,
                }
                for each in self.functions.values()
            ]
        }

    def introduce(self, messages: list[Message]) -> list[Message]:
        """The conversation with the functions in front, as a part of what the system says."""
        described = [
            json.dumps({"name": each.name, "description": each.description, "parameters": _parameters(each)})
            for each in self.functions.values()
        ]
        text = "\n".join([MAY_CALL if self.is_optional else MUST_CALL, *described])
        if messages[0].role == "system":
            return [Message("system", f"{text}\n\n{messages[0].text}"), *messages[1:]]
        return [Message("system", text), *messages]

    def is_call(self, text: str) -> bool:
        """Whether an answer that begins so is a call, not words."""
        return not self.is_optional or text.startswith("{")

    def calls(self, text: str) -> list[JsonObject]:
        """The call that an answer makes; none where the answer was cut before it named a function."""
        if not self.names_function:
            return [_call(next(iter(self.functions)), text)]
        for name in self.functions:
            begin = CALL.format(name=name)
            if text.startswith(begin):
                return [_call(name, text[len(begin) :].removesuffix("}"))]
        return []


def tool_calling(tools: list[Tool] | None, choice: ToolChoice | None) -> ToolCalling | None:
    """What the fields `tools` and `tool_choice` ask for; None: an answer in words."""
    if choice == "none" or (not tools and choice in (None, "auto")):
        return None
    if not tools:
        raise APIError(400, "tool_choice needs tools to choose from", "invalid_value", "tool_choice")
    return ToolCalling(tools, choice)


def check_structure(tokenizer: Tokenizer, sampling: Sampling, field: str) -> None:
    """Refuse what cannot be matched, before the job is submitted."""
    try:
        check_constraint(tokenizer, sampling.constraint)
    except UserError as error:
        raise APIError.from_user_error(error, "invalid_value", field) from None


def _parameters(function: ToolFunction) -> JsonSchema:
    return NO_ARGUMENTS if function.parameters is None else function.parameters


def _call(name: str, arguments: str) -> JsonObject:
    return {"id": f"call_{token_hex(12)}", "type": "function", "function": {"name": name, "arguments": arguments}}
