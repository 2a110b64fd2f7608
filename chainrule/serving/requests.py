"""The base of all request schemas: strict types, known fields only, and one sentence about what is wrong.

FastAPI parses and validates bodies by these pydantic models, and makes /openapi.json from them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypedDict, get_args

from fastapi.exceptions import RequestValidationError
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, GetCoreSchemaHandler, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError, core_schema

from chainrule.checks import require_number, require_whole
from chainrule.errors import UserError, did_you_mean
from chainrule.serving.errors import APIError
from chainrule.serving.unsupported import UNSUPPORTED, Accepts

MOST_TOKENS = 16384  # of one sample
MOST_CHARACTERS = 100_000  # of one text, and ids of one prompt: tokenizing it blocks everything else
MOST_SHOWN = 20_000  # characters, or ids, of a text that is analysed rather than continued
MOST_MISTAKES = 100  # above this number they are only counted
UNKNOWN_FIELD = "unknown_field"
SENTENCE = "sentence"  # a mistake whose message is a whole sentence

Number = Annotated[float, Field(allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
Id = Annotated[int, Field(ge=0, le=2**31 - 1)]
Ids = Annotated[list[Id], Field(max_length=MOST_CHARACTERS, fail_fast=True)]
SomeIds = Annotated[Ids, Field(min_length=1)]  # an empty text is the end token, so there is always one
Text = Annotated[str, Field(max_length=MOST_CHARACTERS)]
ShownText = Annotated[str, Field(max_length=MOST_SHOWN)]
ShownPrompt = ShownText | Annotated[SomeIds, Field(max_length=MOST_SHOWN)]  # a prompt that is analysed
ModelName = Annotated[str | None, Field(max_length=4096, description="One of /v1/models; the first if left out.")]


class RequestBody(BaseModel):
    """A field left out means its default, and so does null where it is allowed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @classmethod
    def _known_names(cls) -> set[str]:
        """The names of all fields, former ones among them."""
        former = [each.validation_alias for each in cls.model_fields.values()]
        choices = {str(name) for alias in former if isinstance(alias, AliasChoices) for name in alias.choices}
        return {*cls.model_fields, *choices}

    @classmethod
    def _supported_names(cls) -> list[str]:
        fields = cls.model_fields.items()
        return [name for name, field in fields if not any(isinstance(each, Accepts) for each in field.metadata)]

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_fields(cls, value: object) -> object:
        """Before anything else is validated, so that a body of 200,000 unknown fields is one mistake."""
        if isinstance(value, Mapping):
            unknown = next((str(name) for name in value if name not in cls._known_names()), None)
            if unknown is not None:
                name = unknown[:80]
                known = ", ".join(cls._supported_names()) or "none"
                sentence = f"unknown field '{name}'{did_you_mean(name, cls.model_fields)} (there are: {known})"
                raise PydanticCustomError(UNKNOWN_FIELD, "{sentence}", {"sentence": sentence, "field": name})
        return value


class TypedBody(RequestBody):
    """A part of a request, one of several types, that has its `type` in a field."""

    types: ClassVar[tuple[str, ...]]  # those that are supported; the first is the default where there is one

    @model_validator(mode="before")
    @classmethod
    def _refuse_other_types(cls, value: object) -> object:
        """Before its other fields are validated, which other types do not have."""
        given = value.get("type") if isinstance(value, Mapping) else None
        if isinstance(given, str) and given not in cls.types:
            sentence = f"of type '{given[:80]}' is not supported; use type '{cls.types[0]}'"
            raise PydanticCustomError(UNSUPPORTED, "{sentence}", {"sentence": sentence})
        return value


@dataclass(frozen=True)
class Between:
    """Marks a field that is a number within bounds, or null: any other value is refused by one plain sentence."""

    low: float
    high: float

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        is_whole = int in get_args(source)
        bounded: core_schema.CoreSchema = (
            core_schema.int_schema(ge=int(self.low), le=int(self.high), strict=True)
            if is_whole
            else core_schema.float_schema(ge=self.low, le=self.high, strict=True, allow_inf_nan=False)
        )
        require = require_whole if is_whole else require_number

        def check(value: object, info: core_schema.ValidationInfo) -> object:
            if value is not None:
                with sentence_error():
                    require(info.field_name or "", value, self.low, self.high)  # type: ignore[arg-type]
            return value

        return core_schema.with_info_before_validator_function(check, core_schema.nullable_schema(bounded))


@contextmanager
def sentence_error() -> Iterator[None]:
    """Turn a UserError inside a validator into a mistake of the request that is explained by its sentence."""
    try:
        yield
    except UserError as error:
        raise PydanticCustomError(SENTENCE, "{sentence}", {"sentence": error.sentence}) from None


class FilterSettings(TypedDict, total=False):
    """The arguments of `Sampling` that reshape a distribution."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    typical_p: float
    repetition_penalty: float


class SamplingFilters(RequestBody):
    """How a distribution is reshaped before a token is drawn."""

    temperature: Annotated[float | None, Between(0, 100)] = 1.0  # OpenAI's default, not that of `Sampling`
    top_k: Annotated[int | None, Between(0, 1_000_000)] = 0
    top_p: Annotated[float | None, Between(0, 1)] = 1.0
    min_p: Annotated[float | None, Between(0, 1)] = 0.0
    typical_p: Annotated[float | None, Between(0, 1)] = 1.0
    repetition_penalty: Annotated[float | None, Between(0.01, 100)] = 1.0

    @property
    def filters(self) -> FilterSettings:
        """The settings by name, the defaults of these fields for those that are null."""
        own = SamplingFilters.model_fields
        given = {name: getattr(self, name) for name in own}
        settled = {name: own[name].default if value is None else value for name, value in given.items()}
        return FilterSettings(**settled)  # type: ignore[typeddict-item]


def explain_validation_error(error: RequestValidationError) -> APIError:
    """The first mistake of a request, in one sentence."""
    mistakes: Sequence[ErrorDetails] = error.errors()
    if len(mistakes) > MOST_MISTAKES:
        return APIError(400, f"the request is wrong in {len(mistakes):,} places", "invalid_value")
    first = next((each for each in mistakes if each["type"] == UNSUPPORTED), mistakes[0])
    source, *names = (str(part)[:80] for part in first["loc"])
    if first["type"] == UNKNOWN_FIELD:
        return APIError(400, first["msg"], UNKNOWN_FIELD, names[0] if names else first["ctx"]["field"])
    if first["type"] == UNSUPPORTED:
        return APIError(400, f"{_path(names)} {first['msg']}", UNSUPPORTED, names[0])
    if first["type"] == SENTENCE:
        return APIError(400, first["msg"], "invalid_value", names[0])
    if not names:
        what = _start_lower(first["msg"])
        return APIError(400, f"the request is not the JSON object that is expected here: {what}", "invalid_json")
    if source != "body":
        return APIError(400, f"'{names[-1]}' in the address is wrong: {first['msg']}", "invalid_value", names[-1])
    messages = dict.fromkeys(_start_lower(each["msg"]) for each in mistakes if each["loc"][:2] == first["loc"][:2])
    sentence = f"the field '{names[0]}' is wrong: {' or '.join(list(messages)[:4])}"
    return APIError(400, sentence, "invalid_value", names[0])


def _path(names: Sequence[str]) -> str:
    """['messages', '0', 'audio'] -> 'messages[0].audio', as OpenAI writes it; without the names of types."""
    known = [name for name in names if name.isdecimal() or name.isidentifier()]
    return "".join(f"[{name}]" if name.isdecimal() else f".{name}" for name in known).removeprefix(".")


def _start_lower(message: str) -> str:
    return message[:1].lower() + message[1:200]
