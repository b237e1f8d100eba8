"""Compare the planner's memory with measured peaks: python -m bench.plan [--device cuda] [--only NAME] [--out FILE]

`conjoin.execute` trains every configuration for two epochs and ranks it, in a separate process each. On a CPU the
measured value is the peak of resident memory minus the memory before the run, with the graph loaded and after a tiny
run of the same kind, so that all libraries are loaded. On a GPU it is torch's peak of allocated memory.

Each result is stored when it is ready. A configuration in FILE is planned again but not measured again, unless --afresh
is set. No configuration is started after --seconds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Configuration:
    """One row of the table."""

    name: str
    entities: int
    relations: int
    train: int
    form: str
    rank: int
    batch: int
    optimizer: str = "adagrad"
    held_out: int = 100
    validates: bool = False
    precision: str = "fp32"


CPU = (
    Configuration("wide table, dense scores", 200_000, 100, 100, "5star-conj", 64, 100),
    Configuration("wide table, chunked scores", 300_000, 20, 250, "complex", 50, 500),
    Configuration("Adam, best weights kept", 100_000, 20, 250, "5star", 100, 500, "adam", 100, True),
    Configuration("many triples", 500, 50, 1_000_000, "complex-conj", 8, 100_000),
    Configuration("more than a span", 500, 50, 5_000_000, "complex-conj", 8, 100_000),
    Configuration("many relations", 10_000, 30_000, 500, "5star", 100, 1_000),
    Configuration("large batch of 5★E", 14_541, 237, 1_000, "5star-conj", 200, 1_000, "adagrad", 500),
    Configuration("larger batch of 5★E", 2_000, 50, 5_000, "5star", 500, 2_000),
)
GPU = (
    Configuration("wide table, dense scores", 1_000_000, 100, 2_000, "5star-conj", 100, 200),
    Configuration("bf16, wide table", 1_000_000, 100, 4_000, "5star-conj", 100, 1_000, precision="bf16"),
    Configuration("bf16, more than a span", 20_000, 50, 3_000_000, "complex-conj", 50, 50_000, precision="bf16"),
    Configuration("tf32, wide table", 500_000, 100, 4_000, "complex", 200, 1_000, precision="tf32"),
    Configuration("wide table, in tiles", 2_000_000, 20, 4_000, "complex", 200, 1_000),
    Configuration("Adam, best weights kept", 1_000_000, 20, 4_000, "5star", 200, 500, "adam", 100, True),
    Configuration("FB15K-237 at the paper's rank", 14_541, 237, 272_115, "5star-conj", 500, 1_000, "adagrad", 17_000),
)


def measure(chosen: Configuration, device: str) -> dict[str, Any]:
    """Plan and train one configuration in this process."""
    import numpy as np
    import torch

    import conjoin
    from conjoin.graph.graph import Graph, Vocabulary
    from conjoin.runs.execute import ExecutionOptions, execute
    from conjoin.runs.run import Run
    from conjoin.runtime.device import peak_bytes, reset_peak
    from conjoin.runtime.process_memory import resident

    random = np.random.default_rng(0)

    def facts(count: int) -> Any:
        ends = random.integers(0, chosen.entities, (2, count))
        return np.stack([ends[0], random.integers(0, chosen.relations, count), ends[1]], axis=1)

    entities, relations = (tuple(map(str, range(n))) for n in (chosen.entities, chosen.relations))
    graph = Graph(
        Vocabulary("entity", entities),
        Vocabulary("relation", relations),
        facts(chosen.train),
        facts(chosen.held_out),
        facts(chosen.held_out),
    )
    tiny = Graph.from_triples([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a")], [("a", "r", "c")], [("b", "r", "a")])
    with tempfile.TemporaryDirectory() as folder:
        for number, each in enumerate((tiny, graph)):
            recipe = conjoin.Recipe(
                epochs=2,
                batch=chosen.batch,
                optimizer=chosen.optimizer,  # type: ignore[arg-type]
                validate_every=int(chosen.validates),
                precision=chosen.precision,  # type: ignore[arg-type]
            )
            run = Run.of(each, chosen.form, rank=chosen.rank if number else 4, recipe=recipe)
            place = torch.device(device)
            before = resident() if device == "cpu" else 0
            reset_peak(place)
            execute(run, each, Path(folder) / str(number), conduct=ExecutionOptions(device=device))
            peak = peak_bytes(place) - before
    return asdict(chosen) | {"measured": peak}


def with_plan(row: dict[str, Any], device: str) -> dict[str, Any]:
    """A measured row with the current estimate of the planner."""
    import conjoin
    from conjoin.planning.memory_model import PlannedSetting, PlannedSizes, memory

    chosen = Configuration(**{field.name: row[field.name] for field in fields(Configuration)})
    sizes = PlannedSizes(
        entities=chosen.entities,
        relations=chosen.relations,
        train=chosen.train,
        valid=chosen.held_out,
        test=chosen.held_out,
    )
    setting = PlannedSetting(
        form=conjoin.form(chosen.form),
        rank=chosen.rank,
        batch=chosen.batch,
        optimizer=chosen.optimizer,  # type: ignore[arg-type]
        validates=chosen.validates,
        precision=chosen.precision,
        device=device,  # type: ignore[arg-type]
    )
    planned, measured = memory(sizes, setting).peak, row["measured"]
    return {**asdict(chosen), "planned": planned, "measured": measured, "off": planned / measured - 1}


def measured_apart(chosen: Configuration, device: str) -> dict[str, Any]:
    """`measure` in a separate process."""
    words = [sys.executable, __file__, "--device", device, "--one", json.dumps(asdict(chosen))]
    told = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = [
        "| configuration | form | rank | batch | planned MB | measured MB | off |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = [row["name"], row["form"], row["rank"], row["batch"]]
        cells += [f"{row['planned'] / 1e6:,.0f}", f"{row['measured'] / 1e6:,.0f}", f"{100 * row['off']:+.1f} %"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure all configurations, or one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--one", help="a configuration as JSON; prints its row")
    parser.add_argument("--out", type=Path, help="write the rows there as JSON, and a table beside it as .md")
    parser.add_argument("--only", action="append", help="name of a configuration; repeat the option for several")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no configuration after this time")
    parser.add_argument("--afresh", action="store_true", help="measure the configurations in the file again")
    given = parser.parse_args()
    if given.one:
        known = {field.name for field in fields(Configuration)}
        wanted = {key: value for key, value in json.loads(given.one).items() if key in known}
        print(json.dumps(with_plan(measure(Configuration(**wanted), given.device), given.device)))
        return
    kept = json.loads(given.out.read_text()) if given.out and given.out.exists() and not given.afresh else []
    rows = [with_plan(row, given.device) for row in kept]
    began = time.monotonic()
    for chosen in CPU if given.device == "cpu" else GPU:
        left_out = given.only and chosen.name not in given.only
        if left_out or chosen.name in {row["name"] for row in rows} or time.monotonic() - began > given.seconds:
            continue
        rows.append(measured_apart(chosen, given.device))
        print(table(rows[-1:]).splitlines()[-1], flush=True)
        if given.out:
            keep(rows, given.out, given.device)
    if given.out:
        keep(rows, given.out, given.device)


def keep(rows: list[dict[str, Any]], out: Path, device: str) -> None:
    """Write the rows as JSON, and as a table to the .md file of the same name."""
    out.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    command = f"`python -m bench.plan --device {device}`"
    out.with_suffix(".md").write_text(f"Written by {command}.\n\n{table(rows)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
