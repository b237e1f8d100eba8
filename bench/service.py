"""Measure the service under load on loopback: python -m bench.service RUN [--connections 64]

Compares micro-batching on and off with the same questions (test questions of the run's graph, both directions), and the
answers with one-by-one scoring. Then sends malformed requests. Writes
bench/results/service_<hardware>_<date>.md and .json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from conjoin.graph.graph import Graph
from conjoin.io.graph_store import open_graph
from conjoin.runtime.process_memory import resident

Words = tuple[str, str, str]
GOAL = {"questions_per_second": 300, "p99_ms": 400}
CLOSE_ENOUGH = 1e-5


@dataclass(frozen=True)
class Measured:
    """The result of one period of load."""

    batching: bool
    connections: int
    seconds: float
    questions: int
    failures: int
    questions_per_second: float
    p50_ms: float
    p99_ms: float
    largest_ms: float
    mean_batch: float
    load: float


@contextmanager
def serving(run: Path, *options: str) -> Iterator[tuple[str, int]]:
    """Start a service. Yields its address and process id."""
    words = [sys.executable, "-m", "conjoin", "serve", str(run), "--port", "0", "--json", "--rate", "1e6", *options]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"], process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def questions_of(graph: Graph, count: int, *, seed: int = 0) -> list[Words]:
    """Test questions of both directions, in random order."""
    entities, relations = graph.entities.names, graph.relations.names
    facts = random.Random(seed).sample(graph.test.tolist(), min(count, len(graph.test)))
    words = [(entities[h], relations[r], entities[t]) for h, r, t in facts]
    return [("?", r, t) if i % 2 else (h, r, "?") for i, (h, r, t) in enumerate(words)]


class Connection:
    """A minimal HTTP client with a kept connection, so that the client's own time is small."""

    def __init__(self, url: str) -> None:
        self.host, self.port = urlsplit(url).hostname, urlsplit(url).port

    async def __aenter__(self) -> Connection:
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def get(self, path: str) -> tuple[int, bytes]:
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        return int(head[9:12]), await self.reader.readexactly(length)


def path_of(question: Words, k: int = 10) -> str:
    head, relation, tail = (quote(word, safe="") for word in question)
    return f"/v1/ask?head={head}&relation={relation}&tail={tail}&k={k}"


async def load(url: str, questions: list[Words], *, connections: int, seconds: float) -> tuple[list[float], int, float]:
    """Each connection asks again when it has its answer. Returns times, failures and the duration."""
    times: list[float] = []
    failures = 0
    began = time.perf_counter()

    async def one(number: int) -> None:
        nonlocal failures
        place = number
        async with Connection(url) as connection:
            while time.perf_counter() - began < seconds:
                start = time.perf_counter()
                status, _ = await connection.get(path_of(questions[place % len(questions)]))
                times.append(time.perf_counter() - start)
                failures += status != 200
                place += connections

    await asyncio.gather(*map(one, range(connections)))
    return times, failures, time.perf_counter() - began


async def mean_batch(url: str) -> float:
    async with Connection(url) as connection:
        _, text = await connection.get("/metrics")
    numbers = {}
    for line in text.decode().splitlines():
        if line.startswith(("conjoin_batch_questions_sum", "conjoin_batch_questions_count")):
            numbers[line.partition("{")[0].rpartition("_")[2]] = float(line.rpartition(" ")[2])
    return numbers["sum"] / max(numbers["count"], 1)


def measure(run: Path, questions: list[Words], *, batching: bool, connections: int, seconds: float) -> Measured:
    with serving(run, "--batching" if batching else "--no-batching") as (url, _):
        asyncio.run(load(url, questions, connections=connections, seconds=1.0))
        times, failures, took = asyncio.run(load(url, questions, connections=connections, seconds=seconds))
        batch = asyncio.run(mean_batch(url))
    cuts = statistics.quantiles(times, n=100)
    return Measured(
        batching=batching,
        connections=connections,
        seconds=round(took, 2),
        questions=len(times),
        failures=failures,
        questions_per_second=round(len(times) / took, 1),
        p50_ms=round(1000 * cuts[49], 1),
        p99_ms=round(1000 * cuts[98], 1),
        largest_ms=round(1000 * max(times), 1),
        mean_batch=round(batch, 1),
        load=round(os.getloadavg()[0], 2),
    )


async def same_answers(url: str, run: Path, questions: list[Words]) -> dict[str, Any]:
    """Compare answers under load with the predictor's answers to single questions."""
    import conjoin

    async def one(number: int, found: dict[int, Any]) -> None:
        async with Connection(url) as connection:
            for place in range(number, len(questions), 64):
                found[place] = json.loads((await connection.get(path_of(questions[place])))[1])["answers"]

    found: dict[int, Any] = {}
    await asyncio.gather(*(one(number, found) for number in range(64)))
    predictor = conjoin.open(run)
    worst, other_order = 0.0, 0
    for place, question in enumerate(questions):
        alone = predictor.ask(*question, k=10)
        together = found[place]
        other_order += [a.entity for a in alone] != [a["entity"] for a in together]
        worst = max([worst, *(abs(a.score - b["score"]) for a, b in zip(alone, together, strict=True))])
    return {"questions": len(questions), "other_order": other_order, "largest_difference": worst}


async def malformed(url: str, count: int, *, seed: int = 0) -> dict[str, Any]:
    """Send malformed requests. Every response must be a 4xx."""
    chance = random.Random(seed)
    statuses: Counter[str] = Counter()
    target = urlsplit(url)
    paths = ("/v1/ask", "/v1/score", "/v1/entity", "/v1/explain", "/v1/map", "/v1/mine", "/v1/similar", "/v1/../../etc")
    posted = f"Host: {target.hostname}\r\nConnection: close\r\nContent-Type: application/json\r\n"

    async def one(number: int) -> None:
        path = chance.choice(paths)
        noise = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 200)))
        head = f"Host: {target.hostname}\r\nConnection: close\r\n"
        requests = (
            f"GET {path}?{quote(noise)}=1 HTTP/1.1\r\n{head}\r\n".encode(),
            f"POST {path} HTTP/1.1\r\n{posted}Content-Length: {len(noise)}\r\n\r\n".encode() + noise,
            noise + b"\r\n\r\n",
            f"GET {path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n".encode(),
            f"POST /v1/ask HTTP/1.1\r\n{head}Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{{}}".encode(),
            f"POST /v1/ask HTTP/1.1\r\n{posted}Content-Length: 99999999\r\n\r\n".encode(),
            f"BREW {path} HTTP/1.1\r\n{head}\r\n".encode(),
            f"GET /v1/ask?head={'x' * chance.randrange(70_000)} HTTP/1.1\r\n{head}\r\n".encode(),
        )
        reader, writer = await asyncio.open_connection(target.hostname, target.port)
        writer.write(requests[number % len(requests)])
        try:
            answer = await asyncio.wait_for(reader.read(100_000), 30)
        except ConnectionResetError:
            answer = b""
        statuses[answer[9:12].decode("latin-1") or "closed"] += 1
        writer.close()

    for start in range(0, count, 16):
        await asyncio.gather(*map(one, range(start, min(start + 16, count))))
    return {"requests": count, "statuses": dict(sorted(statuses.items()))}


def report(found: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| {'on' if m['batching'] else 'off'} | {m['questions_per_second']} | {m['p50_ms']} | {m['p99_ms']} | "
        f"{m['largest_ms']} | {m['mean_batch']} | {m['failures']} | {m['load']} |"
        for m in found["measured"]
    )
    best = found["best"]
    return f"""# The service under load

{found["graph"]}, rank {found["rank"]}; {found["connections"]} connections on loopback, client and service on one
machine; {found["machine"]}; {found["date"]}. Repeat with `python -m bench.service RUN`.

Goal: {GOAL["questions_per_second"]} questions a second with p99 under {GOAL["p99_ms"]} ms. Best with batching:
**{best["on"]["questions_per_second"]} questions/s, p99 {best["on"]["p99_ms"]} ms**; without:
{best["off"]["questions_per_second"]} questions/s, p99 {best["off"]["p99_ms"]} ms.

| batching | questions/s | p50 ms | p99 ms | largest ms | mean batch | failures | load |
|---|---|---|---|---|---|---|---|
{rows}

Compared with single questions: {found["same"]["questions"]} questions under load, {found["same"]["other_order"]} with
another order of answers, largest difference of scores {found["same"]["largest_difference"]:.1e}.
Malformed requests: {found["malformed"]["requests"]}, answered {found["malformed"]["statuses"]}.
Memory of the service: {found["memory"]["before"] >> 20} MiB ready, {found["memory"]["after"] >> 20} MiB after the
malformed requests. Ready {found["start_seconds"]:.2f} s after its start.
"""


def main() -> None:
    """Measure, write the report, print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--malformed", type=int, default=1000)
    parser.add_argument("--hardware", default=f"{os.cpu_count()}cores")
    parser.add_argument("-o", "--out", type=Path, default=Path(__file__).resolve().parent / "results")
    chosen = parser.parse_args()
    settings = json.loads((chosen.run / "run.json").read_text(encoding="utf-8"))["run"]
    graph = open_graph(chosen.run / "graph")
    questions = questions_of(graph, 5_000)
    stretch = {"connections": chosen.connections, "seconds": chosen.seconds}
    measured = [
        measure(chosen.run, questions, batching=batching, **stretch)
        for _ in range(chosen.repeat)
        for batching in (True, False)
    ]
    began = time.perf_counter()
    with serving(chosen.run) as (url, process):
        start_seconds = time.perf_counter() - began
        before = resident(process)
        same = asyncio.run(same_answers(url, chosen.run, questions[:512]))
        bad = asyncio.run(malformed(url, chosen.malformed))
        after = resident(process)
    fastest = sorted(measured, key=lambda m: -m.questions_per_second)
    found = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "graph": f"{settings['data']}: {graph.n_entities:,} entities, {graph.n_relations:,} relations",
        "rank": settings["rank"],
        "connections": chosen.connections,
        "goal": GOAL,
        "best": {
            word: asdict(next(m for m in fastest if m.batching == on)) for word, on in (("on", True), ("off", False))
        },
        "measured": [asdict(m) for m in measured],
        "same": same,
        "malformed": bad,
        "memory": {"before": before, "after": after},
        "start_seconds": start_seconds,
    }
    chosen.out.mkdir(parents=True, exist_ok=True)
    stem = chosen.out / f"service_{chosen.hardware}_{found['date']}"
    stem.with_suffix(".json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    stem.with_suffix(".md").write_text(report(found), encoding="utf-8")
    print(report(found))
    if same["other_order"] or same["largest_difference"] > CLOSE_ENOUGH:
        sys.exit("answers under load differ from answers to single questions")


if __name__ == "__main__":
    main()
