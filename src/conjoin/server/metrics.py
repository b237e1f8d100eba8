"""Logs and Prometheus metrics of the service: one JSON line per request, and counters."""

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
    """Logs and metrics of one service. They contain no question, no name and no token."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream
        self.registry = CollectorRegistry()
        self.requests = Counter("conjoin_requests", "Answered requests.", ("route", "status"), registry=self.registry)
        self.seconds = Histogram(
            "conjoin_request_seconds",
            "Seconds from the first byte of a request to the end of its answer.",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.under_way = Gauge(
            "conjoin_requests_under_way", "Requests that have begun and are not answered yet.", registry=self.registry
        )
        self.at_work = Gauge(
            "conjoin_requests_at_work",
            "Unanswered requests whose body has arrived completely.",
            registry=self.registry,
        )
        self.wrong_tokens = Counter(
            "conjoin_wrong_tokens", "Requests with a wrong or missing token.", registry=self.registry
        )
        self._connections = Gauge("conjoin_connections", "Open connections.", registry=self.registry)
        self._crowded = Counter(
            "conjoin_connections_over_limit",
            "New connections above the limits: allowed only health requests, or refused.",
            ("admitted",),
            registry=self.registry,
        )
        self._cut = Counter(
            "conjoin_connections_cut",
            "Connections closed by the service: why=time after a timeout, why=room for a new connection.",
            ("why", "phase"),
            registry=self.registry,
        )
        self.lost_lines = Counter("conjoin_log_lines_dropped", "Log lines that were dropped.", registry=self.registry)
        self.batches = Histogram(
            "conjoin_batch_questions", "Questions per scored batch.", ("run",), buckets=SIZES, registry=self.registry
        )
        self.scoring = Histogram(
            "conjoin_batch_seconds", "Seconds to score a batch.", ("run",), buckets=SECONDS, registry=self.registry
        )

    def exposition(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self.registry)

    def connected(self, connections: int) -> None:
        """Set the number of open connections."""
        self._connections.set(connections)

    def crowded(self, admitted: str) -> None:
        """Count a new connection above the limits; `admitted` says what it may do."""
        self._crowded.labels(admitted).inc()

    def timed_out(self, phase: str) -> None:
        """Count a connection whose client was too slow."""
        self._cut.labels("time", phase).inc()

    def evicted(self, phase: str) -> None:
        """Count a connection that was closed for a new one."""
        self._cut.labels("room", phase).inc()

    def answered(self, *, route: str, status: int, seconds: float, line: dict[str, Any]) -> None:
        """Count and log one request."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)
        self.log("request", route=route, status=status, seconds=round(seconds, 6), **line)

    def failed(self, error: BaseException, **line: Any) -> None:
        """Log an internal error with its trace, which the client does not see."""
        self.log("failure", level="error", trace="".join(traceback.format_exception(error)), **line)

    def notice_of_loss(self, lines: int) -> str:
        """The log line that reports dropped lines."""
        return _line(
            "log", "warning", {"dropped": lines, "message": f"Dropped {lines} log lines because the log was not read"}
        )

    def log(self, event: str, *, level: str = "notice", **line: Any) -> None:
        """Write one JSON line. A log that cannot be written is ignored, so that requests continue."""
        stream = sys.stderr if self.stream is None else self.stream
        try:
            stream.write(_line(event, level, line))
            stream.flush()
        except (OSError, ValueError):
            return


def _line(event: str, level: str, line: dict[str, Any]) -> str:
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": moment, "level": level, "event": event, **line}, default=str) + "\n"
