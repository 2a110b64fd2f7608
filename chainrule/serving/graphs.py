"""/graphs: computation graphs of small models; every node with its position, its value and its gradient."""

from typing import Annotated

import numpy as np
from fastapi import FastAPI, Query

from chainrule.analysis.explain.computation import GRAPHS, computation
from chainrule.serving.errors import APIError
from chainrule.serving.responses import JsonObject, declare
from chainrule.serving.service import Service
from chainrule.tape.graph import BOX, Node, arrange

MOST_WORDS = 8
MOST_NUMBERS = 512  # of an array that is sent completely


def add_routes(app: FastAPI, service: Service) -> None:
    @app.get("/graphs", summary="The models whose graphs can be shown.", responses=declare())
    async def listed() -> JsonObject:
        return {"data": list(GRAPHS), "most_words": MOST_WORDS}

    @app.get("/graphs/{model}", summary="The graph of one, for a text of some words.", responses=declare())
    async def graph(model: str, length: Annotated[int, Query(ge=1, le=MOST_WORDS)] = 3) -> JsonObject:
        if model not in GRAPHS:
            raise APIError(404, f"there is no graph of that name (there are: {', '.join(GRAPHS)})", None, "model")
        nodes = await service.scheduler.run(lambda: computation(model, length))
        return {"model": model, "length": length, "box": list(BOX), "nodes": nodes_to_json(nodes)}


def nodes_to_json(nodes: list[Node]) -> list[JsonObject]:
    return [
        {
            "number": node.number,
            "kind": node.kind,
            "name": node.name,
            "inputs": list(node.inputs),
            "x": round(x, 1),
            "y": round(y, 1),
            "value": array_to_json(node.value),
            "gradient": None if node.gradient is None else array_to_json(node.gradient),
        }
        for node, (x, y) in zip(nodes, arrange(nodes), strict=True)
    ]


def array_to_json(array: np.ndarray) -> JsonObject:
    """Shape and summary statistics; for a small array all of its numbers, row by row."""
    numbers = array.astype(np.float64).ravel()
    figures: JsonObject = {"shape": list(array.shape), "min": None, "max": None, "mean": None, "norm": None}
    if numbers.size:
        figures |= {
            "min": _rounded(numbers.min()),
            "max": _rounded(numbers.max()),
            "mean": _rounded(numbers.mean()),
            "norm": _rounded(float(np.linalg.norm(numbers))),
        }
    return figures | {"numbers": [_rounded(each) for each in numbers] if numbers.size <= MOST_NUMBERS else None}


def _rounded(number: float) -> float | None:
    return float(f"{number:.5g}") if np.isfinite(number) else None
