"""Request bodies and heads that are too large, too slow or malformed, sent over real sockets."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest
from tests.server.served import exchange, listening

from conjoin.server.settings import ServerSettings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(lands: Path) -> Path:
    return lands


def test_large_bodies_are_refused_with_or_without_content_length(run: Path) -> None:
    head = b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with listening(run, ServerSettings(body=10_000)) as address:
        announced = exchange(address, head + b"Content-Length: 99999999\r\n\r\n")
        assert announced.startswith(b"HTTP/1.1 413")
        chunk = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
        poured = exchange(address, head + b"Transfer-Encoding: chunked\r\n\r\n" + 500 * chunk + b"0\r\n\r\n")
        assert poured.startswith(b"HTTP/1.1 413")
        assert exchange(address, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").startswith(
            b"HTTP/1.1 200"
        )


def test_slow_requests_time_out(run: Path) -> None:
    with listening(run, ServerSettings(sending_seconds=0.5)) as address:
        for request, expected in (
            (b"", b""),
            (b"GET / HTTP/1.1\r\nHost: loc", b""),
            (
                b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: 100\r\n\r\n{",
                b"HTTP/1.1 408",
            ),
        ):
            assert exchange(address, request)[:12] == expected


def test_slow_head_on_a_kept_alive_connection_times_out(run: Path) -> None:
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        listening(run, ServerSettings(sending_seconds=1.0)) as address,
        socket.create_connection(address, 20) as connection,
    ):
        for _ in range(2):
            connection.sendall(whole)
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200")
            time.sleep(1.2)
        connection.sendall(whole[:20])
        assert connection.recv(65536) == b""


def test_malformed_http_gets_400_with_a_reason(run: Path) -> None:
    with listening(run, ServerSettings()) as address:
        for request in (
            b"\x16\x03\x01\x02\x00\r\n\r\n",
            b"GET\r\n\r\n",
            b"G" * 100_000 + b"\r\n\r\n",
        ):
            answer = exchange(address, request)
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 400"), answer[:200]
            assert json.loads(body)["error"]["reason"]


def test_body_with_two_lengths_is_refused_and_ends_the_connection(run: Path) -> None:
    body = b'{"questions": [{"head": "France", "relation": "borders"}]}'
    request = (
        b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    )
    with listening(run, ServerSettings()) as address:
        answer = exchange(address, request + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    head, _, reason = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    message = json.loads(reason)["error"]["reason"]
    assert "Content-Length" in message
    assert "Transfer-Encoding" in message
