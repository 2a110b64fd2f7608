"""What is served and how it is: /v1/models, /health, /metrics."""

from typing import Any

from fastapi import FastAPI
from fastapi.responses import Response

from chainrule.serving.answers import ERRORS, Health, ModelCard, ModelList, answered
from chainrule.serving.metrics import CONTENT_TYPE
from chainrule.serving.problems import Problem
from chainrule.serving.service import Service


def add_routes(app: FastAPI, service: Service) -> None:
    engine = service.engine

    @app.get("/v1/models", summary="The models that are served.", response_model=None, responses=answered(ModelList))
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [served.to_json() for served in service.library]}

    @app.get("/v1/models/{id:path}", summary="One of them.", response_model=None, responses=answered(ModelCard))
    async def model(id: str) -> dict[str, Any]:
        return service.library.find(id).to_json()

    @app.get("/health", summary="Whether requests are taken.", response_model=None, responses=answered(Health))
    async def health() -> dict[str, Any]:
        if engine.is_draining:
            raise Problem(503, "the server is shutting down", "shutting_down")
        return {"status": "ok", "waiting": engine.waiting, "decoding": engine.decoding}

    @app.get(
        "/metrics",
        summary="Counts for Prometheus.",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **ERRORS},
    )
    async def metrics() -> Response:
        return Response(service.metrics.text(engine.waiting, engine.decoding), media_type=CONTENT_TYPE)
