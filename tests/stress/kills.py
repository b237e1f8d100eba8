"""Training, studies and ingestion killed at random moments, ended, and compared with what was left alone."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from tests.stress.counts import Counts
from tests.stress.processes import conjoin, ended, start

from conjoin.runs.folder import RunFolder
from conjoin.studies.parse import read_study
from conjoin.studies.status import finished

TRAINING = ("--rank", 8, "--batch", 100, "--validate-every", 40, "--device", "cpu")
EPOCHS_PER_KILL = 40
"""Long enough that no process reaches its end between two kills, short enough that the rest is done in seconds."""
WEIGHTS_AND_RANKS = ("model.safetensors", "best.safetensors", "ranks-valid.parquet", "ranks-test.parquet")
CLOCKS = ("seconds_per_epoch", "seconds_last_epoch", "seconds_total", "peak_bytes", "files")
ON_THE_ATLAS = """
name = "killed"
seeds = 2
rows = [{ name = "complex", form = "complex" }, { name = "tied", form = "5star-conj", settings = "complex" }]

[defaults]
validate_every = 5

[datasets.atlas]
graph = "atlas"

[settings.atlas]
complex = { rank = 8, epochs = EPOCHS, batch = 500 }
"""


def small_graph(place: Path, *, facts: int = 600) -> Path:
    """A random graph, the same every time."""
    chance = random.Random(0)
    chosen = sorted({(chance.randrange(60), chance.randrange(5), chance.randrange(60)) for _ in range(facts)})
    chance.shuffle(chosen)
    place.mkdir(parents=True, exist_ok=True)
    for name, part in (("valid", chosen[:20]), ("test", chosen[20:40]), ("train", chosen[40:])):
        lines = "".join(f"e{head}\tr{relation}\te{tail}\n" for head, relation, tail in part)
        (place / f"{name}.txt").write_text(lines, encoding="utf-8")
    return place


def epochs_done(folder: Path) -> int:
    """Lines of events below a folder, while files come and go in it."""
    lines = 0
    for base, _, files in os.walk(folder):
        if "events.jsonl" in files:
            with suppress(FileNotFoundError):
                lines += Path(base, "events.jsonl").read_bytes().count(b"\n")
    return lines


def begun(folder: Path, log: Path, *words: object) -> ForkServerProcess:
    """The process, once it has ended an epoch."""
    before = epochs_done(folder)
    process = start(*words, log=log)
    give_up = time.monotonic() + 120
    while epochs_done(folder) == before and process.is_alive():
        assert time.monotonic() < give_up
        before = min(before, epochs_done(folder))
        time.sleep(0.005)
    return process


def signalled(process: ForkServerProcess, log: Path, number: signal.Signals) -> tuple[int, str]:
    """Send a signal, unless the process has ended by itself; the exit code and what was said."""
    if process.pid:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
    return ended(process, log)


def kill_training(place: Path, *, kills: int, signals: int) -> Counts:
    """SIGKILL `kills` times, SIGINT and SIGTERM `signals` times; the end is that of a run left alone, byte for byte."""
    epochs = EPOCHS_PER_KILL * (kills + signals)
    words = ("train", small_graph(place / "graph"), *TRAINING, "--epochs", epochs)
    whole, broken = place / "whole", place / "broken"
    log = place / "log"
    conjoin(*words, "-o", whole, log=log)
    chance = random.Random(kills)
    ends = [signal.SIGKILL] * kills + [signal.SIGINT, signal.SIGTERM] * (signals // 2)
    chance.shuffle(ends)
    lost = lost_by_signal = most = 0
    for number in ends:
        process = begun(broken, log, *words, "-o", broken, "--resume")
        time.sleep(chance.uniform(0, 0.15))
        code, said = signalled(process, log, number)
        assert code == (-number if number == signal.SIGKILL else 128 + number), (code, said)
        done, kept = epochs_done(broken), checkpoint_epoch(broken)
        if number == signal.SIGKILL:
            lost, most = lost + done - kept, max(most, done - kept)
        else:
            assert "--resume" in said, said
            lost_by_signal += done - kept
        assert not RunFolder(broken).finished, "the run ended before it was killed so often: give it more epochs"
    assert lost_by_signal == 0
    conjoin(*words, "-o", broken, "--resume", log=log)
    same_runs(whole, broken)
    return {
        "SIGKILL": kills,
        "SIGINT and SIGTERM": signals,
        "epochs": epochs,
        "epochs run again after a kill, at most": most,
        "epochs run again after a signal": lost_by_signal,
        "runs that ended otherwise than undisturbed": 0,
    }


def checkpoint_epoch(folder: Path) -> int:
    from conjoin.training.checkpoint import load_tensors

    file = RunFolder(folder).checkpoint_file
    return int(load_tensors(file)[1]["progress"]["epoch"]) if file.exists() else 0


def same_runs(whole: Path, broken: Path) -> None:
    """Refuse a run folder that differs from another one in anything but its clocks."""
    for file in WEIGHTS_AND_RANKS:
        assert (whole / file).read_bytes() == (broken / file).read_bytes(), file
    assert _told(RunFolder(whole)) == _told(RunFolder(broken))
    assert {file.name for file in whole.iterdir()} == {file.name for file in broken.iterdir()}


def _told(folder: RunFolder) -> dict[str, Any]:
    """Everything that is said about a run but its clocks."""
    result = {key: value for key, value in folder.result.items() if key not in CLOCKS}
    events = [{key: value for key, value in event.items() if key != "seconds"} for event in folder.events]
    return {"id": folder.run.id, "result": result, "events": events}


def kill_study(place: Path, *, kills: int) -> Counts:
    """A study killed `kills` times ends as one left alone."""
    place.mkdir(parents=True, exist_ok=True)
    file = place / "killed.toml"
    file.write_text(ON_THE_ATLAS.replace("EPOCHS", str(max(8, kills))), encoding="utf-8")
    chance, root, log = random.Random(1), place / "killed", place / "log"
    words = ("study", "run", file, "--device", "cpu")
    for _ in range(kills):
        process = begun(root, log, *words, "--root", root)
        time.sleep(chance.uniform(0, 0.25))
        code, said = signalled(process, log, signal.SIGKILL)
        assert code == -signal.SIGKILL, f"the study ended before it was killed so often: {said}"
    for where in (root, place / "undisturbed"):
        conjoin(*words, "--root", where, log=log)
    study = read_study(file)
    broken, whole = (
        {cell.title: (_told(folder), _ranks(folder)) for cell, folder in finished(study, where)}
        for where in (root, place / "undisturbed")
    )
    assert len(broken) == 4
    assert broken == whole
    assert not list(root.rglob("*.part"))
    assert not list(root.rglob("checkpoint*")), "checkpoints of finished runs stayed"
    return {"SIGKILL": kills, "runs of the study": len(broken), "runs that ended otherwise than undisturbed": 0}


def kill_ingest(place: Path, *, kills: int) -> Counts:
    """An ingestion killed `kills` times and started once more leaves the files of one left alone, and nothing else."""
    chance, log = random.Random(2), place / "log"
    facts = place / "facts.tsv"
    numbers = [[chance.randrange(high) for high in (3000, 20, 3000)] for _ in range(40_000)]
    facts.write_text("".join(f"e{head}\tr{relation}\te{tail}\n" for head, relation, tail in numbers), encoding="utf-8")
    words = ("ingest", facts, "-o")
    whole, broken = place / "whole" / "graph", place / "broken" / "graph"
    for folder in (whole, broken):
        folder.parent.mkdir()
    conjoin(*words, place / "first", log=log)
    began = time.monotonic()
    conjoin(*words, whole, log=log)
    lasted, killed, after, tries = time.monotonic() - began, 0, 0, 0
    while killed < kills:
        process, tries = start(*words, broken, log=log), tries + 1
        give_up = time.monotonic() + 120
        if tries % 2:
            time.sleep(chance.uniform(0, lasted))
        else:  # the moment after the graph is in its place is short: look for it
            while not broken.exists() and process.is_alive():
                assert time.monotonic() < give_up
        code, said = signalled(process, log, signal.SIGKILL)
        assert code in (0, -signal.SIGKILL), said
        killed += code != 0
        after += code != 0 and broken.exists()
        if broken.exists():
            assert _files(broken) == _files(whole), "a killed ingestion left a graph that is not whole"
            shutil.rmtree(broken)
    conjoin(*words, broken, log=log)
    assert _files(broken) == _files(whole)
    assert [file.name for file in broken.parent.iterdir()] == [broken.name], "scraps of killed ingestions stayed"
    return {
        "SIGKILL": killed,
        "of them after the graph was in its place": after,
        "files of the graph": len(_files(whole)),
        "graphs other than undisturbed": 0,
    }


def _files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def _ranks(folder: RunFolder) -> list[bytes]:
    return [folder.ranks_file(split).read_bytes() for split in ("valid", "test")]
