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


class Watch:
    """Logs and metrics of one service. Neither sees a question, a name or a token."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream
        self.registry = CollectorRegistry()
        self.requests = Counter("conjoin_requests", "Requests answered.", ("route", "status"), registry=self.registry)
        self.seconds = Histogram(
            "conjoin_request_seconds", "Time to answer.", ("route",), buckets=SECONDS, registry=self.registry
        )
        self.under_way = Gauge("conjoin_requests_under_way", "Requests being answered.", registry=self.registry)
        self.batches = Histogram(
            "conjoin_batch_questions", "Questions scored together.", ("run",), buckets=SIZES, registry=self.registry
        )
        self.scoring = Histogram(
            "conjoin_batch_seconds", "Time to score a batch.", ("run",), buckets=SECONDS, registry=self.registry
        )

    def exposition(self) -> bytes:
        """Prometheus text."""
        return generate_latest(self.registry)

    def answered(self, *, route: str, status: int, seconds: float, line: dict[str, Any]) -> None:
        """Count and log one request."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)
        self.log("request", route=route, status=status, seconds=round(seconds, 6), **line)

    def failed(self, error: BaseException, **line: Any) -> None:
        """Log what the client is not told."""
        self.log("failure", level="error", trace="".join(traceback.format_exception(error)), **line)

    def log(self, event: str, *, level: str = "notice", **line: Any) -> None:
        """One JSON line; a log that cannot be written stops nothing."""
        stream = sys.stderr if self.stream is None else self.stream
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            stream.write(json.dumps({"time": moment, "level": level, "event": event, **line}, default=str) + "\n")
            stream.flush()
        except (OSError, ValueError):
            return
