"""Kill one of four processes during an epoch and check that the run ends with the same result:

    python -m bench.kill_one        (writes bench/results/kill_one_<cores>cores_<date>.json)

Starts two runs under torchrun: one without a kill, and one in which a process is killed and --max-restarts starts the
run again. Prints how long the other processes took to stop, and both results.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

from conjoin.runs.folder import RunFolder

RESULTS = Path(__file__).resolve().parent / "results"


def started(run: Path, chosen: argparse.Namespace) -> subprocess.Popen[str]:
    """Start torchrun with `chosen.processes` processes and one allowed restart."""
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "1"]
    words += ["--nproc-per-node", str(chosen.processes), "-m", "conjoin", "train", chosen.data, "--rank", "16"]
    words += ["--epochs", str(chosen.epochs), "--checkpoint-epochs", "1", "--device", "cpu", "-o", str(run)]
    return subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def children(pid: int) -> list[int]:
    """Child processes of a process (Linux)."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == pid:
            found.append(int(status.parent.name))
    return sorted(found)


def killed(run: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """Kill the third process after the second epoch and wait for the end."""
    torchrun = started(run, chosen)
    while len(list(run.glob("checkpoint/00000[2-9]/index.json"))) == 0:
        assert torchrun.poll() is None, torchrun.communicate()[1]
        time.sleep(0.01)
    first = children(torchrun.pid)
    time.sleep(chosen.delay)
    os.kill(first[2 % len(first)], signal.SIGKILL)
    began = time.monotonic()
    while set(children(torchrun.pid)) & set(first):
        time.sleep(0.01)
    stopped = time.monotonic() - began
    said = torchrun.communicate()[1]
    told = [line for line in said.splitlines() if "another process of this run has ended" in line]
    return {"code": torchrun.returncode, "seconds_until_all_had_stopped": stopped, "said": told[:1]}


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="umls")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--delay", type=float, default=0.3, help="seconds into the epoch")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        undisturbed, disturbed = Path(scratch, "undisturbed"), Path(scratch, "disturbed")
        report = killed(disturbed, chosen)
        plain = started(undisturbed, chosen)
        assert plain.wait() == 0, plain.communicate()[1]
        results = [RunFolder(run).result for run in (undisturbed, disturbed)]
        report["mrr"] = [result["test"]["mrr"] for result in results]
        report["epochs"] = [result["epochs"] for result in results]
        report["same_weights"] = len({result["files"]["model.safetensors"] for result in results}) == 1
    report |= {"data": chosen.data, "processes": chosen.processes}
    out = RESULTS / f"kill_one_{os.cpu_count()}cores_{date.today().isoformat()}.json"
    out.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
