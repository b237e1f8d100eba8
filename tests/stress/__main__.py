"""Everything at its long size: python -m tests.stress [PART …]"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.stress.counts import Counts, record


def _kills(place: Path) -> Counts:
    from tests.stress.kills import kill_training
    from tests.stress.moments import kill_at_every_operation

    one, other = place / "random", place / "every"
    other.mkdir()
    return {**kill_training(one, kills=60, signals=20), **kill_at_every_operation(other, every=1)}


def _studies(place: Path) -> Counts:
    from tests.stress.kills import kill_study

    return kill_study(place, kills=30)


def _ingestion(place: Path) -> Counts:
    from tests.stress.kills import kill_ingest

    return kill_ingest(place, kills=50)


def _power(place: Path) -> Counts:
    from tests.stress.power import cut_everywhere

    return cut_everywhere(place, every=1)


def _storage(place: Path) -> Counts:
    from tests.stress.storage import fill_the_disk

    return fill_the_disk(place, sizes=12)


def _faults(place: Path) -> Counts:
    from tests.stress.faults import fail_every_call
    from tests.stress.interposed import Interposed

    with Interposed(place / "one") as one, Interposed(place / "two") as two:
        return fail_every_call(place, [one, two], every=1)


def _corruption(place: Path) -> Counts:
    from tests.stress.corruption import corrupt_every_kind

    return corrupt_every_kind(place, values=255, body=200)


def _fuzz(place: Path) -> Counts:
    from tests.stress.fuzz import fuzz_everything

    return fuzz_everything(place, seconds=15)


def _graphs(place: Path) -> Counts:
    from tests.stress.graphs import odd_graphs

    return odd_graphs(place, relations=1_000_000)


def _attack(place: Path) -> Counts:
    from tests.stress.service import attacked

    return attacked(_served(place), requests=5_000, slow=300)


def _lockout(place: Path) -> Counts:
    from tests.stress.lockout import lock_out

    return lock_out(_served(place))


def _soak(place: Path) -> Counts:
    from tests.stress.service import soak

    return soak(_served(place), seconds=600)


def _served(place: Path) -> Path:
    from tests.stress.processes import conjoin

    conjoin("train", "atlas", "--rank", 32, "--epochs", 5, "-o", place / "run", log=place / "log")
    return place / "run"


MEMORY = Path("/dev/shm")
"""Where there is a file system in memory, thousands of runs need not wait for a disk."""
PARTS: dict[str, Callable[[Path], Counts]] = {
    "kills": _kills,
    "studies": _studies,
    "ingestion": _ingestion,
    "power": _power,
    "storage": _storage,
    "faults": _faults,
    "corruption": _corruption,
    "fuzz": _fuzz,
    "graphs": _graphs,
    "attack": _attack,
    "lockout": _lockout,
    "soak": _soak,
}


def main() -> None:
    chosen = sys.argv[1:] or list(PARTS)
    if unknown := set(chosen) - set(PARTS):
        raise SystemExit(f"unknown part {', '.join(sorted(unknown))}: choose from {', '.join(PARTS)}")
    for part in chosen:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
            counts = PARTS[part](Path(place))
        record(part, "long", counts)
        print(f"{part}: {time.monotonic() - began:.0f} s, {dict(counts)}", flush=True)


if __name__ == "__main__":
    main()
