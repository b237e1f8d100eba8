"""Time and memory of an ingest: python -m bench.ingest [--triples 20000000] [--format tsv] [--out results.json]

Writes the graph of bench/big_graph.py to a temporary folder, ingests it by `conjoin ingest` in a separate process,
opens it and deletes it. Memory is the peak of the resident memory of that process, for N-Triples together with its
parser processes. Next to the seconds it records CPU seconds and the load of the machine: on a shared machine only the
CPU seconds are comparable.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import big_graph
from conjoin.runtime.process_memory import resident

EVERY = 0.2


def family_bytes(root: int) -> int:
    """Resident memory of a process and its children now."""
    total, waiting = 0, [root]
    while waiting:
        process = waiting.pop()
        try:
            total += resident(process)
            children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
            waiting.extend(int(child) for child in children)
        except OSError:
            continue
    return total


def measure(file: Path, graph: Path, *, memory: str, threads: int) -> dict[str, Any]:
    """Ingest one file and open the result."""
    words = ["ingest", str(file), "-o", str(graph), "--memory-limit", memory, "--threads", str(threads), "--json"]
    load, start = os.getloadavg()[0], time.perf_counter()
    peak = 0
    with subprocess.Popen([sys.executable, "-m", "conjoin", *words], stdout=subprocess.PIPE, text=True) as work:
        while work.poll() is None:
            peak = max(peak, family_bytes(work.pid))
            time.sleep(EVERY)
        seconds = time.perf_counter() - start
        assert work.stdout is not None
        said = work.stdout.read()
    if work.returncode:
        sys.exit(work.returncode)
    told = json.loads(said)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    opened = time.perf_counter()
    script = "import sys, conjoin; print(len(conjoin.load(sys.argv[1]).train))"
    subprocess.run([sys.executable, "-c", script, str(graph)], check=True, stdout=subprocess.DEVNULL)
    return {
        "format": file.suffix.removeprefix("."),
        "input_bytes": file.stat().st_size,
        "triples": sum(told[split] for split in ("train", "valid", "test")),
        "entities": told["entities"],
        "memory_limit": memory,
        "threads": threads,
        "seconds": seconds,
        "steps": told["seconds"],
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_bytes": max(peak, told["peak_bytes"]),
        "seconds_to_open": time.perf_counter() - opened,
        "load_before": load,
        "cores": os.cpu_count(),
    }


def main() -> None:
    """Measure one size and format."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", type=int, default=20_000_000)
    parser.add_argument("--entities", type=int, default=2_000_000)
    parser.add_argument("--format", choices=("tsv", "nt"), default="tsv")
    parser.add_argument("--memory-limit", default="2GB")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"big.{chosen.format}"
        big_graph.write(file, triples=chosen.triples, entities=chosen.entities)
        told = measure(file, Path(folder) / "graph", memory=chosen.memory_limit, threads=chosen.threads)
    text = json.dumps(told, indent=2)
    print(text)
    if chosen.out:
        chosen.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
