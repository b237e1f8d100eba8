"""Open, ask and report forged runs and studies, with the tools of `tests.stress.forged`."""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.stress.forged import CHANGES, altered, contents, copied, kept, write_sealed
from tests.stress.kinds import study_text
from tests.stress.target import Reading, Target


def _finished(place: Path) -> None:
    import numpy as np

    from conjoin.graph.graph import Graph
    from conjoin.runs.calibration_curves import Calibration, Sigmoid, Steps, write_calibration
    from conjoin.runs.execute import execute
    from conjoin.runs.run import Run
    from conjoin.training.recipe import Recipe

    facts = [(f"e{i % 5}", f"r{i % 2}", f"e{(3 * i + 1) % 7}") for i in range(20)]
    graph = Graph.from_triples(facts[4:], facts[:2], facts[2:4], name="own")
    run = execute(Run.of(graph, "complex", rank=2, recipe=Recipe(epochs=2, batch=8)), graph, place / "run")
    steps = Steps(np.array([0.0, 1.0]), np.array([0.1, 0.9]))
    write_calibration(run, graph, Calibration(steps, {1: Sigmoid(1.0, 0.0)}, {"by": "hand"}, {}), weights="last")


def _asked(name: str) -> Reading:
    """One sealed JSON of a finished run altered; then the run is opened and asked."""

    def read(data: bytes, scratch: Path) -> None:
        from conjoin.predict.predictor import open_run

        folder = copied(_finished, scratch) / "run"
        write_sealed(folder / name, altered(json.loads((folder / name).read_bytes()), data))
        opened = open_run(folder)
        for relation in ("r0", "r1"):
            opened.ask("e1", relation, k=20)

    return read


def _reported(data: bytes, scratch: Path) -> None:
    """The same result as reports read it."""
    from conjoin.runs.folder import RunFolder

    folder = RunFolder(copied(_finished, scratch) / "run")
    write_sealed(folder.result_file, altered(json.loads(folder.result_file.read_bytes()), data))
    _ = folder.events, folder.ranks("test").metrics(), folder.result["test"], folder.result["parameters"]


def _swapped(name: str) -> Reading:
    """Another file under its name, and its checksum in result.json."""

    def read(data: bytes, scratch: Path) -> None:
        from conjoin.predict.predictor import open_run
        from conjoin.runs.folder import RunFolder
        from conjoin.runtime.atomic_files import sha256_of

        folder = RunFolder(copied(_finished, scratch) / "run")
        (folder.path / name).write_bytes(data)
        result = json.loads(folder.result_file.read_bytes())
        result["files"][name] = sha256_of(folder.path / name)
        write_sealed(folder.result_file, result)
        _ = folder.events, folder.ranks("test").metrics()
        open_run(folder.path).ask("e1", "r1", k=2)

    return read


@cache
def _opened() -> Any:
    from conjoin.server.open_runs import open_runs
    from conjoin.server.settings import ServerSettings

    return next(iter(open_runs([kept(_finished) / "run"], settings=ServerSettings()).runs.values()))


def _map(data: bytes, _: Path) -> None:
    from conjoin.server.projection import projection_of

    (kept(_finished) / "run" / "map-pca-last.npz").write_bytes(data)
    projection_of(_opened())


def _example_map() -> bytes:
    from conjoin.server.projection import projection_of

    projection_of(_opened())
    return (kept(_finished) / "run" / "map-pca-last.npz").read_bytes()


def _studied(place: Path) -> None:
    from conjoin.datasets.load import load
    from conjoin.runtime.atomic_files import write_json
    from conjoin.studies.parse import read_study
    from conjoin.studies.pattern_groups import pattern_groups
    from conjoin.studies.worker import WorkerOptions, run_cells

    (place / "graph").mkdir()
    for split, first, last in (("train", 4, 20), ("valid", 0, 2), ("test", 2, 4)):
        lines = [f"e{i % 5}\tr{i % 2}\te{(3 * i + 1) % 7}\n" for i in range(first, last)]
        (place / "graph" / f"{split}.txt").write_text("".join(lines), encoding="utf-8")
    (place / "study.toml").write_text(study_text(rank=2, batch=8), encoding="utf-8")
    study = read_study(place / "study.toml")
    load(study.source("own"))
    for outcome in run_cells(study, study.cells(), place / "results", means=WorkerOptions()):
        told = {"kind": "Diverged", "reason": "the loss is not finite", "time": "2026-11-15"}
        write_json(outcome.folder.path / "failed.json", told)
    pattern_groups(study, "own", place / "results")


def _of_a_study(name: str, *, sealed: bool) -> Reading:
    """A small file of a study altered; then the study is surveyed and collected."""

    def read(data: bytes, scratch: Path) -> None:
        from conjoin.report.collect import collect
        from conjoin.runtime.atomic_files import write_json
        from conjoin.studies.parse import read_study
        from conjoin.studies.pattern_groups import pattern_groups
        from conjoin.studies.status import study_status

        folder = copied(_studied, scratch)
        study, root = read_study(folder / "study.toml"), folder / "results"
        file = next(root.rglob(name))
        if name == "failed.json":
            (file.parent / "result.json").unlink()
        value = altered(json.loads(file.read_bytes()), data)
        if sealed:
            write_sealed(file, value)
        else:
            write_json(file, value)
        study_status(study, root)
        for outcome in collect(study, root).outcomes.values():
            outcome.moments("mrr")
        pattern_groups(study, "own", root)

    return read


def targets() -> list[Target]:
    """All of them."""
    return [
        Target("run.json, altered", _asked("run.json"), CHANGES),
        Target("result.json, altered", _asked("result.json"), CHANGES),
        Target("result.json, altered, in a report", _reported, CHANGES),
        Target("calibration.json, altered", _asked("calibration.json"), CHANGES),
        Target("weights, sealed", _swapped("model.safetensors"), partial(contents, _finished, "run/model.safetensors")),
        Target("ranks, sealed", _swapped("ranks-test.parquet"), partial(contents, _finished, "run/ranks-test.parquet")),
        Target("events, sealed", _swapped("events.jsonl"), partial(contents, _finished, "run/events.jsonl")),
        Target("maps", _map, _example_map),
        Target("study: graph.json, altered", _of_a_study("graph.json", sealed=True), CHANGES),
        Target("study: patterns.json, altered", _of_a_study("patterns.json", sealed=True), CHANGES),
        Target("study: cell.json, altered", _of_a_study("cell.json", sealed=False), CHANGES),
        Target("study: failed.json, altered", _of_a_study("failed.json", sealed=False), CHANGES),
    ]
