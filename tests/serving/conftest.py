"""The server twice: in this process, for speed, and as a process of its own, as people run it."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

import chainrule
from chainrule.api import TrainedRun
from chainrule.serving.app import make_app
from chainrule.serving.model_provider import ModelProvider
from chainrule.serving.scheduler import Scheduler
from chainrule.serving.service import Service
from tests.serving.models import make_runs
from tests.serving.toys import toy_service, train_toys, train_translators

ROOT = Path(chainrule.__file__).parents[1]
READY = re.compile(r"http://[^/]+:(\d+)/v1")
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # torch's threads wait for each other, long where other tests run beside
PATIENCE = 60.0  # seconds for what takes less than one: no test is decided by a slow machine


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def runs(folders: dict[str, Path]) -> dict[str, TrainedRun]:
    return {name: chainrule.load(path) for name, path in folders.items()}


@pytest.fixture(scope="session")
def service(runs: dict[str, TrainedRun]) -> Service:
    library = ModelProvider([runs[name] for name in ("cows", "herd", "strict", "letters", "lstm", "transformer")])
    library.load()
    return Service(library, Scheduler())


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """An n-gram, an LSTM and a Transformer that have learned the same few sentences."""
    return train_toys(tmp_path_factory.mktemp("toys"))


@pytest.fixture(scope="session")
def translators(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return train_translators(tmp_path_factory.mktemp("translators"))


@pytest.fixture(scope="session")
def toy_client(toys: list[Path]) -> Iterator[TestClient]:
    with TestClient(make_app(toy_service(toys)), base_url="http://localhost") as found:
        yield found


@dataclass
class Client:
    """Requests to the server in this process."""

    http: TestClient

    def post(self, path: str, **body: Any) -> Any:
        answer = self.http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def complete(self, model: str, prompt: Any, **body: Any) -> Any:
        return self.post("/v1/completions", model=model, prompt=prompt, **body)

    def choices(self, model: str, prompt: Any, **body: Any) -> Any:
        return self.complete(model, prompt, **body)["choices"]

    def refused(self, path: str, status: int = 400, **body: Any) -> Any:
        """The error, in OpenAI's shape and nothing else."""
        answer = self.http.post(path, json=body)
        assert answer.status_code == status, answer.text
        return error_of(answer)

    def stream(self, path: str, **body: Any) -> list[Any]:
        """The events of a stream, which ends with [DONE]."""
        answer = self.http.post(path, json={**body, "stream": True})
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream")
        return events_of(answer.text)


def events_of(text: str) -> list[Any]:
    parts = text.split("\n\n")
    assert parts[-1] == "" and parts[-2] == "data: [DONE]" and all(part.startswith("data: ") for part in parts[:-1])
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]


def error_of(answer: Any) -> Any:
    assert set(answer.json()) == {"error"}
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["message"]
    return error


@pytest.fixture(scope="session")
def client(service: Service) -> Iterator[Client]:
    with TestClient(make_app(service), base_url="http://127.0.0.1", raise_server_exceptions=False) as http:
        yield Client(http)


@dataclass
class Live:
    """A server in a process of its own."""

    process: "subprocess.Popen[bytes]"
    output: Path

    @property
    def said(self) -> str:
        return self.output.read_text()

    @cached_property
    def port(self) -> int:
        return int(READY.findall(self.said)[0])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def http(self, **settings: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=PATIENCE, trust_env=False, **settings)

    def health(self) -> Any:
        with self.http() as http:
            answer = http.get("/health")
            assert answer.status_code == 200
            return answer.json()

    @property
    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextmanager
def start(*arguments: str) -> Iterator[Live]:
    """`python -m ...`, once it has said its port."""
    command = [sys.executable, "-m", *arguments]
    with tempfile.NamedTemporaryFile() as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, env={**os.environ, **ONE_THREAD})
        live = Live(process, Path(output.name))
        try:
            while process.poll() is None and not READY.search(live.said):
                time.sleep(0.05)
            assert process.poll() is None, live.said
            yield live
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def serve(folders: dict[str, Path]) -> Callable[..., Any]:
    """serve("cows", "--rows", "4"): the command itself, on a port that is free."""

    def begin(*arguments: str) -> Any:
        named = [str(folders[each]) if each in folders else each for each in arguments]
        return start("chainrule", "serve", "--port", "0", *named)

    return begin


@pytest.fixture(scope="session")
def live(serve: Callable[..., Any], translators: list[Path]) -> Iterator[Live]:
    with serve("cows", "herd", "letters", "lstm", "transformer", *map(str, translators)) as server:
        yield server
