"""Clients that try to lock out all others from a real service, at its limits and above.

Every attack holds more connections than the limits allow. Meanwhile a client with the right token must get its answer,
and `/healthz` must answer. Source addresses are 127.0.0.1 and others of the loopback network.
"""

from __future__ import annotations

import json
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.stress.counts import Counts
from tests.stress.service import TOKEN, Service, request, service, status_of

WRONG = "a-token-that-is-not-the-right-one"
PATIENCE = 60.0
"""Seconds after which a connection that should have been closed counts as held forever."""


@dataclass(frozen=True)
class Size:
    """The number of connections of each attack, and the options that set the limits of the service."""

    refused: int
    slow: int
    idle: int
    options: tuple[str, ...] = ()


LONG = Size(refused=1_100, slow=600, idle=1_400)
"""Above the default limits: 1,000 connections in total, 128 of one client, 512 requests at once."""


def head(method: str, path: str, *lines: str, token: str | None = TOKEN, host: str = "localhost") -> bytes:
    """The head of a request that leaves its connection open."""
    bearer = [f"Authorization: Bearer {token}"] if token else []
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *bearer, *lines, "", ""]).encode()


JSON, LENGTH = "Content-Type: application/json", "Content-Length: 100"
REFUSED = (
    (401, head("POST", "/v1/ask", JSON, LENGTH, token=None)),
    (401, head("POST", "/v1/ask", JSON, LENGTH, token=WRONG)),
    (415, head("POST", "/v1/ask", "Content-Type: text/plain", LENGTH)),
    (421, head("POST", "/v1/ask", JSON, LENGTH, host="evil.example")),
    (403, head("POST", "/v1/ask", JSON, LENGTH, "Origin: https://evil.example")),
    (413, head("POST", "/v1/ask", JSON, f"Content-Length: {1 << 30}")),
    (400, head("POST", "/v1/ask", JSON, LENGTH, "Transfer-Encoding: chunked")),
    (400, head("GET", "/v1/runs", LENGTH)),
    (400, head("GET", "/healthz", LENGTH)),
    (400, head("GET", "/", "Transfer-Encoding: chunked")),
    (405, head("POST", "/", JSON, LENGTH)),
    (405, head("POST", "/v1/runs", JSON, "Transfer-Encoding: chunked")),
    (405, head("DELETE", "/v1/ask", LENGTH)),
    (401, head("POST", "/v1/ask", JSON, LENGTH, "Expect: 100-continue", token=WRONG)),
    (401, head("POST", "/v1/ask", JSON, LENGTH, "Connection: Upgrade", "Upgrade: h2c", token=WRONG)),
)
"""Requests that are refused before their body has arrived, with the expected status."""


class Held:
    """The connections of an attacker, which stay open until the attack ends."""

    def __init__(self, target: Service) -> None:
        self.target = target
        self.open: list[socket.socket] = []

    def connect(self, first: bytes = b"", *, source: str = "127.0.0.1") -> socket.socket:
        connection = socket.create_connection(self.target.address, timeout=20, source_address=(source, 0))
        self.open.append(connection)
        with suppress(OSError):
            connection.sendall(first)
        return connection

    def drip(self) -> int:
        """Send one more byte on every connection; return how many accept it."""
        taken = 0
        for connection in self.open:
            with suppress(OSError):
                connection.sendall(b" ")
                taken += 1
        return taken

    def wait_until_closed(self) -> int:
        """Read until the service closes each connection; return how many it closed in time."""
        until = time.monotonic() + PATIENCE
        closed = 0
        for connection in self.open:
            connection.settimeout(max(until - time.monotonic(), 0.01))
            try:
                while connection.recv(65536):
                    pass
            except TimeoutError:
                continue
            except OSError:
                pass
            closed += 1
        return closed


@contextmanager
def held(target: Service) -> Iterator[Held]:
    attack = Held(target)
    try:
        yield attack
    finally:
        for connection in attack.open:
            connection.close()


def others_are_served(target: Service) -> int:
    """Send requests as another client; return how many were answered."""
    for path in ("/healthz", "/readyz"):
        anyone = target.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert status_of(anyone) == 200, anyone[:200]
    assert target.ask("/v1/runs") == 200
    body = json.dumps({"triples": []}).encode()
    assert target.ask("/v1/score", body) == 422, "the service must read the body and refuse the empty list"
    return 4


def refuse_and_hold(target: Service, count: int) -> int:
    """Send requests that are refused, each with one byte of an incomplete body."""
    answered = 0
    with held(target) as attack:
        for number in range(count):
            status, first = REFUSED[number % len(REFUSED)]
            connection = attack.connect(first + b" ")
            if number < len(REFUSED):
                answer = connection.recv(65536)
                assert status_of(answer) == status, (first, answer[:300])
                assert b"connection: close" in answer.lower(), answer
        answered += others_are_served(target)
        attack.drip()
        answered += others_are_served(target)
        assert attack.wait_until_closed() == count
    return answered


def send_slowly(target: Service, count: int) -> int:
    """Send heads and bodies one byte at a time, with the right token."""
    answered = 0
    whole = head("POST", "/v1/ask", JSON, LENGTH)
    mixed = (
        whole + b"{",
        whole[:40],
        head("POST", "/v1/ask", JSON, "Transfer-Encoding: chunked") + b"1;x=y\r\n{\r\n",
        head("POST", "/v1/ask", JSON, LENGTH, "Expect: 100-continue"),
    )
    for starts, addresses in (((head("POST", "/", JSON, LENGTH) + b"{",), 1), ((whole + b"{",), 16), (mixed, 1)):
        with held(target) as attack:
            for number in range(count):
                attack.connect(starts[number % len(starts)], source=f"127.0.0.{1 + number % addresses}")
            for _ in range(3):
                answered += others_are_served(target)
                attack.drip()
                time.sleep(0.2)
            assert attack.wait_until_closed() == count
    return answered


def crowd(target: Service, count: int, *, addresses: int) -> int:
    """Open connections without requests, from one address and from several."""
    answered = 0
    for sources in (1, addresses):
        with held(target) as attack:
            for number in range(count):
                attack.connect(source=f"127.0.0.{1 + number % sources}")
            answered += others_are_served(target)
            for _ in range(5):
                attack.connect(head("GET", "/v1/runs"))
            answered += others_are_served(target)
    return answered


def lock_out(run: Path, size: Size = LONG) -> Counts:
    """Run all attacks one after another on one service."""
    _allow_files(2 * max(size.refused, size.slow, size.idle) + 64)
    with service(run, *size.options) as target:
        assert target.ask("/v1/runs") == 200
        answered = refuse_and_hold(target, size.refused)
        answered += send_slowly(target, size.slow)
        answered += crowd(target, size.idle, addresses=16)
        metrics = target.send(request("GET", "/metrics")).decode()
        open_ones = float(metrics.partition("\nconjoin_connections ")[2].partition("\n")[0])
    return {
        "refused requests whose body never came": size.refused,
        "slow heads and bodies at once": size.slow,
        "idle connections at once": size.idle,
        "requests of others meanwhile": answered,
        "of them not answered": 0,
        "connections open at the end": round(open_ones),
    }


def _allow_files(needed: int) -> None:
    """Raise the limit on open files of this process, the attacker."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (needed if hard == resource.RLIM_INFINITY else min(needed, hard), hard)
        )
