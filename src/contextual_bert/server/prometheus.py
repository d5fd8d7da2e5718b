"""Counters and timers of the server, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LONG_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """The metrics of one app, in a registry of their own.

    Example:
        >>> metrics = Metrics()
        >>> metrics.requests.labels("/healthz", "GET", "200").inc()
        >>> b'requests_total{method="GET",route="/healthz",status="200"} 1.0' in metrics.text()
        True
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "Requests answered.", "route", "method", "status")
        self.request_seconds = self._histogram("request_seconds", "From arrival to the answer's end.", SECONDS, "route")
        self.queue_seconds = self._histogram("queue_seconds", "How long a request waited for its batch.", SECONDS)
        self.batch_seconds = self._histogram("batch_seconds", "How long the model took for a batch.", SECONDS)
        self.batch_queries = self._histogram("batch_queries", "Queries of a batch.", SIZES)
        self.computation_queue_seconds = self._histogram(
            "computation_queue_seconds", "How long a computation waited.", LONG_SECONDS
        )
        self.computation_seconds = self._histogram(
            "computation_seconds", "How long the model took for it.", LONG_SECONDS, "kind"
        )
        self.dropped = self._counter("dropped", "Requests that waited too long and were not computed.")
        self.reloads = self._counter("reloads", "Attempts to load a new version.", "outcome")
        self.version = self._gauge("model_version", "Number of the version that answers, from 1.")
        self.is_newest = self._gauge(
            "last_reload_succeeded", "0 if the newest reload failed and an older version answers."
        )
        self.queue = self._gauge("queue_queries", "Queries that wait.")
        self.connections = self._gauge("connections", "Connections that are open.")
        self.closed_connections = self._counter("closed_connections", "Connections that the server ended.", "reason")
        self.computation_queue = self._gauge(
            "queue_computations", "Computations that wait: whole sets and explanations."
        )

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(f"contextual_bert_{name}", help_text, labels, registry=self.registry)

    def _gauge(self, name: str, help_text: str) -> Gauge:
        return Gauge(f"contextual_bert_{name}", help_text, registry=self.registry)

    def _histogram(self, name: str, help_text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"contextual_bert_{name}", help_text, labels, buckets=buckets, registry=self.registry)
