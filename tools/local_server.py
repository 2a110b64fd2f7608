"""The server's application over one run, in this process: what the tools ask and describe."""

from fastapi import FastAPI

from chainrule.runs.folder import Run
from chainrule.serving.app import make_app
from chainrule.serving.model_provider import ModelProvider
from chainrule.serving.scheduler import Scheduler
from chainrule.serving.service import Service


def application(run: Run) -> FastAPI:
    """The application of `chainrule serve RUN`, its model loaded."""
    models = ModelProvider([run])
    models.load()
    return make_app(Service(models, Scheduler()))
