"""`chainrule serve`: runs behind OpenAI's API, and a page to look inside them."""

from pathlib import Path
from typing import Annotated

import typer

from chainrule.cli import options
from chainrule.cli.output import plural, say
from chainrule.errors import UserError


def command(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", help="Runs of language models, translators or summarisers, and folders made by compare."
        ),
    ],
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 for all (then set a key).")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any free one.")] = 8000,
    api_key_file: Annotated[
        Path | None, typer.Option(help="A file whose first line is the API key that every request must have.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Another host name under which the server is reached.")
    ] = None,
    rows: Annotated[
        int, typer.Option(min=1, max=4096, help="The most sequences of one model that are decoded together.")
    ] = 64,
    quantize: options.Quantize = None,
    waiting: Annotated[
        int,
        typer.Option(min=1, max=100_000, help="The most sequences that may wait; further requests are answered 429."),
    ] = 256,
) -> None:
    """Serve runs: an OpenAI-compatible API, and a page to look inside the models."""
    options.let_threads_sleep()
    from chainrule.models.contract import learns
    from chainrule.serving.access import LOOPBACK, AccessPolicy
    from chainrule.serving.app import make_app
    from chainrule.serving.model_provider import ModelProvider, find_runs
    from chainrule.serving.scheduler import Scheduler, SchedulerLimits
    from chainrule.serving.server import serve
    from chainrule.serving.service import Service

    key = _read_key(api_key_file) if api_key_file else None
    found, comparisons = find_runs(runs)
    models = ModelProvider(found)
    models.load()
    for served in models:
        if quantize and served.pair_task is not None:
            say(f"note: '{served.id}' is not quantized; --quantize is for language models")
        elif quantize and learns(served.model):
            options.quantize(served.run, quantize)
    models.warm_up()
    scheduler = Scheduler(SchedulerLimits(rows=rows, waiting=waiting))
    policy = AccessPolicy(host, tuple(name.lower() for name in allow_host or ()), key)
    app = make_app(Service(models, scheduler, comparisons=comparisons), policy)
    if host not in LOOPBACK and key is None:
        say(f"note: anyone who can reach {host} can use these models; --api-key-file sets a key")

    def ready(port: int) -> None:
        name = f"[{host}]" if ":" in host else host
        say(f"{plural(len(models.by_id), 'model')}: {', '.join(models.by_id)}")
        say(f"the page: http://{name}:{port}/   the API: http://{name}:{port}/v1   (stop with Ctrl-C)")

    serve(app, scheduler, host, port, ready)


def _read_key(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the key in '{path}': {getattr(error, 'strerror', error)}") from None
    key = lines[0].strip() if lines else ""
    if not key or not key.isascii():
        raise UserError(f"the first line of '{path}' must be the key, in ASCII characters")
    return key
