"""Measure how long `/healthz` takes while the service is busy: python -m bench.health RUN [--clients 4]

Each client is a separate process that repeatedly requests 100,000 answers at once. Meanwhile another process requests
`/healthz` every few milliseconds, alternately on a kept and a new connection, and asks a small question. Writes
bench/results/health_<hardware>_<date>.md and .json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.service import Connection, Words, path_of, questions_of, serving

from conjoin.io.graph_store import open_graph

GOAL_MS = 100
"""Largest p99 of `/healthz` while four clients ask for 100,000 answers each."""
ANSWERS = 100_000
PAUSE = 0.02
"""Seconds between two probes."""


@dataclass(frozen=True)
class Times:
    """Milliseconds of one kind of request."""

    what: str
    requests: int
    failures: int
    p50_ms: float
    p99_ms: float
    largest_ms: float


async def post(connection: Connection, body: bytes) -> tuple[int, int]:
    """Ask many questions; return the status and the number of bytes of the answer."""
    head = f"POST /v1/ask HTTP/1.1\r\nHost: {connection.host}\r\nContent-Type: application/json\r\n"
    connection.writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    answer = await connection.reader.readuntil(b"\r\n\r\n")
    length = int(answer.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    await connection.reader.readexactly(length)
    return int(answer[9:12]), length


async def ask_for_much(url: str, body: bytes, seconds: float) -> dict[str, int]:
    """One client: it sends the next request when it has the previous answer."""
    done = failures = size = 0
    began = time.perf_counter()
    async with Connection(url) as connection:
        while time.perf_counter() - began < seconds:
            status, size = await post(connection, body)
            done += 1
            failures += status != 200
    return {"requests": done, "failures": failures, "bytes": size}


async def probe(url: str, questions: list[Words], seconds: float) -> list[Times]:
    """Time `/healthz` on a kept and on a new connection, and small questions, until the end of the measurement."""
    found: dict[str, list[float]] = {"healthz, kept connection": [], "healthz, new connection": [], "ask, k = 10": []}
    failures = dict.fromkeys(found, 0)
    began = time.perf_counter()

    async def on_new(path: str) -> int:
        async with Connection(url) as connection:
            return (await connection.get(path))[0]

    async def again(what: str, ask: Callable[[], Awaitable[int]]) -> None:
        while time.perf_counter() - began < seconds:
            start = time.perf_counter()
            status = await ask()
            found[what].append(time.perf_counter() - start)
            failures[what] += status != 200
            await asyncio.sleep(PAUSE)

    async with Connection(url) as kept, Connection(url) as other:

        async def healthz() -> int:
            return (await kept.get("/healthz"))[0]

        async def question() -> int:
            return (await other.get(path_of(random.choice(questions))))[0]

        await asyncio.gather(
            again("healthz, kept connection", healthz),
            again("healthz, new connection", lambda: on_new("/healthz")),
            again("ask, k = 10", question),
        )
    return [
        Times(what, len(times), failures[what], *(_ms(value) for value in _quantiles(times)))
        for what, times in found.items()
    ]


def _quantiles(times: list[float]) -> tuple[float, float, float]:
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    return cuts[49], cuts[98], max(times)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)


def measure(run: Path, questions: list[Words], *, clients: int, seconds: float, k: int) -> dict[str, Any]:
    """Times without and with the load; probes and clients are separate processes."""
    many = [{"head": h, "relation": r, "tail": t} for h, r, t in (questions * ANSWERS)[: ANSWERS // k]]
    body = json.dumps({"questions": many, "k": k})
    this = [sys.executable, str(Path(__file__).resolve())]
    with serving(run, "--batching") as (url, _):
        alone = asyncio.run(probe(url, questions, seconds / 4))
        words = [*this, "--ask", url, "--seconds", str(seconds + 2)]
        started = [
            subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(clients)
        ]
        for process in started:
            assert process.stdin is not None
            process.stdin.write(body)
            process.stdin.close()
        time.sleep(2)
        busy = asyncio.run(probe(url, questions, seconds))
        told = [json.loads(process.stdout.read()) for process in started if process.stdout is not None]
        for process in started:
            process.wait(60)
    return {
        "alone": [asdict(each) for each in alone],
        "busy": [asdict(each) for each in busy],
        "clients": told,
        "load": round(os.getloadavg()[0], 2),
    }


def report(found: dict[str, Any]) -> str:
    """The page."""
    rows = "\n".join(
        f"| {when} | {t['what']} | {t['requests']} | {t['failures']} | {t['p50_ms']} | {t['p99_ms']} | "
        f"{t['largest_ms']} |"
        for when in ("alone", "busy")
        for t in found[when]
    )
    done = sum(each["requests"] for each in found["clients"])
    return f"""# Health under load

{found["graph"]}, rank {found["rank"]}; {len(found["clients"])} clients on loopback that ask for {ANSWERS:,} answers
each (k = {found["k"]}, {found["clients"][0]["bytes"] / 1e6:.1f} MB), clients and service on one machine;
{found["machine"]}; load {found["load"]}; {found["date"]}. Repeat with `python -m bench.health RUN`.

Goal: p99 of `/healthz` below {GOAL_MS} ms. Measured: **{found["p99_ms"]} ms**, the larger of a kept and a new
connection.

| service | request | requests | failures | p50 ms | p99 ms | largest ms |
|---|---|---:|---:|---:|---:|---:|
{rows}

Requests for {ANSWERS:,} answers that were answered meanwhile: {done}.
"""


def main() -> None:
    """Measure, write the report, print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--k", type=int, default=1_000)
    parser.add_argument("--hardware", default=f"{os.cpu_count()}cores")
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--out", type=Path, default=Path(__file__).resolve().parent / "results")
    chosen = parser.parse_args()
    if chosen.ask:
        print(json.dumps(asyncio.run(ask_for_much(chosen.ask, sys.stdin.buffer.read(), chosen.seconds))))
        return
    settings = json.loads((chosen.run / "run.json").read_text(encoding="utf-8"))["run"]
    graph = open_graph(chosen.run / "graph")
    questions = questions_of(graph, 1_000)
    found = measure(chosen.run, questions, clients=chosen.clients, seconds=chosen.seconds, k=chosen.k)
    found |= {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "graph": f"{settings['data']}: {graph.n_entities:,} entities, {graph.n_relations:,} relations",
        "rank": settings["rank"],
        "k": chosen.k,
        "goal_ms": GOAL_MS,
        "p99_ms": max(each["p99_ms"] for each in found["busy"] if each["what"].startswith("healthz")),
    }
    chosen.out.mkdir(parents=True, exist_ok=True)
    stem = chosen.out / f"health_{chosen.hardware}_{found['date']}"
    stem.with_suffix(".json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    stem.with_suffix(".md").write_text(report(found), encoding="utf-8")
    print(report(found))
    if found["p99_ms"] >= GOAL_MS:
        sys.exit(f"the p99 of /healthz is {found['p99_ms']} ms, the goal is below {GOAL_MS} ms")


if __name__ == "__main__":
    main()
