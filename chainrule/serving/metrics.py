"""The server's metrics, in Prometheus' text format."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE

__all__ = ["CONTENT_TYPE", "Metrics"]

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """With a registry of its own, so that several servers in one process are counted separately."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "Requests answered.", "route", "status")
        self.prompt_tokens = self._counter("prompt_tokens", "Tokens of prompts.", "model")
        self.generated_tokens = self._counter("generated_tokens", "Tokens generated.", "model")
        self.seconds = self._histogram("request_seconds", "From a request to the end of its answer.", "route")
        self.first_token = self._histogram("first_token_seconds", "From a request to its first token.", "model")
        self._waiting = Gauge("chainrule_waiting", "Samples waiting for a place in the batch.", registry=self.registry)
        self._decoding = Gauge("chainrule_decoding", "Samples being generated.", registry=self.registry)

    def _counter(self, name: str, description: str, *labels: str) -> Counter:
        return Counter(f"chainrule_{name}", description, labels, registry=self.registry)

    def _histogram(self, name: str, description: str, *labels: str) -> Histogram:
        return Histogram(f"chainrule_{name}", description, labels, buckets=SECONDS, registry=self.registry)

    def text(self, waiting: int, decoding: int) -> bytes:
        self._waiting.set(waiting)
        self._decoding.set(decoding)
        return generate_latest(self.registry)
