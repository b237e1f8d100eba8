"""Every kind of file that Conjoin writes and reads back: where one lies, where its header is, and how it is read.

`specimens` makes a folder in which each kind occurs; test_stress.py walks it after every verb and fails on a file that
no kind claims.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from tests.stress.kills import small_graph

Reader = Callable[[Path], Any]
"""From the file to everything that is read of it, as something that can be compared."""


def study_text(*, rank: int, batch: int) -> str:
    """A study of one run on the graph beside it."""
    return f"""
name = "own"
seeds = 1
rows = [{{ name = "complex", form = "complex" }}]

[datasets.own]
graph = "graph"

[settings.own]
complex = {{ rank = {rank}, epochs = 2, batch = {batch} }}
"""


@dataclass(frozen=True)
class Kind:
    """`pattern` is matched against the path within the folder of specimens. `header` gives the places whose every
    corruption is tried; `neglects` names a damage that changes nothing that anyone reads."""

    name: str
    pattern: str
    read: Reader
    header: Callable[[bytes], range]
    neglects: bool = False
    cheap: bool = True


def specimens(place: Path) -> Path:
    """Run the verbs that leave files; everything lies below the folder that is returned."""
    from tests.stress.processes import conjoin

    log, root = place / "log", place / "all"
    graph = small_graph(root / "graph")
    words = ("train", graph, "--rank", 4, "--epochs", 3, "--batch", 200, "--validate-every", 1, "--device", "cpu")
    conjoin(*words, "-o", root / "run", log=log)
    conjoin("calibrate", root / "run", "--fewest", 5, log=log)
    (root / "study.toml").write_text(study_text(rank=4, batch=200), encoding="utf-8")
    conjoin("study", "run", root / "study.toml", "--root", root / "results", "--device", "cpu", log=log)
    conjoin("study", "report", root / "study.toml", "--root", root / "results", "-o", root / "report", log=log)
    _found_patterns(root)
    conjoin("ingest", graph, "-o", root / "ingested", log=log)
    _half_done(graph, root / "half")
    _sharded(root / "shards")
    _mapped(root / "run")
    _failed(root / "results")
    return root


def _found_patterns(root: Path) -> None:
    from conjoin.studies.parse import read_study
    from conjoin.studies.pattern_groups import pattern_groups

    pattern_groups(read_study(root / "study.toml"), "own", root / "results")


def _half_done(graph: Path, folder: Path) -> None:
    from conjoin.datasets.load import load
    from conjoin.errors import Stopped
    from conjoin.runs.execute import ExecutionOptions, execute
    from conjoin.runs.run import Run
    from conjoin.training.recipe import Recipe

    loaded = load(str(graph))
    asked = iter(range(100))
    run = Run.of(loaded, "complex", rank=4, recipe=Recipe(epochs=4, batch=200))
    with suppress(Stopped):
        execute(run, loaded, folder, conduct=ExecutionOptions(stop=lambda: next(asked) == 8))


def _training() -> Any:
    from conjoin.graph.graph import Graph
    from conjoin.model.model import Model
    from conjoin.training.loop import Training
    from conjoin.training.recipe import Recipe

    facts = [(f"head {i % 7}", f"relation {i % 2}", f"tail {i % 5}") for i in range(35)]
    graph = Graph.from_triples(facts)
    model = Model("complex-conj", graph.n_entities, graph.n_relations, rank=4)
    return Training(model, graph, Recipe(epochs=4, batch=20))


def _sharded(folder: Path) -> None:
    """What several processes leave: one of them writes the same files."""
    from conjoin.training.checkpoint_distributed import save_shards

    training = _training()
    next(training)
    save_shards(folder, training)


_reused = cache(_training)


def _blank() -> Any:
    """A training that has forgotten everything: making one takes longer than reading."""
    from conjoin.training.loop import Progress

    training = _reused()
    training.progress, training.best_weights = Progress(), {}
    training.step.optimizer.state.clear()
    for part in training.model.parameters():
        part.detach().fill_(0)
    return training


def _shards(file: Path) -> Any:
    from conjoin.training.checkpoint_distributed import load_shards

    training = _blank()
    load_shards(file.parent, training)
    state = str(dict(training.step.optimizer.remembered()))
    return [part.tolist() for part in training.model.parameters()], training.progress, state


def _mapped(run: Path) -> None:
    from conjoin.server.projection import projection_of

    projection_of(_opened(run))


def _opened(run: Path) -> Any:
    from conjoin.server.open_runs import open_runs
    from conjoin.server.settings import ServerSettings

    return next(iter(open_runs([run], settings=ServerSettings()).runs.values()))


@cache
def _served(run: Path) -> Any:
    return _opened(run)


def _failed(results: Path) -> None:
    from conjoin.runtime.atomic_files import write_json

    run = next(results.rglob("result.json")).parent
    write_json(run / "failed.json", {"kind": "Diverged", "reason": "the loss is not finite", "time": "2026-11-15"})


def start_of(data: bytes) -> range:
    """Of text, and of archives whose parts have headers of their own: the first 256 bytes."""
    return range(min(256, len(data)))


def safetensors_header(data: bytes) -> range:
    return range(8 + struct.unpack("<Q", data[:8])[0])


def parquet_footer(data: bytes) -> range:
    return range(len(data) - 8 - struct.unpack("<I", data[-8:-4])[0], len(data))


def _tensors(file: Path) -> Any:
    from conjoin.training.checkpoint import load_tensors

    tensors, words = load_tensors(file)
    return {name: tensor.tolist() for name, tensor in tensors.items()}, words


def _weights(file: Path) -> Any:
    from conjoin.runs.folder import RunFolder

    RunFolder(file.parent).verify(file)
    return _tensors(file)


def _folder(file: Path) -> Any:
    from conjoin.runs.folder import RunFolder

    return RunFolder(file.parent)


def _events_so_far(file: Path) -> Any:
    """As resuming reads them."""
    folder = _folder(file)
    _, words = _tensors(folder.checkpoint_file)
    folder.keep_events_until(words["progress"]["epoch"], expected=words["events"])
    return folder.events


def _ranks(file: Path) -> Any:
    ranks = _folder(file).ranks(file.stem.removeprefix("ranks-"))
    return [getattr(ranks, column).tolist() for column in ("head", "relation", "tail", "direction", "better", "tied")]


def _questions(file: Path) -> Any:
    """As the ranks of a run read them."""
    from conjoin.evaluation.ranks import _shared_questions

    ranks, reference = _reference(file)
    return {name: column.to_pylist() for name, column in _shared_questions(ranks, *reference.rsplit(" ", 1)).items()}


@cache
def _reference(file: Path) -> tuple[Path, str]:
    """The ranks that refer to a file of questions, and their words for it."""
    import pyarrow.parquet as pq

    from conjoin.evaluation.ranks import QUESTIONS

    ranks = next(file.parent.rglob(f"{file.stem.replace('questions', 'ranks').rpartition('-')[0]}.parquet"))
    return ranks, pq.ParquetFile(ranks).schema_arrow.metadata[QUESTIONS].decode()


def _graph(file: Path) -> Any:
    from conjoin.io.graph_store import open_graph

    graph = open_graph(file.parent)
    names = [(list(words.names), list(words.labels)) for words in (graph.entities, graph.relations)]
    return graph.name, graph.notes, names, graph.train.tolist(), graph.test.tolist()


@cache
def _opened_graph(folder: Path) -> Any:
    from conjoin.io.graph_store import open_graph

    return open_graph(folder)


def _calibration(file: Path) -> Any:
    from conjoin.runs.calibration_curves import read_calibration

    folder = _folder(file)
    found = read_calibration(folder, _opened_graph(folder.graph_folder), "last")
    assert found is not None
    return json.dumps([found.pooled.to_json(), {r: c.to_json() for r, c in found.own.items()}, dict(found.about)])


def _map(file: Path) -> Any:
    from conjoin.server.projection import projection_of

    return projection_of(_served(file.parent)).points.tolist()


def _study(file: Path) -> Any:
    from conjoin.studies.parse import read_study

    return read_study(next(parent for parent in file.parents if (parent / "study.toml").exists()) / "study.toml")


def _cell(file: Path) -> Any:
    from conjoin.studies.status import cell_status

    study = _study(file)
    found = cell_status(study.cells()[0], file.parents[4])
    if found.state != "done":
        from conjoin.errors import RunError

        raise RunError(found.reason)
    return found.state


def _facts(file: Path) -> Any:
    from conjoin.studies.status import graph_facts

    return dict(graph_facts(_study(file), "own", file.parents[2]))


def _patterns(file: Path) -> Any:
    from conjoin.studies.pattern_groups import pattern_groups

    found = pattern_groups(_study(file), "own", file.parents[2])
    assert found is not None
    return {name: ids.tolist() for name, ids in found.relations.items()}, dict(found.pairs), dict(found.rules)


def _report(file: Path) -> Any:
    from conjoin.errors import RunError
    from conjoin.server.routes.studies import read_report

    found = read_report(file)
    if found is None:
        raise RunError(f"{file} is not a report: it is not served")
    return found


def _failure(file: Path) -> Any:
    from conjoin.studies.status import failure

    return bool(failure(_folder(file)))


KINDS = (
    Kind("settings of a run", "*/run.json", lambda file: _folder(file).run, start_of),
    Kind("result of a run", "*/result.json", lambda file: _folder(file).result, start_of),
    Kind("events of a finished run", "r*/events.jsonl", lambda file: _folder(file).events, start_of),
    Kind("events of a run under way", "half/events.jsonl", _events_so_far, start_of),
    Kind("weights", "*/[mb]*.safetensors", _weights, safetensors_header),
    Kind("checkpoint", "*/checkpoint.safetensors", _tensors, safetensors_header),
    Kind("ranks", "*/ranks-*.parquet", _ranks, parquet_footer),
    Kind("shared questions", "*/questions-*.parquet", _questions, parquet_footer),
    Kind("calibration", "*/calibration.json", _calibration, start_of),
    Kind("graph: tables", "*/graph/*.parquet", _graph, parquet_footer),
    Kind("graph: record", "*/graph/graph.json", _graph, start_of),
    Kind("ingested graph: names", "ingested/entity_names.npy", _graph, start_of),
    Kind("ingested graph: starts of names", "ingested/entity_starts.npy", _graph, start_of),
    Kind("ingested graph: facts", "ingested/t*.npy", _graph, start_of),
    Kind("ingested graph: relations", "ingested/relations.parquet", _graph, parquet_footer),
    Kind("ingested graph: record", "ingested/graph.json", _graph, start_of),
    Kind("checkpoint of several processes: tensors", "shards/*/*.safetensors", _shards, safetensors_header),
    Kind("checkpoint of several processes: index", "shards/*/*.json", _shards, start_of),
    Kind("map of the entities", "*/map-*.npz", _map, start_of, cheap=False),
    Kind("study: graph", "results/own/own/graph.json", _facts, start_of),
    Kind("study: patterns", "results/own/own/patterns.json", _patterns, start_of),
    Kind("study: report", "report/report.json", _report, start_of),
    Kind("study: cell", "*/cell.json", _cell, start_of, neglects=True),
    Kind("study: failure", "*/failed.json", _failure, start_of, neglects=True),
)
UNSEALED = {
    "*/.lock": "empty",
    "report/*": "for people and other programs",
    "ingested/valid.npy": "as the other facts",
    "ingested/*.parquet": "for other programs: Conjoin reads the arrays beside it, whose sha256 it checks",
    "graph/*.txt": "the user's own text, before a run: a run keeps its own sealed copy",
    "*.toml": "the user's own text",
}
"""What no checksum guards, and why."""


def kind_of(path: str) -> Kind | str | None:
    """The kind that a path within the specimens belongs to, or why it needs none."""
    for kind in KINDS:
        if fnmatch(path, kind.pattern):
            return kind
    return next((reason for pattern, reason in UNSEALED.items() if fnmatch(path, pattern)), None)
