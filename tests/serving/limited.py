"""A server that is told to stop sooner than people would want: python -m tests.serving.limited SECONDS RUN..."""

import sys

from chainrule.runs.folder import Run
from chainrule.serving.app import make_app
from chainrule.serving.library import Library
from chainrule.serving.scheduler import Engine, Limits
from chainrule.serving.server import serve
from chainrule.serving.service import Service

if __name__ == "__main__":
    engine = Engine(Limits(shutdown_seconds=float(sys.argv[1])))
    library = Library([Run(path) for path in sys.argv[2:]])
    library.load()
    app = make_app(Service(library, engine))
    serve(app, engine, "127.0.0.1", 0, lambda port: print(f"http://127.0.0.1:{port}/v1", flush=True))
