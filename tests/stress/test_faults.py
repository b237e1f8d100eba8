"""System calls that fail: the short size of `python -m tests.stress faults`, and the failures that once lost data."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import tests.stress.__main__ as parts
from tests.stress.counts import record_short
from tests.stress.faults import ANY, CHANGES, FULL, WAYS, fail_every_call, record
from tests.stress.interposed import HOW, Call, Fault, Interposed, built, missing
from tests.stress.scenarios import scenarios

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
SAMPLED = ("train", "study run", "ingest over another graph", "export parquet over another", "split over another")
ONCE_LOST = {
    "study run": [
        Fault(Call("stat", "graph", 4)),
        Fault(Call("write", "results/faulty/own/complex/seed-0-5a1def3a/events.jsonl", 2), how="torn"),
    ],
    "study report": [
        Fault(Call("open", "results/faulty/own/tied/seed-0-69468504/events.jsonl", 1), "EMFILE"),
        Fault(Call("rename", "report/report.html", 1)),
    ],
    "ingest over another graph": [
        Fault(Call("sync", ".", 1), how="lose"),
        Fault(Call("read", "facts.tsv", 2), lasting=ANY),
        Fault(Call("read", ".stored.ingest/work/ids-0.npy", 2)),
        Fault(Call("close", ".", 1), lasting=ANY),
    ],
    "export parquet over another": [
        Fault(Call("map", "run/best.safetensors", 3), "ENOMEM"),
        Fault(Call("rename", "out/relations.parquet", 1)),
        Fault(Call("sync", "out", 1), how="lose"),
    ],
    "export safetensors over another": [Fault(Call("sync", "out", 4), how="lose")],
    "split over another": [
        Fault(Call("rename", "parts/train.txt", 1), "ENOSPC"),
        Fault(Call("sync", "parts/.parts.*.partial/train.txt", 1), how="lose"),
        Fault(Call("rename", "parts/.parts.*.partial/earlier/valid.txt", 1), lasting=CHANGES),
    ],
    "fold": [Fault(Call("write", "folded/.ranks-test.parquet.*.part", 1), "ENOSPC", lasting=FULL)],
}
"""Failures after which an earlier version lost files, believed half of them or ended with a traceback."""


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    usual = tmp_path_factory.mktemp("faults")
    with tempfile.TemporaryDirectory(dir=parts.MEMORY if parts.MEMORY.is_dir() else usual) as place:
        yield Path(place)


@pytest.fixture(scope="module")
def processes(memory: Path) -> Iterator[Interposed]:
    with Interposed(memory / "server") as server:
        yield server


@pytest.mark.slow
def test_sampled_failing_calls_lose_no_data(memory: Path, processes: Interposed) -> None:
    counts = fail_every_call(memory / "sample", [processes], every=180, only=SAMPLED)
    assert int(counts["system calls that failed"]) > 10
    record_short("faults", {name: count for name, count in counts.items() if "call" not in name and "of" not in name})


@pytest.mark.slow
@pytest.mark.parametrize("name", ONCE_LOST)
def test_failures_that_once_lost_data_lose_none(name: str, memory: Path, processes: Interposed) -> None:
    scenario = next(each for each in scenarios() if each.name == name)
    trial, calls = record(scenario, processes, memory / name.replace(" ", "-"))
    for fault in ONCE_LOST[name]:
        assert fault.call in calls, f"{fault.call} is not made any more: name another"
        problem, ended = trial.problem(processes, memory / "work", fault)
        assert ended.injected, fault
        assert not problem


def test_every_kind_of_call_is_injected() -> None:
    assert {*ANY} == {*WAYS}
    assert {how for ways in WAYS.values() for _, how, _ in ways} == {*HOW}


ALONE = """
import ctypes, errno, os, sys
library, root, log, kind, path, how, lasting = sys.argv[1:]
arm = ctypes.CDLL(library).faults_arm
arm(root.encode(), int(log), kind.encode(), path.encode(), ctypes.c_long(1), int(how), errno.EIO, lasting.encode())
file = os.open(f"{root}/a.0123abcd.part", os.O_CREAT | os.O_RDWR)
try:
    print(os.write(file, b"12345678"))
    os.fsync(file)
    print(os.write(file, b"abcd"))
    os.fsync(file)
except OSError as error:
    print(error.errno == errno.EIO)
try:
    os.rename(f"{root}/a.0123abcd.part", f"{root}/b")
except OSError as error:
    print(error.errno == errno.EIO)
"""


@pytest.mark.parametrize(
    ("fault", "said", "left"),
    [
        (("sync", "elsewhere", "fail", ""), "8 4", {"b": b"12345678abcd"}),
        (("write", "a.*.part", "fail", ""), "True", {"b": b""}),
        (("write", "a.*.part", "short", ""), "4 4", {"b": b"1234abcd"}),
        (("write", "", "torn", ""), "True", {"b": b"1234"}),
        (("sync", "", "lose", ""), "8 True", {"b": bytes(8)}),
        (("", "b", "fail", ""), "8 4 True", {"a.0123abcd.part": b"12345678abcd"}),
        (("write", "", "fail", "rename,sync"), "True True", {"a.0123abcd.part": b""}),
    ],
)
def test_injected_call_fails_as_configured(
    fault: tuple[str, str, str, str], said: str, left: dict[str, bytes], tmp_path: Path
) -> None:
    kind, path, how, lasting = fault
    root, library, log = tmp_path / "root", built(tmp_path), tmp_path / "log"
    root.mkdir()
    with log.open("wb") as calls:
        words = [library, root, calls.fileno(), kind, path, HOW.index(how), lasting]
        ended = subprocess.run(
            [sys.executable, "-c", ALONE, *map(str, words)],
            env={"LD_PRELOAD": str(library)},
            pass_fds=[calls.fileno()],
            capture_output=True,
            text=True,
            check=True,
        )
    assert ended.stdout.split() == said.split()
    assert {file.name: file.read_bytes() for file in root.iterdir()} == left
    lines = [line.split("\t") for line in log.read_text().splitlines()]
    assert ["", "create", "a.*.part"] in lines
    assert any(mark for mark, *_ in lines) == (path != "elsewhere")
