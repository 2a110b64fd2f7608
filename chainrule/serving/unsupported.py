"""Request fields that are not supported, except for the values that ask for nothing."""

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, JsonValue
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

UNSUPPORTED = "unsupported"  # an error's code


class Accepts:
    """Annotates a field that may only have these values, or be null; of any other it is said that the field is not
    supported, why, and what to do instead."""

    def __init__(self, *values: JsonValue, because: str = "", instead: str = "leave it out"):
        self.values = (None, *values)
        self.sentence = f"is not supported{because and ': '}{because}; {instead}"

    def _check(self, value: JsonValue) -> JsonValue:
        if not any(type(value) is type(each) and value == each for each in self.values):
            raise PydanticCustomError(UNSUPPORTED, "{sentence}", {"sentence": self.sentence})
        return value

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._check)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"enum": list(self.values), "description": f"Any other value {self.sentence}."}
