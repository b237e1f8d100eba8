"""Disks that are full: a real small file system where we may mount one, else a limit on the size of files."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.stress.counts import Counts
from tests.stress.kills import WEIGHTS_AND_RANKS, small_graph
from tests.stress.processes import conjoin, ended, start

TRAINING = ("--rank", 8, "--epochs", 6, "--batch", 100, "--validate-every", 2, "--device", "cpu")


@contextmanager
def small_disk(place: Path, kilobytes: int) -> Iterator[bool]:
    """A file system of that size at `place`, or False where nobody may mount one."""
    place.mkdir(parents=True, exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(place)]
    try:
        mounted = os.geteuid() == 0 and subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(place)], check=True)


def fill_the_disk(place: Path, *, sizes: int) -> Counts:
    """Train on disks that fill up at different moments; once there is room, go on and end as ever."""
    words = ("train", small_graph(place / "graph"), *TRAINING)
    whole, log = place / "whole", place / "log"
    conjoin(*words, "-o", whole, log=log)
    most = sum(file.stat().st_size for file in whole.rglob("*")) // 1024
    full = kinds = 0
    for number in range(sizes):
        kilobytes = 8 + number * (most + 40) // sizes
        with small_disk(place / "disk", kilobytes) as mounted:
            run = place / "disk" / f"run-{number}"
            limit = None if mounted else partial(limit_files, kilobytes)
            code, said = ended(start(*words, "-o", run, "--resume", log=log, prepare=limit), log)
            kinds += mounted
            if code:
                full += 1
                assert code in (1, 2), (code, said)
                assert "Traceback" not in said, said
                assert "No space left" in said or "File too large" in said, said
                assert not (run / "result.json").exists()
                assert not list(run.glob(".*.part")), "half-written files take the room that is missing"
            if mounted:
                subprocess.run(["mount", "-o", "remount,size=64m", str(place / "disk")], check=True)
            conjoin(*words, "-o", run, "--resume", log=log)
            for file in WEIGHTS_AND_RANKS:
                assert (run / file).read_bytes() == (whole / file).read_bytes(), (kilobytes, file)
    assert full
    return {
        "disks": sizes,
        "of them full before the end": full,
        "real file systems": kinds,
        "runs that ended otherwise than with room": 0,
    }


def limit_files(kilobytes: int) -> None:
    """In a child: no file larger than a quarter of that, and an error instead of a signal."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes * 256, kilobytes * 256))
