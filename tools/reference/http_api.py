"""The HTTP routes, from the application's own OpenAPI description."""

import json
import tempfile
from pathlib import Path
from typing import Any

import chainrule
from tools.local_server import application
from tools.reference.markdown import code, paragraphs, table

WITHOUT_EFFECT = ("Ignored", "Any other value is not supported")  # of OpenAI's fields: they stand last
LARGE = 2**31 - 1  # a limit that only keeps numbers within their type


def page() -> str:
    schema = openapi()
    routes = [
        (method.upper(), path, operation)
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
    ]
    overview = [[code(f"{method} {path}"), operation.get("summary", "")] for method, path, operation in routes]
    return paragraphs(
        "# HTTP routes",
        "Of `chainrule serve`; `/openapi.json` describes them to programs, answers included. What is wrong with a "
        'request is answered with its status and `{"error": {"message": …}}`.',
        table(["route", "what it does"], overview),
        *(_route(method, path, operation, schema) for method, path, operation in routes),
    )


def openapi() -> dict[str, Any]:
    """The description that a server of one small run gives of itself; which run it is makes no difference."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        text.write_text("a rose is a rose\n" * 20)
        run = chainrule.train(text, order=1, path=Path(folder) / "run")
        return application(run).openapi()


def _route(method: str, path: str, operation: dict[str, Any], schema: dict[str, Any]) -> str:
    parameters = [
        [
            code(each["name"]),
            code(_kind(each.get("schema", {}), schema)),
            code(_default(each.get("schema", {}))),
            each.get("description", ""),
        ]
        for each in operation.get("parameters", [])
    ]
    fields = _fields(operation, schema)
    if not parameters and not fields:
        return ""
    return paragraphs(
        f"## {method} {path}",
        f"{operation.get('summary', '')}",
        table(["parameter", "type", "default", "meaning"], parameters) if parameters else "",
        table(["field", "type", "default", "meaning"], fields) if fields else "",
    )


def _fields(operation: dict[str, Any], schema: dict[str, Any]) -> list[list[str]]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    body = _resolved(content.get("schema", {}), schema)
    required = body.get("required", [])
    rows = [
        [
            code(name),
            code(_kind(each, schema)),
            "required" if name in required else code(_default(each)),
            each.get("description", ""),
        ]
        for name, each in body.get("properties", {}).items()
    ]
    return sorted(rows, key=lambda row: row[-1].startswith(WITHOUT_EFFECT))


def _resolved(part: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in part:
        return part
    found: dict[str, Any] = schema["components"]["schemas"][part["$ref"].split("/")[-1]]
    return found


def _kind(part: dict[str, Any], schema: dict[str, Any]) -> str:
    """'integer 0…10 or null': a JSON type with its limits."""
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(_kind(each, schema) for each in part["anyOf"]))
    if "$ref" in part:
        return str(part["$ref"]).split("/")[-1]
    if "const" in part:
        return str(part["const"])
    if "enum" in part:
        return " or ".join(each if isinstance(each, str) else json.dumps(each) for each in part["enum"])
    if part.get("type") == "array":
        return f"list of {_kind(part.get('items', {}), schema)}"
    low, high = part.get("minimum"), part.get("maximum")
    is_said = low is not None and high is not None and high < LARGE
    limits = f" {low:,} to {high:,}" if is_said else ""
    return str(part.get("type", "any")) + limits


def _default(part: dict[str, Any]) -> str:
    return "" if part.get("default") is None else str(part["default"])
