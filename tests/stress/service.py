"""A real service under attack, and under load for a long time."""

from __future__ import annotations

import json
import os
import random
import socket
import string
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from tests.stress.counts import Counts

from conjoin.runtime.process_memory import resident

TOKEN = "a-token-that-nobody-guesses"
SECRET_NAME = "Atlantis-that-nobody-may-read-in-a-log"
WORDS = ("ask", "score", "similar", "entities", "entity", "relations", "explain", "mine", "map", "study", "none")
MEBIBYTE = 1 << 20
GROWTH = 16.0
"""Largest growth of memory, in MiB, after the first third of a soak."""


@dataclass
class Service:
    """A service process, its address, and every line of its log."""

    process: subprocess.Popen[str]
    address: tuple[str, int]
    log: list[str] = field(default_factory=list)

    def memory(self) -> float:
        """Resident MiB."""
        return resident(self.process.pid) / MEBIBYTE

    def send(self, request: bytes, *, seconds: float = 20) -> bytes:
        """Send bytes and read until the service closes the connection."""
        with socket.create_connection(self.address, timeout=seconds) as connection:
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(request)
            answer = b""
            with suppress(ConnectionResetError):
                while part := connection.recv(65536):
                    answer += part
            return answer

    def ask(self, path: str, body: bytes | None = None) -> int:
        return status_of(self.send(request("GET" if body is None else "POST", path, body)))


@contextmanager
def service(run: Path, *options: str) -> Iterator[Service]:
    """`conjoin serve` with a token, stopped by SIGTERM at the end. Its log must be JSON lines without a secret."""
    words = [sys.executable, "-m", "conjoin", "serve", str(run), "--port", "0", "--json", "--rate", "1e6", *options]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "CONJOIN_TOKEN": TOKEN}
    )
    assert process.stdout is not None
    assert process.stderr is not None
    log: list[str] = []
    reading = threading.Thread(target=lambda: log.extend(process.stderr or ()))
    reading.start()
    try:
        line = process.stdout.readline()
        assert line, log
        place = urlsplit(json.loads(line)["url"])
        yield Service(process, (str(place.hostname), int(place.port or 0)), log)
    finally:
        process.terminate()
        process.wait(60)
        reading.join(10)
        process.stdout.close()
        process.stderr.close()
    for entry in log:
        assert "event" in json.loads(entry)
    secrets = [entry for entry in log if TOKEN in entry or SECRET_NAME in entry]
    assert not secrets, secrets[:3]


def request(method: str, path: str, body: bytes | None = None, *, headers: str = "") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return (head + headers + "\r\n").encode("latin-1") + (body or b"")


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def malformed(chance: random.Random) -> bytes:
    """Random bytes of a malformed request."""
    noise = "".join(chance.choice(string.printable + "é") for _ in range(chance.randrange(1, 80)))
    path = f"/v1/{chance.choice(WORDS)}?{quote(chance.choice(['k', 'run', 'head', noise]))}={quote(noise)}"
    value: Any = chance.choice([None, -1, 10**30, 1e308, True, [], {}, noise, [[noise]], {"run": noise}, SECRET_NAME])
    key = chance.choice(["questions", "triples", "entity", "head", "k", "run", noise])
    body = json.dumps({key: value}).encode()
    body = chance.choice([body, body[: chance.randrange(len(body))], noise.encode(), b"[" * 9000, b"\xff\xfe", b""])
    whole = request(chance.choice(["GET", "POST", "PUT", "DELETE", "PATCH"]), path, body)
    kind = chance.randrange(6)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 400)) + b"\r\n\r\n"
    if kind == 1:
        cut = bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            cut[chance.randrange(len(cut))] = chance.randrange(256)
        return bytes(cut)
    if kind == 2:
        header = chance.choice(
            [
                "Content-Length: -1",
                "Content-Length: 5",
                "Transfer-Encoding: chunked",
                "Transfer-Encoding: gzip",
                "Host: b",
            ]
        )
        return whole.replace(b"\r\n\r\n", f"\r\n{header}\r\n\r\n".encode(), 1)
    if kind == 3:
        return whole.replace(b"localhost", noise.encode("latin-1"), 1)
    return whole


def attacked(run: Path, *, requests: int, slow: int) -> Counts:
    """Send malformed requests and large bodies, and hold slow clients. The service must still answer afterwards."""
    chance, refused, dropped = random.Random(requests), 0, 0
    with service(run) as target:
        assert target.ask("/v1/runs") == 200
        for _ in range(requests):
            with socket.create_connection(target.address, timeout=20) as connection:
                with suppress(BrokenPipeError, ConnectionResetError):
                    connection.sendall(malformed(chance))
                    connection.shutdown(socket.SHUT_WR)
                answer = b""
                with suppress(ConnectionResetError):
                    while part := connection.recv(65536):
                        answer += part
            status = status_of(answer)
            assert status < 500, answer[:400]
            assert b"Traceback" not in answer
            refused += status >= 400
            dropped += status == 0
        large = _large_bodies(target)
        waiting = [_slow(target, kind) for kind in range(slow)]
        for _ in range(20):
            assert target.ask("/v1/runs") == 200
        for connection in waiting:
            connection.close()
        assert target.ask("/v1/ask?head=France&relation=borders") in (200, 404)
        before = target.memory()
    return {
        "malformed requests": requests,
        "of them refused with a reason": refused,
        "of them closed without an answer": dropped,
        "bodies too large": large,
        "slow clients at once": slow,
        "resident MiB at the end": round(before),
    }


def _large_bodies(target: Service) -> int:
    before = target.memory()
    head = "POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer {TOKEN}\r\n"
    announced = target.send(f"{head}Content-Length: {1 << 40}\r\n\r\n".encode() + b" " * MEBIBYTE)
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    chunked = target.send(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + 200 * chunk + b"0\r\n\r\n")
    for answer in (announced, chunked):
        assert status_of(answer) in (0, 413), answer[:200]
    assert target.memory() - before < 64
    return 2


def _slow(target: Service, kind: int) -> socket.socket:
    """A client that sends half a head or half a body, or requests much and reads nothing."""
    connection = socket.create_connection(target.address, timeout=20)
    whole = request("POST", "/v1/ask", b'{"questions": []}')
    much = request("GET", "/v1/map?limit=100000")
    connection.sendall((whole[:30], whole[:-5], much)[kind % 3])
    return connection


def soak(run: Path, *, seconds: float, pause: float = 0.02) -> Counts:
    """Send questions of every kind for a long time. After the first third, memory must stay level."""
    chance, sent, level = random.Random(0), 0, []
    with service(run) as target:
        names = _names(target)
        began, sample = time.monotonic(), 0.0
        while (passed := time.monotonic() - began) < seconds:
            status = target.ask(*_question(chance, names))
            assert status in (200, 400, 404, 422), status
            sent += 1
            if passed >= sample:
                level.append(target.memory())
                sample += max(seconds / 60, 0.2)
            time.sleep(pause)
        level.append(target.memory())
    settled = level[len(level) // 3 :]
    growth = settled[-1] - min(settled)
    assert growth < GROWTH, level
    return {
        "seconds": round(seconds),
        "requests": sent,
        "resident MiB after a third": round(settled[0], 1),
        "resident MiB at the end": round(settled[-1], 1),
        "growth in MiB": round(growth, 1),
    }


def _names(target: Service) -> tuple[list[str], list[str]]:
    found = []
    for path in ("/v1/entities?q=e&limit=50", "/v1/relations"):
        body = json.loads(target.send(request("GET", path)).partition(b"\r\n\r\n")[2])
        listed = next(value for value in body.values() if isinstance(value, list))
        found.append([each["name"] for each in listed])
    return found[0], found[1]


def _question(chance: random.Random, names: tuple[list[str], list[str]]) -> tuple[str, bytes | None]:
    entity, relation = chance.choice(names[0]), chance.choice(names[1])
    plain = f"head={quote(entity)}&relation={quote(relation)}"
    many = {"questions": [{"head": chance.choice(names[0]), "relation": relation} for _ in range(20)]}
    return chance.choice(
        [
            (f"/v1/ask?{plain}&k={chance.randrange(1, 200)}", None),
            ("/v1/ask", json.dumps(many).encode()),
            ("/v1/similar", json.dumps({"entity": entity}).encode()),
            (f"/v1/entities?q={quote(entity[:3])}", None),
            (f"/v1/entity?name={quote(entity)}", None),
            (f"/v1/ask?head={quote(entity + 'x')}&relation={quote(relation)}", None),
            ("/v1/ask", b"{"),
            ("/metrics", None),
            ("/v1/relations", None),
        ]
    )
