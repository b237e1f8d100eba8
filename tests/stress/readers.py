"""Everything that reads bytes of unknown origin, as functions of bytes, with a good example of each.

Reading ends, or raises a ConjoinError; anything else is a finding. `behind` the checksums: what is inside a sealed file
is also tried with the seal put right, as someone would who forges it.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.stress import forged, forged_runs
from tests.stress.target import Target


def _graph_file(name: str, **options: Any) -> Callable[[bytes, Path], None]:
    def read(data: bytes, scratch: Path) -> None:
        from conjoin.io.read_options import ReadOptions
        from conjoin.io.readers import read_triples

        file = scratch / name
        file.write_bytes(data)
        triples, _ = read_triples(file, ReadOptions(**options))
        for _ in triples:
            pass

    return read


def _labels(data: bytes, scratch: Path) -> None:
    from conjoin.io.labels import read_labels

    file = scratch / "labels.tsv"
    file.write_bytes(data)
    read_labels(file)


def _form(data: bytes, _: Path) -> None:
    from conjoin.forms.notation import parse, short

    form = parse(data.decode("utf-8", errors="replace"))
    assert parse(str(form)) == form
    short(form)


def _study(data: bytes, scratch: Path) -> None:
    from conjoin.studies.parse import read_study

    file = scratch / "study.toml"
    file.write_bytes(data)
    read_study(file).cells()


def _settings(data: bytes, scratch: Path) -> None:
    from conjoin.training.search_space import read_block

    file = scratch / "settings.toml"
    file.write_bytes(data)
    read_block(file, "own", "ComplEx()")


def _grid(data: bytes, scratch: Path) -> None:
    from conjoin.training.search_space import grid_of

    file = scratch / "grid.toml"
    file.write_bytes(data)
    grid_of(str(file))


def _run(data: bytes, scratch: Path) -> None:
    from conjoin.runs.folder import RunFolder

    (scratch / "run.json").write_bytes(data)
    _ = RunFolder(scratch).run


def _sealed(name: str, read: Callable[[bytes, Path], None]) -> Callable[[bytes, Path], None]:
    """The same, with the bytes as an object whose seal is right."""

    def behind(data: bytes, scratch: Path) -> None:
        from conjoin.runtime.atomic_files import write_sealed

        with suppress(ValueError, RecursionError, UnicodeDecodeError):
            value = json.loads(data)
            if isinstance(value, dict):
                value.pop("sha256", None)
                write_sealed(scratch / name, value)
                read((scratch / name).read_bytes(), scratch)

    return behind


def _events(data: bytes, scratch: Path) -> None:
    from conjoin.runs.folder import RunFolder

    (scratch / "events.jsonl").write_bytes(data)
    folder = RunFolder(scratch)
    folder.keep_events_until(min(2, len(folder.events)))


def _result(data: bytes, scratch: Path) -> None:
    from conjoin.runs.folder import RunFolder

    (scratch / "result.json").write_bytes(data)
    (scratch / "events.jsonl").write_bytes(b"")
    try:
        _ = RunFolder(scratch).events
    finally:
        (scratch / "result.json").unlink()


def _tensors(data: bytes, scratch: Path) -> None:
    from conjoin.training.checkpoint import load_tensors

    file = scratch / "model.safetensors"
    file.write_bytes(data)
    load_tensors(file)


def _checkpoint(data: bytes, scratch: Path) -> None:
    """The words of a checkpoint, sealed as they are."""
    from conjoin.training.checkpoint import load_checkpoint, save_checkpoint, save_tensors

    training = _training()
    file = scratch / "checkpoint.safetensors"
    save_checkpoint(file, training)
    from conjoin.training.checkpoint import load_tensors

    tensors, _ = load_tensors(file)
    with suppress(ValueError, RecursionError, UnicodeDecodeError):
        words = json.loads(data)
        if isinstance(words, dict):
            words.pop("sha256", None)
            save_tensors(file, tensors, words)
            load_checkpoint(file, training)


def _training() -> Any:
    from conjoin.graph.graph import Graph
    from conjoin.model.model import Model
    from conjoin.training.loop import train
    from conjoin.training.recipe import Recipe

    graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    return train(Model("complex", 3, 1, rank=2), graph, Recipe(epochs=2, batch=2))


def _ranks(data: bytes, scratch: Path) -> None:
    from conjoin.evaluation.ranks import Ranks

    file = scratch / "ranks-test.parquet"
    file.write_bytes(data)
    Ranks.read(file).metrics()


def _graph_record(data: bytes, scratch: Path) -> None:
    from conjoin.io.graph_store import open_graph

    (scratch / "graph.json").write_bytes(data)
    open_graph(scratch)


def _calibration(data: bytes, scratch: Path) -> None:
    from conjoin.graph.graph import Graph
    from conjoin.runs.calibration_curves import read_calibration
    from conjoin.runs.folder import RunFolder

    graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    (scratch / "run.json").write_bytes(_example_run())
    (scratch / "calibration.json").write_bytes(data)
    read_calibration(RunFolder(scratch), graph, "last")


def _zip(data: bytes, scratch: Path) -> None:
    _unpacked(data, scratch, "a.zip")


def _tar(data: bytes, scratch: Path) -> None:
    _unpacked(data, scratch, "a.tar.gz")


def _unpacked(data: bytes, scratch: Path, name: str) -> None:
    from conjoin.datasets.archives import extract
    from conjoin.datasets.download import Checksum

    file, target = scratch / name, scratch / "unpacked"
    file.write_bytes(data)
    target.mkdir(exist_ok=True)
    extract(file, target, wanted={"train.txt": Checksum("sha256", "0" * 64)}, limit=1 << 20)


def _question(data: bytes, _: Path) -> None:
    from pydantic import ValidationError

    from conjoin.server import schemas

    for shape in (
        schemas.AskRequest,
        schemas.AskManyRequest,
        schemas.ScoreManyRequest,
        schemas.SimilarRequest,
        schemas.MineRequest,
    ):
        with suppress(ValidationError):
            shape.model_validate_json(data)


def _example_run() -> bytes:
    from conjoin.runs.run import Run
    from conjoin.runtime.atomic_files import digest
    from conjoin.training.recipe import Recipe

    run = Run(data="own", checksum="c" * 64, form="ComplEx()", rank=4, recipe=Recipe())
    value = {"id": run.id, "run": run.to_json(), "environment": {}, "command": None}
    return json.dumps({**value, "sha256": digest(value)}).encode()


def _example_calibration() -> bytes:
    from conjoin.runs.run import Run
    from conjoin.runtime.atomic_files import digest
    from conjoin.training.recipe import Recipe

    run = Run(data="own", checksum="c" * 64, form="ComplEx()", rank=4, recipe=Recipe())
    curve = {"scores": [0.0, 1.0], "probabilities": [0.1, 0.9]}
    value = {"run": run.id, "weights": "last", "about": {}, "measured": {}, "pooled": curve, "relations": {"r": {}}}
    return json.dumps({**value, "sha256": digest(value)}).encode()


def _parquet() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(pa.table({"head": ["a", "b"], "relation": ["r", "r"], "tail": ["b", "c"]}), sink)
    return sink.getvalue()


def _example_ranks() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {name: [1, 2] for name in ("head", "relation", "tail", "better", "tied", "candidates")}
    sink = io.BytesIO()
    pq.write_table(pa.table({**columns, "direction": ["tail", "head"]}), sink)
    return sink.getvalue()


def _example_tensors() -> bytes:
    import tempfile

    import torch

    from conjoin.training.checkpoint import save_tensors

    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "a.safetensors")
        save_tensors(file, {"table": torch.arange(6.0).reshape(2, 3)}, {"epoch": 1})
        return file.read_bytes()


def _example_graph() -> bytes:
    import tempfile

    from conjoin.graph.graph import Graph
    from conjoin.io.graph_store import save_graph

    with tempfile.TemporaryDirectory() as place:
        return (save_graph(Graph.from_triples([("a", "r", "b")]), Path(place, "g")) / "graph.json").read_bytes()


def _archives() -> tuple[bytes, bytes]:
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("own/train.txt", "a\tr\tb\n")
    with tarfile.open(fileobj=tarred, mode="w:gz") as bundle:
        member = tarfile.TarInfo("own/train.txt")
        member.size = 6
        bundle.addfile(member, io.BytesIO(b"a\tr\tb\n"))
    return zipped.getvalue(), tarred.getvalue()


def targets() -> dict[str, Target]:
    """All of them by name."""
    tsv, csv = b"a\tr\tb\nb\tr\tc\n", b'head,relation,tail\na,r,b\n"b ""x""",r,c\n'
    nt = b'<http://e/a> <http://e/r> <http://e/b> .\n<http://e/a> <http://e/l> "x"@en .\n'
    turtle = b"@prefix : <http://e/> .\n:a :r :b, [ :r :c ] ; :s (1 2) .\n"
    study = (
        b'name = "own"\nseeds = 2\nrows = [{ name = "a", form = "complex" }]\n[datasets.own]\ngraph = "own"\n'
        b"[settings.own]\ncomplex = { rank = 4, epochs = 2 }\n"
    )
    event = b'{"epoch": 1, "loss": 1.5, "penalty": 0.1, "seconds": 0.1}\n'
    words = b'{"progress": {"epoch": 1, "best_epoch": 0, "best_mrr": -1.0, "stale": 0, "seconds": 0.0}}'
    forms = (
        b"complex",
        b"5star-conj",
        b"FiveStar(c=conj(b), d=-conj(a), quotient=mobius)",
        b"ComplEx(layout=published)",
    )
    zipped, tarred = _archives()
    listed = [
        Target("tsv", _graph_file("a.tsv"), (tsv, b"\xef\xbb\xbf" + tsv)),
        Target("tsv, skipping", _graph_file("a.tsv", on_error="skip"), (tsv, b"a\tb\n" + tsv)),
        Target("csv", _graph_file("a.csv"), (csv,)),
        Target("csv.gz", _graph_file("a.csv.gz"), (gzip.compress(csv, mtime=0),)),
        Target("parquet", _graph_file("a.parquet"), (_parquet(),)),
        Target("n-triples", _graph_file("a.nt", literals="keep"), (nt,)),
        Target("turtle", _graph_file("a.ttl", on_error="skip"), (turtle,)),
        Target("labels", _labels, (b"Q1\tFrance\nQ2\tSpain\n",)),
        Target("forms", _form, forms),
        Target("study files", _study, (study,)),
        Target("settings files", _settings, (b"[settings.own]\ncomplex = { rank = 4, lr = 0.1 }\n",)),
        Target("grid files", _grid, (b"[grid]\nlr = [0.1, 0.01]\nrank = [4]\n",)),
        Target("run.json", _run, (_example_run(),)),
        Target("run.json, sealed", _sealed("run.json", _run), (_example_run(),)),
        Target("events.jsonl", _events, (event, event + event.replace(b"1", b"2", 1))),
        Target("result.json", _result, (b'{"files": {"events.jsonl": "0"}, "sha256": "0"}',)),
        Target("result.json, sealed", _sealed("result.json", _result), (b'{"files": {"events.jsonl": "0"}}',)),
        Target("safetensors", _tensors, (_example_tensors(),)),
        Target("checkpoint, sealed", _checkpoint, (words,)),
        Target("ranks", _ranks, (_example_ranks(),)),
        Target("graph.json", _graph_record, (_example_graph(),)),
        Target("calibration.json, sealed", _sealed("calibration.json", _calibration), (_example_calibration(),)),
        Target("zip", _zip, (zipped,)),
        Target("tar.gz", _tar, (tarred,)),
        Target(
            "HTTP bodies", _question, (b'{"questions": [{"head": "a", "relation": "r"}], "k": 3}', b'{"entity": "a"}')
        ),
    ]
    return {target.name: target for target in (*listed, *forged.targets(), *forged_runs.targets())}


@contextmanager
def limited_memory(mebibytes: int) -> Iterator[None]:
    """Within, this process may map no more than so much beyond what it has."""
    import resource

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (mebibytes << 20), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
