"""/health: whether the server takes requests. /metrics: counts for Prometheus."""

from fastapi import FastAPI
from fastapi.responses import Response

from chainrule.serving.errors import shutting_down
from chainrule.serving.metrics import CONTENT_TYPE
from chainrule.serving.responses import ERRORS, HealthResponse, JsonObject, declare
from chainrule.serving.service import Service


def add_routes(app: FastAPI, service: Service) -> None:
    scheduler = service.scheduler

    @app.get(
        "/health",
        summary="Whether the server accepts requests.",
        response_model=None,
        responses=declare(HealthResponse),
    )
    async def health() -> JsonObject:
        if scheduler.is_draining:
            raise shutting_down()
        return {"status": "ok", "waiting": scheduler.waiting, "decoding": scheduler.decoding}

    @app.get(
        "/metrics",
        summary="Counts for Prometheus.",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **ERRORS},
    )
    async def metrics() -> Response:
        return Response(service.metrics.text(scheduler.waiting, scheduler.decoding), media_type=CONTENT_TYPE)
