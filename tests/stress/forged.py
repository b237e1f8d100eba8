"""Files of ours as someone forges them: any content, and every checksum put right again.

Two ways to make them. `swapped` takes bytes as the new content of one file of a folder. `altered` takes them as a list
of changes to a JSON object, a few bytes each: this value for that one, this key gone. So the shape of what is read is
mutated, not its spelling.
"""

from __future__ import annotations

import atexit
import copy
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.stress.target import Reading, Target

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    7,
    1.5,
    10**30,
    1 << 40,
    "",
    "x",
    "../../../etc/passwd",
    "/dev/zero",
    "int64",
    "\u202e\0",
    [],
    [[]],
    [-1, 3],
    [1 << 40, 1 << 20],
    {},
    {"x": {}},
)
"""What nobody expects where something else stood. One more way to change a value is to leave it out."""
STEP = 3
"""Bytes per change: two choose the position, one chooses the new value."""


def altered(value: Any, data: bytes) -> Any:
    """A copy with as many changes as there are bytes for."""
    changed = copy.deepcopy(value)
    for start in range(0, len(data) - STEP + 1, STEP):
        places = list(_places(changed))
        if not places:
            break
        owner, key = places[int.from_bytes(data[start : start + 2], "little") % len(places)]
        choice = data[start + 2] % (len(ODD) + 1)
        if choice == len(ODD):
            del owner[key]
        else:
            owner[key] = copy.deepcopy(ODD[choice])
    return changed


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


CHANGES = (b"", *(bytes([place, 0, choice]) for place in range(3) for choice in (0, 8, 12, len(ODD))))
"""Where the fuzzing of `altered` starts."""


@cache
def kept(make: Callable[[Path], None]) -> Path:
    """A folder that `make` filled, once a process."""
    place = Path(tempfile.mkdtemp(prefix="conjoin-forged-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    make(place)
    return place


def copied(make: Callable[[Path], None], scratch: Path) -> Path:
    """A copy of that folder to spoil."""
    target = scratch / "folder"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(kept(make), target)
    return target


def write_sealed(file: Path, value: Any) -> None:
    """Write an object with its checksum put right."""
    from conjoin.runtime import atomic_files

    value.pop("sha256", None)
    with suppress(UnicodeEncodeError):
        atomic_files.write_sealed(file, value)


def _graph_sealed(folder: Path, record: Any) -> None:
    """graph.json in its own spelling."""
    from conjoin.io.graph_store import write_record

    record.pop("sha256", None)
    with suppress(UnicodeEncodeError):
        write_record(folder, record)


def _stored(place: Path) -> None:
    from conjoin.graph.graph import Graph
    from conjoin.io.graph_store import save_graph

    save_graph(Graph.from_triples([("a", "r", "b"), ("b", "s", "é")], [("a", "s", "b")]), place / "graph")


def _ingested(place: Path) -> None:
    from conjoin.io.ingest import ingest

    facts, labels = place / "facts.tsv", place / "labels.tsv"
    lines = [f"e{i}\tr{i % 2}\té{i * 7 % 11}\n" for i in range(30)]
    facts.write_text("".join(lines), encoding="utf-8")
    labels.write_text("e1\tOne\ne2\tTwo\n", encoding="utf-8")
    ingest([facts], place / "graph", labels=labels, memory=512 << 20, threads=1)


def _use_graph(folder: Path) -> None:
    """Open it and do what every verb does with a graph: names, labels, what is known."""
    from conjoin.io.graph_store import open_graph

    graph = open_graph(folder)
    names = list(graph.entities.names) + list(graph.relations.names)
    labels = [graph.entities.label(i) for i in range(graph.n_entities)]
    _ = graph.known, graph.unseen, graph.queries("test"), names, labels
    assert graph.n_entities == 0 or graph.entities.names[0] is not None
    json.dumps([graph.name, graph.notes])


def _graph_record(make: Callable[[Path], None]) -> Reading:
    def read(data: bytes, scratch: Path) -> None:
        folder = copied(make, scratch) / "graph"
        record = altered(json.loads((folder / "graph.json").read_bytes()), data)
        _graph_sealed(folder, record)
        _use_graph(folder)

    return read


def _graph_file(make: Callable[[Path], None], name: str) -> Reading:
    def read(data: bytes, scratch: Path) -> None:
        from conjoin.runtime.atomic_files import sha256_of

        folder = copied(make, scratch) / "graph"
        (folder / name).write_bytes(data)
        record = json.loads((folder / "graph.json").read_bytes())
        record["files"][name] = sha256_of(folder / name)
        _graph_sealed(folder, record)
        _use_graph(folder)

    return read


def training() -> Any:
    """A small one, the same every time."""
    from conjoin.graph.graph import Graph
    from conjoin.model.model import Model
    from conjoin.training.loop import train
    from conjoin.training.recipe import Recipe

    graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    return train(Model("complex", 3, 1, rank=2), graph, Recipe(epochs=4, batch=2))


def _sharded(place: Path) -> None:
    from conjoin.training.checkpoint_distributed import save_shards

    begun = training()
    next(begun)
    save_shards(place / "checkpoint", begun)


def _go_on(folder: Path) -> None:
    """Load the newest checkpoint and train an epoch from there."""
    from conjoin.training.checkpoint_distributed import load_shards, newest_shards

    begun = training()
    newest = newest_shards(folder / "checkpoint")
    if newest is not None:
        load_shards(newest, begun)
        next(begun, None)


def _shard_index(data: bytes, scratch: Path) -> None:
    folder = copied(_sharded, scratch)
    file = next(folder.rglob("index.json"))
    write_sealed(file, altered(json.loads(file.read_bytes()), data))
    _go_on(folder)


def _shard_tensors(data: bytes, scratch: Path) -> None:
    from conjoin.runtime.atomic_files import sha256_of

    folder = copied(_sharded, scratch)
    index, shard = next(folder.rglob("index.json")), next(folder.rglob("*.safetensors"))
    shard.write_bytes(data)
    value = json.loads(index.read_bytes())
    value["files"][shard.name] = sha256_of(shard)
    write_sealed(index, value)
    _go_on(folder)


def _shard_folder(data: bytes, scratch: Path) -> None:
    """A folder of any name beside the checkpoint."""
    folder = copied(_sharded, scratch) / "checkpoint"
    name = data.decode("utf-8", errors="replace").replace("/", "_").replace("\0", "_")[:80]
    with suppress(FileExistsError, FileNotFoundError):
        if name not in (".", ".."):
            (folder / name).mkdir()
            (folder / name / "index.json").write_bytes(b"{}")
    _go_on(folder.parent)


def _checkpointed(place: Path) -> None:
    from conjoin.training.checkpoint import save_checkpoint

    begun = training()
    next(begun)
    save_checkpoint(place / "checkpoint.safetensors", begun)


def _checkpoint(data: bytes, scratch: Path) -> None:
    """The words of a checkpoint altered, its seal put right; then an epoch from there."""
    from conjoin.training.checkpoint import load_checkpoint, load_tensors, save_tensors

    file = copied(_checkpointed, scratch) / "checkpoint.safetensors"
    tensors, words = load_tensors(file)
    save_tensors(file, tensors, altered(words, data))
    begun = training()
    load_checkpoint(file, begun)
    next(begun, None)


def contents(make: Callable[[Path], None], pattern: str) -> bytes:
    """The bytes of one of its files."""
    return next(kept(make).glob(pattern)).read_bytes()


def targets() -> list[Target]:
    """All of them."""
    arrays = ("entity_names.npy", "entity_starts.npy", "entity_label_starts.npy", "train.npy", "relations.parquet")
    listed = [
        Target(f"ingested {name}, sealed", _graph_file(_ingested, name), partial(contents, _ingested, f"graph/{name}"))
        for name in arrays
    ]
    listed += [
        Target(f"stored {name}, sealed", _graph_file(_stored, name), partial(contents, _stored, f"graph/{name}"))
        for name in ("entities.parquet", "triples.parquet")
    ]
    return [
        *listed,
        Target("ingested graph.json, altered", _graph_record(_ingested), CHANGES),
        Target("stored graph.json, altered", _graph_record(_stored), CHANGES),
        Target("shards: index.json, altered", _shard_index, CHANGES),
        Target("shards: tensors, sealed", _shard_tensors, partial(contents, _sharded, "checkpoint/*/*.safetensors")),
        Target("shards: folders", _shard_folder, (b"000002", b"1x", b"000001")),
        Target("checkpoint, altered", _checkpoint, CHANGES),
    ]
