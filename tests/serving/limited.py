"""A server that is told to stop sooner than people would want: python -m tests.serving.limited SECONDS RUN..."""

import sys

from chainrule.runs.folder import Run
from chainrule.serving.app import make_app
from chainrule.serving.model_provider import ModelProvider
from chainrule.serving.scheduler import Scheduler, SchedulerLimits
from chainrule.serving.server import serve
from chainrule.serving.service import Service

if __name__ == "__main__":
    scheduler = Scheduler(SchedulerLimits(shutdown_seconds=float(sys.argv[1])))
    library = ModelProvider([Run(path) for path in sys.argv[2:]])
    library.load()
    app = make_app(Service(library, scheduler))
    serve(app, scheduler, "127.0.0.1", 0, lambda port: print(f"http://127.0.0.1:{port}/v1", flush=True))
