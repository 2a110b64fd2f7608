"""A server of small runs in this process, and a browser that looks at its page."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from chainrule.serving.app import make_app
from tests.serving.toys import toy_service

pytest.register_assert_rewrite("tests.serving.page.accessible")  # so that it is told what is not
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@contextmanager
def served(paths: list[Path]) -> Iterator[str]:
    """http://127.0.0.1:PORT of a server of these runs."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(make_app(toy_service(paths)), log_level="warning"))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join(timeout=10)


@pytest.fixture(scope="session")
def address(toys: list[Path]) -> Iterator[str]:
    """A server that runs as long as the tests."""
    with served(toys) as found:
        yield found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.is_file():
        pytest.skip(f"there is no {CHROMIUM}")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield found
        found.close()


def _is_error(message: Any) -> bool:
    """A refused request is logged by the browser itself; whether it should have been is for the test to say."""
    return message.type == "error" and not message.text.startswith("Failed to load resource")


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A fresh page that fails the test if it logs an error, refused styles and scripts among them."""
    context = browser.new_context(base_url=address, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(15_000)
    found = context.new_page()
    errors: list[str] = []
    found.on("pageerror", lambda error: errors.append(str(error)))
    found.on("console", lambda message: errors.append(message.text) if _is_error(message) else None)
    yield found
    context.close()
    assert not errors
