"""The service as a process: start, stop, and the settings it refuses."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.cli.commands import assert_refused, command, conjoin

TOKEN = "a-token-that-nobody-guesses"


@contextmanager
def service(*words: object, **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A running service. Its log must be JSON lines; it is stopped at the end."""
    process = subprocess.Popen(
        command("serve", *words, "--port", 0, "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stdout is not None
    log: list[str] = []
    reading = threading.Thread(target=lambda: log.extend(process.stderr or ()))
    reading.start()
    try:
        line = process.stdout.readline()
        assert line, log
        yield json.loads(line)["url"], process
    finally:
        process.terminate()
        process.wait(30)
        reading.join(10)
        process.stdout.close()
        assert process.stderr is not None
        process.stderr.close()
    for entry in log:
        assert "event" in json.loads(entry)
        assert TOKEN not in entry


def get(url: str, **headers: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_ctrl_c_stops_the_service(trained: Path) -> None:
    with service(trained) as (url, process):
        status, found = get(f"{url}/v1/ask?head=France&relation=borders")
        assert status == 200
        assert len(found["answers"]) == 10
        assert url.startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


@pytest.mark.slow
def test_sigterm_finishes_pending_requests(trained: Path) -> None:
    body = json.dumps({"questions": [{"head": "France", "relation": "borders"}]}).encode()
    head = f"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    with service(trained) as (url, process):
        place = urlsplit(url)
        with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
            connection.sendall(head.encode() + b"\r\n\r\n" + body[:10])
            _wait_until_under_way(url, 2)
            process.send_signal(signal.SIGTERM)
            _wait_until_closed(place.hostname, place.port)
            assert process.poll() is None
            connection.sendall(body[10:])
            answer = b""
            while part := connection.recv(65536):
                answer += part
        assert answer.startswith(b"HTTP/1.1 200")
        assert len(json.loads(answer.partition(b"\r\n\r\n")[2])["results"]) == 1
        assert process.wait(30) == 0


def _wait_until_under_way(url: str, requests: int) -> None:
    """Wait until `requests` requests are pending; the one that reads the metrics counts too."""
    for _ in range(500):
        with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
            if f"conjoin_requests_under_way {requests}.0" in answer.read().decode():
                return
        time.sleep(0.01)
    raise AssertionError("the request did not arrive")


def _wait_until_closed(host: str | None, port: int | None) -> None:
    """Wait until the service accepts no connection."""
    for _ in range(500):
        try:
            socket.create_connection((host or "", port or 0), timeout=5).close()
        except OSError:
            return
        time.sleep(0.01)
    raise AssertionError("the service still takes connections")


def full_pipe() -> tuple[int, int]:
    """A full pipe that nobody reads."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b" " * 4096)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b" ")
    os.set_blocking(writing, True)
    return reading, writing


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_unread_output_does_not_block_the_service(trained: Path, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    reading, writing = full_pipe()
    process = subprocess.Popen(command("serve", trained, "--port", port, "--json"), stdout=writing, stderr=writing)
    try:
        _wait_until_open(port)
        for _ in range(20):
            assert get(f"http://127.0.0.1:{port}/v1/runs")[0] == 200
        process.send_signal(number)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait(60)
        os.close(reading)
        os.close(writing)


@pytest.mark.slow
def test_unread_log_does_not_block_the_service(trained: Path) -> None:
    process = subprocess.Popen(
        command("serve", trained, "--port", 0, "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        place = urlsplit(json.loads(process.stdout.readline())["url"])
        request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=30) as connection:
            for _ in range(600):  # some 120 kB of log: a pipe holds 64 KiB
                connection.sendall(request)
                answer = b""
                while not answer.endswith(b"}"):
                    part = connection.recv(65536)
                    assert part
                    answer += part
        process.terminate()
        time.sleep(0.1)
        log = process.stderr.read().decode().splitlines()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()
        process.stderr.close()
    events = [json.loads(line)["event"] for line in log]
    assert events == 600 * ["request"] + ["stopped"]


def _wait_until_open(port: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
            return
        time.sleep(0.05)
    raise AssertionError("the service does not listen")


def test_other_addresses_need_a_token(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONJOIN_TOKEN", raising=False)
    refused = conjoin("serve", trained, "--host", "0.0.0.0", "--port", 0)
    assert_refused(refused, "0.0.0.0", "--token-file")
    short = tmp_path / "short"
    short.write_text("123", encoding="utf-8")
    refused = conjoin("serve", trained, "--host", "0.0.0.0", "--port", 0, "--token-file", short)
    assert_refused(refused, short)


@pytest.mark.slow
def test_with_a_token_other_addresses_are_served(trained: Path) -> None:
    with service(trained, "--host", "0.0.0.0", CONJOIN_TOKEN=TOKEN) as (url, process):
        local = url.replace("0.0.0.0", "127.0.0.1")
        assert get(f"{local}/v1/runs")[0] == 401
        assert get(f"{local}/v1/runs", Authorization=f"Bearer {TOKEN}")[0] == 200
        assert get(f"{local}/v1/runs", Authorization=f"Bearer {TOKEN}", Host="evil.example")[0] == 421
        assert TOKEN not in Path(f"/proc/{process.pid}/cmdline").read_text(encoding="utf-8")


def test_wrong_settings_are_refused(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_refused(conjoin("serve", tmp_path / "none", "--port", 0), tmp_path / "none")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert_refused(conjoin("serve", trained, "--port", port), port, "--port")
    monkeypatch.setenv("CONJOIN_TOKEN", TOKEN)
    assert_refused(conjoin("serve", trained, "--host", "203.0.113.9", "--port", 0), "203.0.113.9")
    assert_refused(conjoin("serve", trained, "--port", 0, "--trusted-proxy", "proxy.example"), "proxy.example")
    assert_refused(conjoin("serve", trained, "--port", 0, "--map", "tsne"), "tsne", "pca")


def test_a_missing_package_is_named(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import conjoin.server as package

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "conjoin.server.uvicorn_server", raising=False)
    monkeypatch.delattr(package, "uvicorn_server", raising=False)
    ran = conjoin("serve", trained, "--port", 0)
    assert_refused(ran, "pip install 'conjoin[serve]'")


@pytest.mark.slow
def test_no_request_causes_a_server_error(trained: Path) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    from schemathesis import GenerationMode

    checks = schemathesis.checks
    with service(trained, trained, "--rate", 100_000) as (url, _):
        schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        tried = 0
        for found in schema.get_all_operations():
            operation = found.ok()
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                if mode is GenerationMode.NEGATIVE and not (operation.query or operation.body):
                    continue

                @given(case=operation.as_strategy(generation_mode=mode))
                @settings(
                    max_examples=15,
                    deadline=None,
                    database=None,
                    derandomize=True,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                )
                def holds(case: Any) -> None:
                    nonlocal tried
                    tried += 1
                    answer = case.call(base_url=url)
                    assert answer.status_code < 500, answer.text[:500]
                    case.validate_response(answer, checks=[checks.not_a_server_error])

                holds()
        assert tried > 200
        assert get(f"{url}/healthz")[0] == 200
