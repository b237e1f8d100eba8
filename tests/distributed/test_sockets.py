"""No verb listens to a network, and no process unpickles what another one sent it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import command, little_graph
from tests.distributed.sockets import Watched, open_to_others
from tests.stress.processes import ended, start

from conjoin.cli import app

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's /proc/net")
TINY = ("--rank", 4, "--epochs", 2, "--batch", 16, "--device", "cpu")
STUDY = """
name = "small"
seeds = 2
rows = [{ name = "complex", form = "complex" }]
[datasets.little]
graph = "GRAPH"
[settings.little]
complex = { rank = 4, epochs = 2, batch = 16 }
"""
HOOK = """
import os, sys, traceback
def hook(event, words):
    if event == "pickle.find_class":
        with open(os.environ["UNPICKLED"], "a") as file:
            file.write(f"{words} in {' '.join(sys.argv[:4])}\\n" + "".join(traceback.format_stack(limit=12)))
sys.addaudithook(hook)
"""


def test_watcher_detects_a_socket_outside_loopback() -> None:
    """The other tests would pass if their eyes were shut."""
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp, socket.create_server(("127.0.0.1", 0)):
        tcp.bind(("0.0.0.0", 0))
        tcp.listen()
        udp.bind(("0.0.0.0", 0))
        expected = {f"{name} 0.0.0.0 port {each.getsockname()[1]}" for name, each in (("tcp", tcp), ("udp", udp))}
        assert open_to_others({os.getpid()}) == expected


def elsewhere() -> str | None:
    """A network interface of this machine that others reach."""
    with socket.socket() as any_socket:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # SIOCGIFADDR: an interface without an address refuses
                fcntl.ioctl(any_socket, 0x8915, struct.pack("256s", name.encode()))
                if name != "lo":
                    return name
    return None


def watched(*words: object, **environment: str) -> tuple[Watched, str]:
    """Run the program and look at its sockets until it ends."""
    process = subprocess.Popen(
        command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    with Watched(process.pid) as seen:
        out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err
    return seen, out


@pytest.fixture
def unpickled(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment whose Python programs write down every class that pickle looks up."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(HOOK)
    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
    log = tmp_path / "unpickled.txt"
    yield {"PYTHONPATH": path, "UNPICKLED": str(log)}
    probe = "import pickle, fractions; pickle.loads(pickle.dumps(fractions.Fraction(1)))"
    assert not log.exists(), log.read_text()
    environment = {**os.environ, "PYTHONPATH": path, "UNPICKLED": str(log)}
    subprocess.run([sys.executable, "-c", probe], env=environment, check=True)
    assert "Fraction" in log.read_text(), "the hook sees nothing"


@pytest.mark.slow
def test_shared_training_listens_on_loopback_only_and_never_unpickles(
    tmp_path: Path, unpickled: dict[str, str]
) -> None:
    """With checkpoints after each epoch. An environment variable asks gloo for another interface, without effect."""
    graph, run = little_graph(tmp_path / "graph"), tmp_path / "run"
    words = ("train", graph, *TINY, "--checkpoint-epochs", 1, "--processes", 2, "-o", run, "--json")
    away = {"GLOO_SOCKET_IFNAME": name} if (name := elsewhere()) else {}
    seen, out = watched(*words, **unpickled, **away)
    assert json.loads(out)["epochs"] == 2
    assert len(seen.processes) >= 3
    assert seen.seen == set()


@pytest.mark.slow
def test_shared_resume_and_ask_never_unpickle(tmp_path: Path, unpickled: dict[str, str]) -> None:
    """Loading a checkpoint of several processes, and what torchrun's processes say to each other."""
    graph, run = little_graph(tmp_path / "graph"), tmp_path / "run"
    words = ("train", graph, *TINY, "--processes", 2, "--replicas", 2, "-o", run)
    watched(*words, "--checkpoint-epochs", 1, **unpickled)
    result = run / "result.json"
    result.unlink()
    watched(*words, "--resume", **unpickled)
    assert result.exists()


WATCHED: dict[str, tuple[object, ...]] = {
    "datasets": ("datasets",),
    "inspect": ("inspect", "GRAPH"),
    "split": ("split", "GRAPH/train.tsv", "-o", "TMP/split"),
    "ingest": ("ingest", "FACTS", "-o", "TMP/ingested", "--threads", 2),
    "patterns": ("patterns", "GRAPH"),
    "synth": ("synth", "symmetric", "-o", "TMP/synth"),
    "forms": ("forms",),
    "plan": ("plan", "GRAPH", "--rank", 4),
    "train": ("train", "GRAPH", *TINY, "-o", "TMP/again"),
    "rank": ("rank", "RUN", "--split", "train"),
    "tune": ("tune", "GRAPH", "--trials", 2, "--epochs", 2, "-o", "TMP/tuned"),
    "ask": ("ask", "RUN", "Q0", "P1", "?"),
    "score": ("score", "RUN", "Q0", "P1", "Q1"),
    "similar": ("similar", "RUN", "Q0"),
    "explain": ("explain", "RUN", "Q0", "P1", "Q1"),
    "mine": ("mine", "RUN", "-n", 3),
    "export": ("export", "RUN", "-o", "TMP/bundle"),
    "find": ("find", "RUN", "Fra"),
    "calibrate": ("calibrate", "RUN"),
    "fold": ("fold", "RUN", "NEW", "-o", "TMP/folded"),
    "study": ("study", "run", "STUDY", "--root", "TMP/results"),
}
NOT_WATCHED = {
    "demo": "trains four forms, as `train` does",
    "fetch": "connects to mirrors",
    "import": "needs an interpreter with PyKEEN",
    "serve": "has its own test below",
    "bench": "trains, as `train` does",
    "figure": "draws what `study run` left",
}


def verbs() -> set[str]:
    named = {(each.name or each.callback.__name__) for each in app.registered_commands if each.callback}
    return named | {each.name for each in app.registered_groups if isinstance(each.name, str)}


def test_every_verb_is_watched_or_listed_as_excluded() -> None:
    assert {*WATCHED, *NOT_WATCHED} == verbs()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where the words of `WATCHED` that are in capitals lead to."""
    tmp = tmp_path_factory.mktemp("verbs")
    graph = little_graph(tmp / "graph")
    watched("train", graph, *TINY, "-o", tmp / "run")
    (tmp / "new.tsv").write_text("Q99\tP1\tQ1\n")
    (tmp / "study.toml").write_text(STUDY.replace("GRAPH", str(graph)))
    lines = "".join(f"<http://e/{i}> <http://r/{i % 3}> <http://e/{i + 1}> .\n" for i in range(20_000))
    (tmp / "facts.nt").write_text(lines)
    named = {"GRAPH": graph, "RUN": tmp / "run", "NEW": tmp / "new.tsv", "STUDY": tmp / "study.toml", "TMP": tmp}
    return {key: str(path) for key, path in {**named, "FACTS": tmp / "facts.nt"}.items()}


def spelled(word: object, places: dict[str, str]) -> str:
    first, slash, rest = str(word).partition("/")
    return places.get(first, first) + slash + rest


@pytest.mark.slow
@pytest.mark.parametrize("verb", WATCHED)
def test_verb_opens_no_network_socket(verb: str, places: dict[str, str], tmp_path: Path) -> None:
    """The processes are forked from one that has imported torch, so that there are few seconds in which nothing is."""
    process = start(*(spelled(word, places) for word in WATCHED[verb]), log=tmp_path / "log")
    assert process.pid
    with Watched(process.pid) as seen:
        code, said = ended(process, tmp_path / "log")
    assert code == 0, said
    assert seen.looks > 1
    assert seen.seen == set()


@pytest.mark.slow
def test_service_listens_on_loopback_by_default(places: dict[str, str]) -> None:
    process = subprocess.Popen(command("serve", places["RUN"], "--port", 0), stderr=subprocess.PIPE, text=True)
    try:
        with Watched(process.pid) as seen:
            assert process.stderr
            said: Any = next(line for line in process.stderr if "http://" in line)
            address = "http://" + said.partition("http://")[2].split()[0].strip('",')
            assert urllib.request.urlopen(f"{address.rstrip('/')}/healthz").status == 200
        assert seen.seen == set()
    finally:
        process.terminate()
        process.communicate()
