"""The server's application over one run, in this process: what the tools ask and describe."""

from chainrule.serving.library import Library
from fastapi import FastAPI

from chainrule.runs.folder import Run
from chainrule.serving.app import make_app
from chainrule.serving.scheduler import Engine
from chainrule.serving.service import Service


def application(run: Run) -> FastAPI:
    """The application of `chainrule serve RUN`, its model loaded."""
    library = Library([run])
    library.load()
    return make_app(Service(library, Engine()))
