"""The page and its files, as they lie beside this module; nothing else of the disk is ever looked at."""

from importlib import resources

from fastapi import FastAPI
from fastapi.responses import Response

from chainrule.serving.problems import Problem
from chainrule.serving.service import Service

KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


def add_routes(app: FastAPI, service: Service) -> None:
    files = {
        file.name: file.read_bytes()
        for file in resources.files("chainrule.serving").joinpath("web").iterdir()
        if file.name.rpartition(".")[2] in KINDS
    }

    def serve(name: str) -> Response:
        if name not in files:
            raise Problem(404, "there is nothing at this address")
        return Response(files[name], media_type=f"{KINDS[name.rpartition('.')[2]]}; charset=utf-8")

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return serve("index.html")

    @app.get("/web/{name}", include_in_schema=False)
    async def file(name: str) -> Response:
        return serve(name)
