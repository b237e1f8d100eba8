"""Measure the time of finding patterns: python -m bench.patterns [GRAPH ...] [--times 3] [-o FILE.json]

Starts `conjoin patterns GRAPH --json` as a separate process and measures wall time and processor time. It records the
load before each start, because other work on the machine increases wall time much more than processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

GRAPHS = ("fb15k", "fb15k-237", "wn18rr", "wn18")
PROGRAM = """
import sys
from conjoin.cli import main
from conjoin.runtime.process_memory import most_resident
try:
    main()
finally:
    print(most_resident(), file=sys.stderr)
"""
"""The program; it prints its own peak memory as the last line, because the peak from wait4 can be the parent's."""


def timed(graph: str) -> dict[str, float]:
    """One run: seconds of wall and processor time, peak memory, and the load before."""
    load = os.getloadavg()[0]
    begin = time.perf_counter()
    command = [sys.executable, "-c", PROGRAM, "patterns", graph, "--json"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        said = child.stderr.readlines()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"conjoin patterns {graph} ended with {child.returncode}")
    return {
        "wall_seconds": round(time.perf_counter() - begin, 2),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 2),
        "peak_bytes": int(said[-1]),
        "load_before": round(load, 2),
    }


def main() -> None:
    """Measure and write one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", default=list(GRAPHS), help="names of datasets, or files")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("-o", "--out", type=Path)
    chosen = parser.parse_args()
    cores = os.cpu_count() or 1
    graphs = {graph: [timed(graph) for _ in range(chosen.times)] for graph in chosen.graphs}
    told = {"date": date.today().isoformat(), "cores": cores, "graphs": graphs}
    out = chosen.out or Path(f"bench/results/patterns_{cores}cores_{told['date']}.json")
    out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main()
