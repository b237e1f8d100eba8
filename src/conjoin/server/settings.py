"""What the service promises to accept, and how it runs. Numbers in one place, so that docs/api.md can be checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

K = 1_000
QUESTIONS = 1_000
ANSWERS = 100_000
"""Answers in all that one request may ask for: questions times k."""
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
"""Headers of a request. Parsing thousands of short ones would hold up all other connections."""

SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class ServerSettings:
    """How one service runs.

    `token` is the bearer token, None where clients need none.
    `hosts` are the names that a Host header may carry beside loopback names, or beside addresses where a token is set.
    `origins` are the other sites whose pages may ask.
    `studies` is the folder whose reports are shown, `map` the layout of the map.
    `body` is the size of a request's body in bytes.
    `seconds` is the time limit of a request, from its last byte to the first byte of its answer.
    `sending_seconds` is the time that a client has to send a head, and again to send a body. The clock does not start
    again when a byte comes. It is also the interval in which a client must read a minimum of its answer.
    `idle_seconds` is how long a connection may stay open between two requests.
    `rate` is requests a second per client, `burst` how many may come at once; `at_once` bounds the requests whose body
    has come and whose answer is not there yet.
    `large_at_once` bounds the requests among them whose answers may be megabytes, `large_per_client` those of one
    client; further ones wait for their turn, because each holds its memory until the client has read it.
    `connections` bounds all connections; `connections_per_client` bounds the connections of one client, and its
    requests at once where a trusted proxy sends them; 0 switches the limit per client off.
    `proxies` are addresses or networks of proxies whose X-Forwarded-For header names the client.
    `window` is how long a first question waits for company, `batch` how many are scored together: 1 switches it off.
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


def promised(settings: ServerSettings) -> dict[str, int]:
    """The limits that a client wants to know."""
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
