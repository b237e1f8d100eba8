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

SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Settings:
    """How one service runs.

    `hosts` are the names that a Host header may carry beside loopback names, or beside addresses where a token is set.
    `rate` is requests a second per client, `burst` how many may come at once; `at_once` bounds the requests under way.
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
    rate: float = 1_000.0
    burst: float = 2_000.0
    at_once: int = 512
    window: float = 0.001
    batch: int = 256


def promised(settings: Settings) -> dict[str, int]:
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
