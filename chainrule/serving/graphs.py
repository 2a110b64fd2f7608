"""/graphs: computation graphs of small models, every node with its place in the picture, its value and its gradient."""

from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query

from chainrule.analysis.explain.computation import GRAPHS, computation
from chainrule.serving.answers import ERRORS
from chainrule.serving.problems import Problem
from chainrule.serving.service import Service
from chainrule.tape.graph import BOX, Node, arrange

MOST_WORDS = 8
MOST_NUMBERS = 512  # of an array that is told whole


def add_routes(app: FastAPI, service: Service) -> None:
    @app.get("/graphs", summary="The models whose graphs can be seen.", responses=ERRORS)
    async def listed() -> dict[str, Any]:
        return {"data": list(GRAPHS), "most_words": MOST_WORDS}

    @app.get("/graphs/{model}", summary="The graph of one, for a text of some words.", responses=ERRORS)
    async def graph(model: str, length: Annotated[int, Query(ge=1, le=MOST_WORDS)] = 3) -> dict[str, Any]:
        if model not in GRAPHS:
            raise Problem(404, f"there is no graph of that name (there are: {', '.join(GRAPHS)})", None, "model")
        nodes = await service.engine.run(lambda: computation(model, length))
        return {"model": model, "length": length, "box": list(BOX), "nodes": _told(nodes)}


def _told(nodes: list[Node]) -> list[dict[str, Any]]:
    return [
        {
            "number": node.number,
            "kind": node.kind,
            "name": node.name,
            "inputs": list(node.inputs),
            "x": round(x, 1),
            "y": round(y, 1),
            "value": told_array(node.value),
            "gradient": None if node.gradient is None else told_array(node.gradient),
        }
        for node, (x, y) in zip(nodes, arrange(nodes), strict=True)
    ]


def told_array(array: np.ndarray) -> dict[str, Any]:
    """Its shape and what sums it up; where it is small, all of its numbers row by row."""
    numbers = array.astype(np.float64).ravel()
    figures: dict[str, Any] = {"shape": list(array.shape), "min": None, "max": None, "mean": None, "norm": None}
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
