"""Limits of requests, and the settings of a service. docs/api.md is tested against these numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

K = 1_000
QUESTIONS = 1_000
ANSWERS = 100_000
"""Most answers of one request: questions times k."""
CANDIDATES = 10_000
NAME = 10_000
SEARCH = 200
FACTS = 1_000
NODES = 200
EDGES = 1_000
MINED = 1_000
FOUND = 100
RELATIONS = 10_000
POINTS = 100_000
CLASSES = 12
SUPPORTS = 50
ITERATES = 20
HEADERS = 100
"""Most headers of a request. Parsing thousands of short ones would block all other connections."""

SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class ServerSettings:
    """The settings of one service.

    | setting | meaning |
    |---|---|
    | `token` | bearer token; None: clients need none |
    | `hosts` | names allowed in the Host header besides loopback names; with a token, IP addresses are allowed too |
    | `origins` | other web sites whose pages may send requests |
    | `studies` | folder whose study reports are served |
    | `map` | default layout of the map |
    | `body` | largest body of a request, in bytes |
    | `seconds` | time limit of a request, from its last byte to the first byte of its answer |
    | `sending_seconds` | time to send a head, and again to send a body; received bytes do not restart the timer |
    | `idle_seconds` | how long a connection may stay open between two requests |
    | `rate`, `burst` | requests a second per client; how many may arrive at once |
    | `at_once` | running requests: body received, answer not begun |
    | `large_at_once`, `large_per_client` | running requests with answers of megabytes, in total and per client |
    | `connections` | open connections in total |
    | `connections_per_client` | open connections per client, or running requests behind a trusted proxy; 0: no limit |
    | `proxies` | addresses or networks of trusted proxies, whose X-Forwarded-For header identifies the client |
    | `window` | seconds that the first question of a batch waits for others |
    | `batch` | most questions per batch; 1 switches batching off |

    Requests above `large_at_once` wait, because each holds its memory until its client has read the answer. A client
    must also read a minimum of its answer in every `sending_seconds`.
    """

    token: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    studies: Path | None = None
    map: str = "pca"
    body: int = 1 << 20
    seconds: float = 30.0
    sending_seconds: float = 10.0
    idle_seconds: float = 30.0
    rate: float = 1_000.0
    burst: float = 2_000.0
    at_once: int = 512
    large_at_once: int = 32
    large_per_client: int = 8
    connections: int = 1_000
    connections_per_client: int = 128
    proxies: tuple[str, ...] = ()
    window: float = 0.001
    batch: int = 256


def public_limits(settings: ServerSettings) -> dict[str, int]:
    """The limits that /v1/runs reports to clients."""
    return {
        "k": K,
        "questions": QUESTIONS,
        "name": NAME,
        "body": settings.body,
        "facts": FACTS,
        "nodes": NODES,
        "mined": MINED,
        "found": FOUND,
    }
