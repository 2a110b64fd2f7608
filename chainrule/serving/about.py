"""What is served and how it is: /v1/models, /health, /metrics."""

from typing import Any

from fastapi import FastAPI
from fastapi.responses import Response

from chainrule.serving.metrics import CONTENT_TYPE
from chainrule.serving.problems import Problem
from chainrule.serving.schema import ERRORS
from chainrule.serving.service import Service


def add_routes(app: FastAPI, service: Service) -> None:
    engine = service.engine

    @app.get("/v1/models", summary="The models that are served.", responses=ERRORS)
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [served.to_json() for served in service.library]}

    @app.get("/v1/models/{id:path}", summary="One of them.", responses=ERRORS)
    async def model(id: str) -> dict[str, Any]:
        return service.library.find(id).to_json()

    @app.get("/health", summary="Whether requests are taken.", responses=ERRORS)
    async def health() -> dict[str, Any]:
        if engine.is_draining:
            raise Problem(503, "the server is shutting down", "shutting_down")
        return {"status": "ok", "waiting": engine.waiting, "decoding": engine.decoding}

    @app.get("/metrics", summary="Counts for Prometheus.", responses=ERRORS, response_class=Response)
    async def metrics() -> Response:
        return Response(service.metrics.text(engine.waiting, engine.decoding), media_type=CONTENT_TYPE)
