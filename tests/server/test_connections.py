"""Connections: timers of every phase, refused bodies, limits per client and in total."""

from __future__ import annotations

import io
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send
from tests.server.served import exchange, listening, rest, serving
from tests.stress.lockout import REFUSED, head
from tests.stress.service import TOKEN, status_of

from conjoin.errors import UsageError
from conjoin.server.client_address import Clients
from conjoin.server.connections import RESERVE, RESERVE_PER_CLIENT, Admission, Connections, Phase
from conjoin.server.metrics import Metrics
from conjoin.server.open_runs import open_runs
from conjoin.server.settings import ServerSettings

pytestmark = pytest.mark.slow

PATIENCE = 30.0
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
RUNS = HEALTH.replace(b"/healthz", b"/v1/runs")
ASK = b"GET /v1/ask?head=France&relation=borders HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = b'{"questions": [{"head": "France", "relation": "borders"}]}'


@pytest.fixture(scope="module")
def run(lands: Path) -> Path:
    return lands


@pytest.fixture(scope="module")
def address(run: Path) -> Iterator[tuple[str, int]]:
    """A service with short times and a token."""
    with listening(
        run, ServerSettings(token=TOKEN, sending_seconds=1.0, idle_seconds=1.0, rate=1e6, burst=1e6)
    ) as place:
        yield place


def connections(address: tuple[str, int]) -> int:
    """Open connections of the service, except the one that asks."""
    answer = exchange(address, head("GET", "/metrics", "Connection: close"))
    [found] = re.findall(rb"^conjoin_connections (\S+)", answer, re.MULTILINE)
    return round(float(found)) - 1


def wait_until_gone(address: tuple[str, int]) -> bool:
    """Whether the service closes all other connections within PATIENCE."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if connections(address) == 0:
            return True
        time.sleep(0.05)
    return False


def drip(connection: socket.socket, part: bytes) -> bytes:
    """Send `part` repeatedly until the service closes the connection; return its answer."""
    until = time.monotonic() + PATIENCE
    connection.settimeout(0.1)
    answer = b""
    with suppress(ConnectionError):
        while time.monotonic() < until:
            with suppress(TimeoutError):
                got = connection.recv(65536)
                answer += got
                if not got:
                    return answer
            connection.sendall(part)
    assert time.monotonic() < until, "the connection stays open while bytes arrive"
    return answer


def statuses(answers: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1.1 (\d+)", answers)]


@pytest.mark.parametrize(("status", "first"), REFUSED)
def test_refused_request_with_unread_body_closes_the_connection(
    address: tuple[str, int], status: int, first: bytes
) -> None:
    answer = exchange(address, first + b" ")
    assert status_of(answer) == status
    assert b"connection: close" in answer.lower()
    assert statuses(answer) == [status]


def test_unread_body_is_not_parsed_as_another_request(address: tuple[str, int]) -> None:
    for _, first in REFUSED:
        answer = exchange(address, first + 3 * HEALTH)
        assert len(statuses(answer)) == 1, first


def test_refusal_after_a_complete_body_keeps_the_connection(address: tuple[str, int]) -> None:
    bearer = b"Authorization: Bearer %b\r\n" % TOKEN.encode()
    bad = POST + bearer + b"Content-Length: 2\r\n\r\n{}"
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(bad + bad + HEALTH)
        answer = rest(connection)
    assert statuses(answer) == [422, 422, 200]


@pytest.mark.parametrize(
    "first",
    [
        head("POST", "/v1/ask", "Content-Type: application/json", "Content-Length: 1000000"),
        head("POST", "/v1/ask", "Content-Type: application/json", "Content-Length: 1000000", "Expect: 100-continue"),
    ],
)
def test_slow_body_times_out_while_bytes_keep_coming(address: tuple[str, int], first: bytes) -> None:
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(first)
        assert b"HTTP/1.1 408" in drip(connection, b" ")


def test_slow_chunks_time_out_while_they_keep_coming(address: tuple[str, int]) -> None:
    first = head("POST", "/v1/ask", "Content-Type: application/json", "Transfer-Encoding: chunked")
    for part in (b"1\r\n \r\n", b"1;x=y\r\n \r\n"):
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(first)
            assert status_of(drip(connection, part)) == 408


def test_slow_head_times_out_while_bytes_keep_coming(address: tuple[str, int]) -> None:
    for first, part in ((b"GET /v1/runs HTTP/1.1\r\nX: ", b"y"), (b"GET / HTTP/1.1\r\n", b"X: y\r\n")):
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(first)
            assert drip(connection, part) == b""


def test_idle_connections_are_closed(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=20) as silent, socket.create_connection(address, timeout=20) as kept:
        kept.sendall(HEALTH.replace(b"close", b"keep-alive"))
        assert status_of(rest(kept)) == 200
        assert rest(silent) == b""


def test_connection_timer_cuts_off_a_stuck_application() -> None:
    never = threading.Event()

    async def stuck(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
        else:
            while not never.is_set() and (await receive())["type"] != "http.disconnect":
                pass

    with serving(stuck, ServerSettings(sending_seconds=0.3, seconds=0.3)) as address:
        for request in (POST + b"Content-Length: 100\r\n\r\n{", ASK):
            assert exchange(address, request) == b""


@pytest.mark.parametrize(
    "request_bytes",
    [
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 50_000,
        POST + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 200_000,
        POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"x: y\r\n" * 50_000,
        POST + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a:\r\n" * 3_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a:\r\n" * 60_000 + b"\r\n",
        b"GET /" + b"x" * 300_000,
    ],
    ids=["chunks", "extension", "trailers", "chunk-size", "negative", "lengths", "headers", "many-headers", "target"],
)
def test_costly_requests_are_refused_and_closed(run: Path, request_bytes: bytes) -> None:
    with listening(run, ServerSettings(sending_seconds=1.0)) as address:
        answer = exchange(address, request_bytes)
        assert status_of(answer) in (0, 400, 408, 413, 431), answer[:200]
        assert status_of(exchange(address, HEALTH)) == 200


def test_http_1_0_and_unsupported_upgrades_are_answered_and_closed(address: tuple[str, int]) -> None:
    for first, status in (
        (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n", 200),
        (HEALTH.replace(b"close", b"Upgrade\r\nUpgrade: websocket"), 200),
        (HEALTH.replace(b"close", b"Upgrade, HTTP2-Settings\r\nUpgrade: h2c"), 200),
        (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 421),
    ):
        assert status_of(exchange(address, first)) == status, first


@pytest.mark.parametrize("reads", [0, 1])
def test_unread_answers_are_cut_off(address: tuple[str, int], reads: int) -> None:
    """Also with a receive buffer so small that a short answer waits, and with a client that reads single bytes."""
    bearer = f"Authorization: Bearer {TOKEN}"
    for last in ("Connection: keep-alive", "Connection: close"):
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            connection.settimeout(20)
            connection.connect(address)
            whole = f"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n{last}\r\n\r\n".encode()
            connection.sendall(100 * whole)
            until = time.monotonic() + PATIENCE
            while connections(address) and time.monotonic() < until:
                with suppress(ConnectionError):
                    connection.recv(reads)
                time.sleep(0.05)
            assert connections(address) == 0


def test_half_closed_connections_are_closed(address: tuple[str, int]) -> None:
    for sent in (b"", HEALTH, HEALTH[:20], POST + b"Content-Length: 10\r\n\r\n{"):
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            rest(connection)
    assert wait_until_gone(address)


def test_connection_above_the_client_limit_closes_the_oldest_idle_one(run: Path) -> None:
    with listening(run, ServerSettings(connections_per_client=3)) as address:
        there = [socket.create_connection(address, timeout=20) for _ in range(3)]
        there[0].sendall(HEALTH.replace(b"close", b"keep-alive"))
        answer = b""
        while not answer.endswith(b"}"):
            answer += there[0].recv(65536)
        assert status_of(exchange(address, RUNS)) == 200
        assert rest(there[0]) == b"", "the idle connection must close before those without a request"
        there[1].sendall(RUNS)
        assert status_of(rest(there[1])) == 200
        for connection in there:
            connection.close()


@contextmanager
def at_work(run: Path, settings: ServerSettings, *sources: str) -> Iterator[tuple[str, int]]:
    """A service with one running request from each address; the requests end with the context."""
    opened, metrics = open_runs([run], settings=settings), Metrics(io.StringIO())
    with listening(run, settings, opened=opened, metrics=metrics) as address:
        answer_now, free = opened["lands"].predictor.ask_many, threading.Event()

        def slowly(*words: Any, **options: Any) -> Any:
            free.wait(60)
            return answer_now(*words, **options)

        opened["lands"].predictor.ask_many = slowly  # type: ignore[method-assign]
        open_ones = []
        try:
            for source in sources:
                open_ones.append(socket.create_connection(address, timeout=60, source_address=(source, 0)))
                open_ones[-1].sendall(ASK)
            until = time.monotonic() + PATIENCE
            while metrics.registry.get_sample_value("conjoin_requests_at_work") != len(sources):
                assert time.monotonic() < until
                time.sleep(0.01)
            yield address
        finally:
            free.set()
            for connection in open_ones:
                assert status_of(connection.recv(65536)) == 200, "a running request was closed"
                connection.close()


def asked_from(address: tuple[str, int], source: str, request: bytes) -> int:
    with socket.create_connection(address, timeout=20, source_address=(source, 0)) as connection:
        connection.sendall(request)
        return status_of(rest(connection))


def test_client_at_its_limit_may_still_request_health(run: Path) -> None:
    with at_work(run, ServerSettings(connections_per_client=2), "127.0.0.1", "127.0.0.1") as address:
        assert asked_from(address, "127.0.0.1", RUNS) == 503
        assert asked_from(address, "127.0.0.1", HEALTH) == 200
        assert asked_from(address, "127.0.0.2", RUNS) == 200, "another client has its own limit"


def test_health_answers_when_all_connections_are_busy(run: Path) -> None:
    settings = ServerSettings(connections=3, connections_per_client=2)
    with at_work(run, settings, "127.0.0.1", "127.0.0.2") as address, socket.create_connection(address) as idle:
        assert asked_from(address, "127.0.0.3", RUNS) == 200, "the idle connection must be replaced"
        assert rest(idle) == b""
    with at_work(run, ServerSettings(connections=2, connections_per_client=1), "127.0.0.1", "127.0.0.2") as address:
        assert asked_from(address, "127.0.0.3", RUNS) == 503
        assert asked_from(address, "127.0.0.3", HEALTH) == 200
        assert asked_from(address, "127.0.0.1", HEALTH) == 200


def test_requests_with_incomplete_bodies_do_not_count_as_running(run: Path) -> None:
    with listening(run, ServerSettings(at_once=1)) as address, socket.create_connection(address, timeout=20) as slow:
        slow.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY[:10])
        for _ in range(3):
            assert status_of(exchange(address, RUNS)) == 200
        slow.sendall(BODY[10:])
        assert status_of(slow.recv(65536)) == 200


def forwarded(client: str) -> bytes:
    return RUNS.replace(b"Connection", b"X-Forwarded-For: " + client.encode() + b"\r\nConnection")


def test_forwarded_for_counts_only_from_trusted_proxies(run: Path) -> None:
    with listening(run, ServerSettings(rate=0.01, burst=2, proxies=("127.0.0.1",))) as address:
        first = [status_of(exchange(address, forwarded("10.0.0.1"))) for _ in range(3)]
        assert first == [200, 200, 429]
        assert status_of(exchange(address, forwarded("10.0.0.2"))) == 200
        assert status_of(exchange(address, forwarded("10.0.0.3, 10.0.0.1"))) == 429, "a client chose its own address"
        assert [asked_from(address, "127.0.0.2", forwarded(f"10.1.0.{n}")) for n in range(3)] == [200, 200, 429]
    settings = ServerSettings(connections_per_client=1, proxies=("127.0.0.1",))
    with listening(run, settings) as address, socket.create_connection(address, timeout=20) as kept:
        assert status_of(exchange(address, forwarded("10.0.0.1"))) == 200
        kept.sendall(forwarded("10.0.0.2"))
        assert status_of(rest(kept)) == 200, "the client limit must not apply to connections of a proxy"


def test_clients_are_identified_by_address() -> None:
    plain, behind = Clients(), Clients(("10.0.0.0/8", "::1"))
    header = {b"x-forwarded-for": b"1.1.1.1, 2.2.2.2:443, 10.0.0.7"}
    assert plain.of_request("10.0.0.1", header) == "10.0.0.1"
    assert behind.of_request("10.0.0.1", header) == "2.2.2.2"
    assert behind.of_request("::1", header) == "2.2.2.2"
    assert behind.of_request("9.9.9.9", header) == "9.9.9.9"
    assert behind.of_request("10.0.0.1", {}) == "10.0.0.1"
    assert behind.of_request("10.0.0.1", {b"x-forwarded-for": b"1.1.1.1, nonsense"}) == "10.0.0.1"
    assert behind.of_request("10.0.0.1", {b"x-forwarded-for": b"[2001:db8::1]:80"}) == "2001:db8::/64"
    assert plain.of_peer("2001:db8::1") == plain.of_peer("2001:db8::ffff:1") == "2001:db8::/64"
    assert plain.of_peer("::ffff:1.2.3.4") == "1.2.3.4"
    assert behind.is_proxy("10.1.2.3")
    assert not plain.is_proxy("10.1.2.3")
    for wrong in ("proxy.example", "10.0.0.1/8", ""):
        with pytest.raises(UsageError, match=re.escape(repr(wrong))):
            Clients((wrong,))


class One:
    """A fake connection with a phase."""

    def __init__(self, phase: Phase, since: float, gone: list[One]) -> None:
        self.phase, self.since, self._gone = phase, since, gone

    def make_room(self) -> None:
        self._gone.append(self)


@given(
    st.integers(1, 12),
    st.integers(0, 5),
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(Phase), st.booleans()), max_size=60),
)
def test_limits_on_connections_hold(total: int, per_client: int, steps: list[tuple[str, Phase, bool]]) -> None:
    limits, gone = Connections(total, per_client), list[One]()
    served: dict[One, str] = {}
    reserve: dict[One, str] = {}
    for moment, (client, phase, leaves) in enumerate(steps):
        new = One(phase, moment, gone)
        admitted = limits.admit(new, client)
        for one in gone:
            assert one.phase is not Phase.ANSWER, "a running request was closed"
            served.pop(one, None)
        if admitted is Admission.SERVED:
            served[new] = client
        elif admitted is Admission.HEALTH_ONLY:
            reserve[new] = client
        mine = [one for one, name in served.items() if name == client]
        if admitted is not Admission.SERVED and not (per_client and len(mine) >= per_client):
            assert len(served) == total
            assert all(one.phase is Phase.ANSWER for one in served), "an idle connection locks out a new one"
        assert len(served) <= total
        assert not per_client or len(mine) <= per_client
        assert len(reserve) <= RESERVE
        assert list(reserve.values()).count(client) <= RESERVE_PER_CLIENT
        assert len(limits) == len(served) + len(reserve)
        if leaves and served:
            one, name = served.popitem()
            limits.leave(one, name)
            limits.leave(one, name)
    for one, name in {**served, **reserve}.items():
        limits.leave(one, name)
    assert len(limits) == 0


def test_health_reserve_is_bounded_per_client_and_in_total() -> None:
    limits, gone = Connections(1, 1), list[One]()
    assert limits.admit(One(Phase.ANSWER, 0, gone), "a") is Admission.SERVED
    told = [limits.admit(One(Phase.ANSWER, 0, gone), "a") for _ in range(RESERVE_PER_CLIENT + 1)]
    assert told == [Admission.HEALTH_ONLY] * RESERVE_PER_CLIENT + [Admission.REFUSED]
    others = [limits.admit(One(Phase.ANSWER, 0, gone), f"b{n}") for n in range(RESERVE)]
    assert others.count(Admission.HEALTH_ONLY) == RESERVE - RESERVE_PER_CLIENT
    assert not gone
