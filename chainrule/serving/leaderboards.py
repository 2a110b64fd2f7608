"""/leaderboards: the results of `chainrule compare`, for the comparisons that are served."""

import json
from pathlib import Path

from fastapi import FastAPI

from chainrule.serving.responses import JsonObject, declare
from chainrule.serving.service import Service

TABLE = Path("report") / "table.json"


def add_routes(app: FastAPI, service: Service) -> None:
    served = {each.run.path.resolve(): each.id for each in service.models}

    @app.get("/leaderboards", summary="The results of comparisons.", responses=declare())
    async def leaderboards() -> JsonObject:
        return {"data": [_read(folder, served) for folder in service.comparisons]}


def _read(folder: Path, served: dict[Path, str]) -> JsonObject:
    """A comparison's table, with the id of each model that is served; None while the comparison is under way."""
    comparison: JsonObject = {"name": folder.resolve().name, "table": None}
    try:
        text = (folder / TABLE).read_text(encoding="utf-8")
        table = json.loads(text, parse_constant=lambda name: None)
        for row in table["models"]:
            row["id"] = _find_served(row, folder, served)
    except (OSError, ValueError, KeyError, TypeError):
        return comparison
    return comparison | {"table": table}


def _find_served(row: JsonObject, folder: Path, served: dict[Path, str]) -> str | None:
    """The id of a row's model: a run inside the comparison's folder, or one that existed before and lies elsewhere."""
    places = [folder / str(row["model"]), Path(str(row.get("run", row["model"])))]
    return next((served[place.resolve()] for place in places if place.resolve() in served), None)
