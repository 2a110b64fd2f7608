"""The application: every route, behind the guard, with one way to say what went wrong."""

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chainrule.errors import UserError
from chainrule.serving import (
    about,
    chat,
    completions,
    dice,
    explanations,
    graphs,
    leaderboards,
    page,
    passages,
    surprise,
    tokens,
    trainings,
    translations,
)
from chainrule.serving.guard import Door, Guard, answer
from chainrule.serving.problems import Problem, bug
from chainrule.serving.schema import describe
from chainrule.serving.service import Service
from chainrule.version import __version__

PARTS = (
    about, completions, chat, translations, tokens, dice, explanations, surprise, trainings, leaderboards, graphs,
    passages, page,
)  # fmt: skip
log = logging.getLogger("chainrule.serving")


def make_app(service: Service, door: Door | None = None) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.engine.begin()
        yield
        service.engine.stop()

    app = FastAPI(
        title="Chainrule",
        version=__version__,
        summary="Language models of your own, behind OpenAI's API.",
        docs_url=None,  # these pages would load their scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    for part in PARTS:
        part.add_routes(app, service)
    describe(app)
    app.add_exception_handler(Problem, _answer_problem)
    app.add_exception_handler(UserError, _answer_user_error)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_exception_handler(RequestValidationError, _answer_query)
    app.add_exception_handler(Exception, _answer_bug)
    app.add_middleware(Counted, service=service)
    app.add_middleware(Guard, door=door or Door())
    return app


async def _answer_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return answer(error)


async def _answer_user_error(request: Request, error: Exception) -> Response:
    return answer(Problem(400, str(error)))


async def _answer_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = {404: "there is nothing at this address", 405: "this address does not take that method"}
    response = answer(Problem(error.status_code, said.get(error.status_code, str(error.detail))))
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


async def _answer_query(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    name = str(first["loc"][-1])
    return answer(Problem(400, f"'{name}' in the address is wrong: {first['msg']}", "invalid_value", name))


async def _answer_bug(request: Request, error: Exception) -> JSONResponse:
    return answer(bug())


class Counted:
    """Counts every answer by its route and status, and how long it took."""

    def __init__(self, app: ASGIApp, service: Service):
        self.app, self.metrics = app, service.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_counted)
        finally:
            found: Any = scope.get("route")
            route = getattr(found, "path", "none")  # what was asked for is not kept: it may be anything
            self.metrics.requests.labels(route, str(status)).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - began)
