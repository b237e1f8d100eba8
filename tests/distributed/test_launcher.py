"""Processes that `--processes` starts: how they stop, that they end with their launcher, and what they leave."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.commands import command
from tests.distributed.test_kill import children

from conjoin.errors import UsageError
from conjoin.runs.folder import RunFolder
from conjoin.runtime.launcher import MEETING, launch, store_file

LINUX = Path("/proc/self/stat").exists()
pytestmark = pytest.mark.skipif(not LINUX, reason="needs Linux's /proc to find the processes")
DEADLINE = 90


def until(condition: Callable[[], object], process: subprocess.Popen[bytes] | None = None) -> None:
    give_up = time.monotonic() + DEADLINE
    while not condition():
        assert process is None or process.poll() is None, process.communicate()[1]
        assert time.monotonic() < give_up
        time.sleep(0.02)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that only this test uses."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return place


@pytest.fixture
def words(tmp_path: Path) -> list[object]:
    """A training whose epochs take long enough to be stopped in."""
    facts = tmp_path / "facts.tsv"
    facts.write_text("".join(f"e{i % 40}\tr{i % 3}\te{(i * 7 + 1) % 40}\n" for i in range(2000)))
    recipe = ["--rank", 4, "--batch", 2, "--epochs", 3, "--negatives", 5]
    return ["train", facts, *recipe, "--seed", 1, "--device", "cpu", "--processes", 2]


@pytest.fixture
def started(temporary: Path, words: list[object], tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The launcher, once its processes train."""
    process = subprocess.Popen(
        command(*words, "-o", tmp_path / "run"), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    try:
        until((tmp_path / "run" / "events.jsonl").exists, process)
        yield process
    finally:
        process.kill()
        process.communicate()


def alive(processes: list[int]) -> list[int]:
    return [pid for pid in processes if Path(f"/proc/{pid}").exists() and "Z" not in _state(pid)]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_to_the_launcher_stops_within_the_epoch_and_resume_is_bit_identical(
    started: subprocess.Popen[bytes], words: list[object], tmp_path: Path, temporary: Path, number: signal.Signals
) -> None:
    workers = children(started.pid)
    assert len(workers) == 2
    started.send_signal(number)
    said = started.communicate(timeout=DEADLINE)[1].decode()
    assert started.returncode == 128 + number, said
    assert not alive(workers)
    assert "Traceback" not in said
    assert list((tmp_path / "run" / "checkpoint").glob("*/index.json")), said
    assert not list(temporary.iterdir())
    for name in ("run", "whole"):
        done = subprocess.run(command(*words, "--resume", "-o", tmp_path / name), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "whole")]
    assert weights[0] == weights[1]
    losses = [[event["loss"] for event in RunFolder(tmp_path / name).events] for name in ("run", "whole")]
    assert losses[0] == losses[1]


def test_processes_use_a_private_folder_and_end_with_a_killed_launcher(
    started: subprocess.Popen[bytes], tmp_path: Path, temporary: Path
) -> None:
    workers = children(started.pid)
    (folder,) = temporary.glob("conjoin-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert f"{MEETING}={folder}".encode() in Path(f"/proc/{workers[0]}/environ").read_bytes().split(b"\0")
    started.kill()
    started.wait()
    until(lambda: not alive(workers))
    assert list((tmp_path / "run" / "checkpoint").glob("*/index.json")), "they stop as they do after SIGTERM"
    assert not list(temporary.iterdir())


def test_rendezvous_folder_with_open_permissions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MEETING, str(tmp_path))
    tmp_path.chmod(0o700)
    assert store_file() == tmp_path / "store"
    for mode in (0o770, 0o701, 0o755):
        tmp_path.chmod(mode)
        with pytest.raises(UsageError, match=MEETING):
            store_file()


@pytest.mark.slow
def test_modules_in_the_working_directory_are_not_imported(tmp_path: Path, temporary: Path) -> None:
    """The program starts as a console script (without -m) in a folder with foreign modules."""
    strange = tmp_path / "strange"
    strange.mkdir()
    for name in ("torch", "conjoin", "json", "safetensors"):
        (strange / f"{name}.py").write_text("raise SystemExit('a module of the working directory was imported')")
    (tmp_path / "facts.tsv").write_text("".join(f"e{i}\tr\te{i + 1}\n" for i in range(30)))
    script = tmp_path / "script.py"
    script.write_text("from conjoin.cli import main\nmain()\n")
    words = ["train", tmp_path / "facts.tsv", "--epochs", 1, "--rank", 2, "--processes", 2, "-o", tmp_path / "run"]
    done = subprocess.run([sys.executable, script, *map(str, words)], cwd=strange, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["environment"]["processes"] == 2


@pytest.mark.parametrize("count", [0, -1])
def test_zero_processes_are_refused(count: int) -> None:
    with pytest.raises(UsageError, match=str(count)):
        launch(["train"], count)
