"""What the operator sees: one JSON line per request and the numbers that Prometheus collects."""

from __future__ import annotations

import json
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """Logs and metrics of one service. Neither sees a question, a name or a token."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream
        self.registry = CollectorRegistry()
        self.requests = Counter("conjoin_requests", "Requests answered.", ("route", "status"), registry=self.registry)
        self.seconds = Histogram(
            "conjoin_request_seconds", "Time to answer.", ("route",), buckets=SECONDS, registry=self.registry
        )
        self.under_way = Gauge("conjoin_requests_under_way", "Requests being answered.", registry=self.registry)
        self.at_work = Gauge(
            "conjoin_requests_at_work",
            "Requests whose body has come.",
            registry=self.registry,
        )
        self.wrong_tokens = Counter(
            "conjoin_wrong_tokens", "Requests with a wrong or missing token.", registry=self.registry
        )
        self._connections = Gauge("conjoin_connections", "Open connections.", registry=self.registry)
        self._crowded = Counter(
            "conjoin_connections_over_limit",
            "New connections not served.",
            ("admitted",),
            registry=self.registry,
        )
        self._cut = Counter(
            "conjoin_connections_cut",
            "Connections that the service ended: their time was over, or they made room for a new one.",
            ("why", "phase"),
            registry=self.registry,
        )
        self.lost_lines = Counter(
            "conjoin_log_lines_dropped", "Lines of the log that could not be written.", registry=self.registry
        )
        self.batches = Histogram(
            "conjoin_batch_questions", "Questions scored together.", ("run",), buckets=SIZES, registry=self.registry
        )
        self.scoring = Histogram(
            "conjoin_batch_seconds", "Time to score a batch.", ("run",), buckets=SECONDS, registry=self.registry
        )

    def exposition(self) -> bytes:
        """Prometheus text."""
        return generate_latest(self.registry)

    def connected(self, connections: int) -> None:
        """Keep the number of open connections."""
        self._connections.set(connections)

    def crowded(self, admitted: str) -> None:
        """Count a new connection beyond the limits."""
        self._crowded.labels(admitted).inc()

    def timed_out(self, phase: str) -> None:
        """Count a connection whose client was too slow."""
        self._cut.labels("time", phase).inc()

    def evicted(self, phase: str) -> None:
        """Count a connection that made room for a new one."""
        self._cut.labels("room", phase).inc()

    def answered(self, *, route: str, status: int, seconds: float, line: dict[str, Any]) -> None:
        """Count and log one request."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)
        self.log("request", route=route, status=status, seconds=round(seconds, 6), **line)

    def failed(self, error: BaseException, **line: Any) -> None:
        """Log what the client is not told."""
        self.log("failure", level="error", trace="".join(traceback.format_exception(error)), **line)

    def notice_of_loss(self, lines: int) -> str:
        """The line in the place of lines that could not be written."""
        return _line("log", "warning", {"dropped": lines, "message": f"{lines} lines of the log were dropped"})

    def log(self, event: str, *, level: str = "notice", **line: Any) -> None:
        """One JSON line; a log that cannot be written stops nothing."""
        stream = sys.stderr if self.stream is None else self.stream
        try:
            stream.write(_line(event, level, line))
            stream.flush()
        except (OSError, ValueError):
            return


def _line(event: str, level: str, line: dict[str, Any]) -> str:
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": moment, "level": level, "event": event, **line}, default=str) + "\n"
