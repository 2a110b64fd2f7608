"""The page: the HTML, scripts and styles in web/."""

import mimetypes
from importlib import resources

from fastapi import FastAPI
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles

from chainrule.serving.service import Service

WEB = str(resources.files("chainrule.serving") / "web")


def add_routes(app: FastAPI, service: Service) -> None:
    mimetypes.add_type("text/javascript", ".js")  # some systems say text/plain, which browsers do not run
    files = StaticFiles(directory=WEB)

    @app.get("/", include_in_schema=False)
    async def index() -> FileResponse:
        return FileResponse(f"{WEB}/index.html")

    app.mount("/web", files, name="web")
