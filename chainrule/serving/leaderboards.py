"""/leaderboards: what `chainrule compare` found, of the comparisons that are served."""

import json
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from chainrule.serving.answers import ERRORS
from chainrule.serving.service import Service

TABLE = Path("report") / "table.json"


def add_routes(app: FastAPI, service: Service) -> None:
    served = {each.run.path.resolve(): each.id for each in service.library}

    @app.get("/leaderboards", summary="The tables of the comparisons that are served.", responses=ERRORS)
    async def leaderboards() -> dict[str, Any]:
        return {"data": [_read(folder, served) for folder in service.comparisons]}


def _read(folder: Path, served: dict[Path, str]) -> dict[str, Any]:
    """With the id of each model that is served; a comparison under way has no table yet."""
    found: dict[str, Any] = {"name": folder.resolve().name, "table": None}
    try:
        text = (folder / TABLE).read_text(encoding="utf-8")
        table = json.loads(text, parse_constant=lambda name: None)
        for row in table["models"]:
            row["id"] = served.get((folder / row["model"]).resolve())
    except (OSError, ValueError, KeyError, TypeError):
        return found
    return found | {"table": table}
