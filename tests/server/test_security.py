"""Access checks, security headers, rate limits, and malformed requests."""

from __future__ import annotations

import io
import json
import os
import random
import re
import string
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient
from tests.server.served import HERE, error_of, talking

from conjoin.errors import UsageError
from conjoin.server.access import hostname, is_loopback, read_token
from conjoin.server.open_runs import open_runs
from conjoin.server.rate_limit import RateLimiter
from conjoin.server.settings import ServerSettings
from conjoin.server.static_page import page_routes

TOKEN = "a-token-that-nobody-guesses"
ASK = "/v1/ask?head=France&relation=borders"
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def run(lands: Path) -> Path:
    return lands


@pytest.fixture(scope="module")
def client(run: Path) -> Iterator[TestClient]:
    with talking(run) as client:
        yield client


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost:80:80", "", "192.168.0.1", "[::2]"]
)
def test_other_hosts_are_refused(client: TestClient, host: str) -> None:
    answer = client.get("/v1/runs", headers={"host": host})
    assert answer.status_code == 421
    error_of(answer)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8311", "127.0.0.1:1", "[::1]:8311"])
def test_loopback_names_are_accepted(client: TestClient, host: str) -> None:
    assert client.get("/v1/runs", headers={"host": host}).status_code == 200


def test_hostname_parses_host_headers() -> None:
    assert hostname("a.b:80") == "a.b"
    assert hostname("[::1]:80") == "::1"
    assert hostname("[::1]") == "::1"
    assert hostname("a:b") is None
    assert hostname("") is None


def test_pages_of_other_origins_are_refused(client: TestClient) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", "http://["):
        answer = client.get(ASK, headers={"origin": origin})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
    assert client.get(ASK, headers={"origin": HERE}).status_code == 200
    assert "access-control-allow-origin" not in client.get(ASK, headers={"origin": HERE}).headers


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_cross_site_images_and_frames_are_refused_but_links_work(client: TestClient, site: str) -> None:
    for mode, dest in (("no-cors", "image"), ("no-cors", "empty"), ("navigate", "iframe")):
        headers = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
        answer = client.get("/v1/mine?n=1", headers=headers)
        assert answer.status_code == 403
        error_of(answer)
        own = client.get("/v1/mine?n=1", headers={**headers, "sec-fetch-site": "same-origin"})
        assert own.status_code == 200
    followed = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert client.get("/v1/runs", headers=followed).status_code == 200


def test_allowed_origin_gets_cors_headers(run: Path) -> None:
    site = "https://site.example"
    with talking(run, settings=ServerSettings(origins=(f"{site}/",), token=TOKEN)) as client:
        bearer = {"authorization": f"Bearer {TOKEN}"}
        assert client.get(ASK, headers={"origin": site, **bearer}).headers["access-control-allow-origin"] == site
        asks_first = {"origin": site, "access-control-request-method": "POST"}
        preflight = client.options("/v1/ask", headers=asks_first)
        assert preflight.status_code == 204
        assert "POST" in preflight.headers["access-control-allow-methods"]
        fetched = {"origin": site, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}
        assert client.get(ASK, headers={**fetched, **bearer}).status_code == 200
        refused = client.get(ASK, headers={"origin": site, "authorization": "Bearer wrong"})
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == site, "the page must be able to read the error"
        assert client.options("/v1/ask", headers={**asks_first, "origin": "https://b.example"}).status_code == 403


def test_interface_requires_the_exact_token(run: Path) -> None:
    with talking(run, settings=ServerSettings(token=TOKEN)) as client:
        for path in ("/v1/runs", ASK, "/metrics", "/openapi.json", "/v1/none", "/v1"):
            for header in (
                None,
                "",
                "Bearer",
                f"Bearer {TOKEN}x",
                f"Bearer {TOKEN[:-1]}",
                f"Basic {TOKEN}",
                TOKEN,
                "Bearer é",
            ):
                headers = {} if header is None else {b"authorization": header.encode("latin-1")}
                answer = client.get(path, headers=headers)
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == "Bearer"
                assert TOKEN not in answer.text
                error_of(answer)
            assert client.get(path).status_code == 401
        for path in ("/", "/healthz", "/readyz"):
            assert client.get(path).status_code == 200
        assert client.get(ASK, headers={"authorization": f"bearer {TOKEN}"}).status_code == 200
        described = client.get("/openapi.json", headers={"authorization": f"Bearer {TOKEN}"}).json()["paths"]
        assert described["/v1/runs"]["get"]["security"] == [{"HTTPBearer": []}]
        assert "security" not in described["/healthz"]["get"]
        address = {"authorization": f"Bearer {TOKEN}", "host": "192.168.0.1:8311"}
        assert client.get(ASK, headers=address).status_code == 200
        assert client.get(ASK, headers={**address, "host": "evil.example"}).status_code == 421


def test_token_is_read_from_file_or_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    monkeypatch.delenv("CONJOIN_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("CONJOIN_TOKEN", TOKEN)
    assert read_token(None) == TOKEN
    file.write_text(TOKEN[::-1] + "\n", encoding="utf-8")
    assert read_token(file) == TOKEN[::-1]
    for bad in ("short", "", "with a blank in its midst", "é" * 20):
        file.write_text(bad, encoding="utf-8")
        with pytest.raises(UsageError, match=re.escape(str(file))) as refused:
            read_token(file)
        assert not bad or bad not in str(refused.value)
    with pytest.raises(UsageError, match=re.escape(str(tmp_path / "none"))):
        read_token(tmp_path / "none")


def test_token_file_must_be_a_small_regular_file(tmp_path: Path) -> None:
    pipe, large, link = tmp_path / "pipe", tmp_path / "large", tmp_path / "link"
    os.mkfifo(pipe)
    large.write_text(TOKEN + " " * 10_000, encoding="utf-8")
    link.symlink_to(pipe)
    for file in (pipe, link, large, tmp_path, Path("/dev/zero")):
        told: list[BaseException] = []

        def read(file: Path = file, told: list[BaseException] = told) -> None:
            try:
                read_token(file)
            except UsageError as error:
                told.append(error)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(20)
        assert not reader.is_alive(), f"{file} is waited for"
        assert str(file) in str(told[0])


def test_is_loopback_distinguishes_addresses() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("127.9.9.9")
    assert is_loopback("localhost")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("::")
    with pytest.raises(UsageError):
        is_loopback("no such host")


def test_every_answer_has_the_security_headers(client: TestClient) -> None:
    for path in ("/", "/v1/runs", "/v1/none", "/none.js", "/healthz"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
        assert "server" not in headers


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", ""]
)
def test_only_json_bodies_are_accepted(client: TestClient, kind: str) -> None:
    body = b'{"entity": "France"}'
    answer = client.post("/v1/similar", content=body, headers={"content-type": kind})
    assert answer.status_code == 415
    error_of(answer)
    zipped = client.post("/v1/similar", content=body, headers={**JSON, "content-encoding": "gzip"})
    assert zipped.status_code == 415
    assert client.post(
        "/v1/similar", content=body, headers={"content-type": "Application/JSON; charset=UTF-8"}
    ).is_success


def test_run_names_are_never_used_as_paths(client: TestClient, run: Path) -> None:
    for name in ("../lands", "..", "/etc", str(run), "lands/", "./lands", "lands\0"):
        answer = client.get("/v1/relations", params={"run": name})
        assert answer.status_code == 404
        assert str(run.parent) not in error_of(answer)[0].replace(repr(name), "")


def test_static_files_outside_the_folder_are_not_served(tmp_path: Path) -> None:
    from fastapi import FastAPI

    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("the page", encoding="utf-8")
    (static / "assets" / "a.js").write_text("code", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    (static / "link.txt").symlink_to(tmp_path / "secret.txt")
    app = FastAPI()
    app.include_router(page_routes(static))
    with TestClient(app, raise_server_exceptions=False) as client:
        assert client.get("/assets/a.js").text == "code"
        assert "immutable" in client.get("/assets/a.js").headers["cache-control"]
        tag = client.get("/").headers["etag"]
        unchanged = client.get("/", headers={"if-none-match": f'"other", W/{tag}'})
        assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", tag)
        assert client.get("/", headers={"if-none-match": '"other"'}).text == "the page"
        deep = client.get("/a b/c/d?q=1&r=%2F", headers={"accept": "text/html"}, follow_redirects=False)
        assert (deep.status_code, deep.headers["location"]) == (307, "../../a%20b?q=1&r=%2F")
        assert client.get("/ask/", headers={"accept": "text/html"}).url.path == "/ask"
        for path in ("/../secret.txt", "/..%2fsecret.txt", "/%2e%2e/secret.txt", "/assets/..%5c..%5csecret.txt"):
            assert "secret" not in client.get(path).text
        assert client.get("/link.txt", headers={"accept": "text/html"}).text == "the page"
        assert client.get("/" + str(tmp_path / "secret.txt")).text != "secret"


def test_rate_limit_applies_to_all_routes_but_health(run: Path) -> None:
    with talking(run, settings=ServerSettings(rate=0.5, burst=3)) as client:
        codes = [client.get("/v1/runs").status_code for _ in range(5)]
        assert codes == [200, 200, 200, 429, 429]
        answer = client.get("/v1/runs")
        assert 1 <= int(answer.headers["retry-after"]) <= 2
        error_of(answer)
        for path in ("/healthz", "/readyz"):
            assert [client.get(path).status_code for _ in range(5)] == 5 * [200]


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"host": "evil.example"}])
def test_refused_requests_count_against_the_rate_limit(run: Path, headers: dict[str, str]) -> None:
    with talking(run, settings=ServerSettings(rate=0.1, burst=3, token=TOKEN)) as client:
        refused = {client.get("/v1/runs", headers=headers).status_code for _ in range(3)}
        assert refused == {421 if "host" in headers else 401}
        guesses = [client.get("/v1/runs", headers={"authorization": f"Bearer {TOKEN}{n}"}) for n in range(3)]
        assert [guess.status_code for guess in guesses] == 3 * [429]
        right = {"authorization": f"Bearer {TOKEN}"}
        assert client.get("/v1/runs", headers=right).status_code == 429, "the token was compared despite the rate limit"
        assert client.get("/healthz").status_code == 200


def test_rate_limiter_refills_per_client_and_forgets_old_clients() -> None:
    now = 0.0
    buckets = RateLimiter(2.0, 2.0, clock=lambda: now)
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 1]
    assert buckets.take("b") == 0
    now = 0.5
    assert [buckets.take("a"), buckets.take("a")] == [0, 1]
    for number in range(20_000):
        buckets.take(str(number))
    assert len(buckets._buckets) <= 10_000


def test_requests_above_the_concurrency_limit_get_503(run: Path) -> None:
    with talking(run, settings=ServerSettings(at_once=0)) as client:
        answer = client.get("/v1/runs")
        assert answer.status_code == 503
        assert answer.headers["retry-after"]
        assert client.get("/healthz").status_code == 200


def test_request_above_the_time_limit_gets_503(run: Path) -> None:
    settings = ServerSettings(seconds=0.2)
    opened = open_runs([run], settings=settings)
    with talking(settings=settings, opened=opened) as client:
        answer_now, given_up = opened["lands"].predictor.ask_many, threading.Event()

        def slowly(*words: Any, **options: Any) -> Any:
            given_up.wait(60)
            return answer_now(*words, **options)

        opened["lands"].predictor.ask_many = slowly  # type: ignore[method-assign]
        answer = client.get(ASK)
        given_up.set()
        assert answer.status_code == 503
        assert answer.headers["retry-after"]
        error_of(answer)


def test_internal_error_hides_details_and_logs_the_trace(run: Path) -> None:
    log = io.StringIO()
    settings = ServerSettings(token=TOKEN)
    opened = open_runs([run], settings=settings)
    bearer = {"authorization": f"Bearer {TOKEN}"}
    with talking(settings=settings, opened=opened, log=log) as client:

        def fails(*_: Any, **__: Any) -> Any:
            raise RuntimeError("deep inside")

        opened["lands"].predictor.ask_many = fails  # type: ignore[method-assign]
        answer = client.get(ASK, headers=bearer)
        assert answer.status_code == 500
        reason, hint = error_of(answer)
        assert "deep inside" not in reason + hint
        assert answer.headers["x-request-id"] in hint
        assert client.get("/healthz").status_code == 200
        client.get("/v1/ask?head=Atlantis&relation=borders", headers={"authorization": f"Bearer {TOKEN}"})
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert any("deep inside" in line.get("trace", "") for line in lines)
    assert {"time", "level", "event", "route", "status", "seconds", "id", "method", "client"} <= set(lines[-1])
    assert TOKEN not in log.getvalue()
    assert "Atlantis" not in log.getvalue()


def malformed(chance: random.Random) -> tuple[str, str, dict[str, str], bytes]:
    """Method, path, headers and body of a random malformed request."""
    noise = "".join(chance.choice(string.printable + "é中\0") for _ in range(chance.randrange(1, 60)))
    words = ("ask", "score", "similar", "entities", "entity", "relations", "explain", "mine", "map", "study", "none")
    path = "/v1/" + chance.choice(words)
    value: Any = chance.choice([None, -1, 10**30, 1e308, True, [], {}, noise, [[noise]], {"run": noise}])
    body = {chance.choice(["questions", "triples", "entity", "head", "k", "run", noise]): value}
    method = chance.choice(["GET", "POST", "PUT", "DELETE", "PATCH"])
    query = f"?{quote(chance.choice(['k', 'run', 'head', 'limit', noise]))}={quote(noise)}"
    raw = json.dumps(body).encode()
    raw = chance.choice([raw, raw[: chance.randrange(len(raw))], noise.encode(), b"[" * 5000, b"\xff\xfe"])
    return method, path + query, JSON, b"" if method == "GET" else raw


def test_malformed_requests_get_4xx_and_a_reason(client: TestClient) -> None:
    chance = random.Random(5)
    refused = 0
    for _ in range(200):
        method, path, headers, body = malformed(chance)
        answer = client.request(method, path, headers=headers, content=body)
        assert answer.status_code < 500, (method, path, body, answer.text)
        if answer.status_code >= 400:
            error_of(answer)
            refused += 1
    assert refused > 150
    assert client.get(ASK).status_code == 200
