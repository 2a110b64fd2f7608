"""The application: all routes, access control, metrics, and errors in OpenAI's format."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any  # FastAPI's own type of an OpenAPI document

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chainrule.errors import UserError
from chainrule.serving import (
    chat,
    compare,
    completions,
    dice,
    embeddings,
    explanations,
    game,
    graphs,
    health,
    leaderboards,
    models,
    page,
    responses_api,
    tokens,
    trainings,
    translations,
)
from chainrule.serving.access import AccessMiddleware, AccessPolicy
from chainrule.serving.errors import APIError, error_response, internal_error
from chainrule.serving.json_route import JsonRoute
from chainrule.serving.requests import explain_validation_error
from chainrule.serving.service import Service
from chainrule.version import __version__

ROUTES = (
    models, health, completions, chat, responses_api, embeddings, translations, tokens, dice, explanations, compare,
    trainings, leaderboards, graphs, game, page,
)  # fmt: skip


class App(FastAPI):
    """FastAPI, whose OpenAPI document does not declare status 422: a request that is wrong gets 400 here."""

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        for path in document["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        return document


def make_app(service: Service, policy: AccessPolicy | None = None) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.scheduler.start()
        yield
        service.scheduler.stop()

    app = App(
        title="Chainrule",
        version=__version__,
        summary="Language models of your own, behind OpenAI's API.",
        docs_url=None,  # these pages load scripts from other sites
        redoc_url=None,
        lifespan=lifespan,
    )
    app.router.route_class = JsonRoute
    for route in ROUTES:
        route.add_routes(app, service)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    app.add_exception_handler(UserError, _handle_user_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(Exception, _handle_bug)
    app.add_middleware(MetricsMiddleware, service=service)
    app.add_middleware(HeadMiddleware)
    app.add_middleware(AccessMiddleware, policy=policy or AccessPolicy())
    return app


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    """Our own errors, and those of Starlette for unknown addresses and methods."""
    assert isinstance(error, HTTPException)
    if isinstance(error, APIError):
        return error_response(error)
    sentences = {404: "there is no such route", 405: "this route does not allow that method"}
    response = error_response(APIError(error.status_code, sentences.get(error.status_code, str(error.detail))))
    response.headers.update(error.headers or {})
    return response


async def _handle_user_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, UserError)
    return error_response(APIError.from_user_error(error))


async def _handle_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return error_response(explain_validation_error(error))


async def _handle_bug(request: Request, error: Exception) -> Response:
    return error_response(internal_error())


class HeadMiddleware:
    """Answers HEAD as GET, without the body: FastAPI's routes for GET do not take it."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self.app({**scope, "method": "GET"}, receive, send_without_body)


class MetricsMiddleware:
    """Counts responses by route and status, and measures how long they take."""

    def __init__(self, app: ASGIApp, service: Service):
        self.app, self.metrics = app, service.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started_at, status = time.perf_counter(), 500

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_counted)
        finally:
            route = _route_of(scope)
            self.metrics.requests.labels(route, str(status)).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - started_at)


def _route_of(scope: Scope) -> str:
    """The pattern of the route, never the path itself, as clients could make up any number of these."""
    if isinstance(scope.get("endpoint"), StaticFiles):
        return "/web/{name}"
    return getattr(scope.get("route"), "path", "none")
