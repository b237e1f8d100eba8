"""Power cuts: what the disk may hold if the power goes between any two operations, and whether that can be opened.

The calls that order a disk's work (fsync, rename, unlink, mkdir, rmdir) are recorded while real code runs. What is
durable follows the strictest reading of POSIX: the content of a file as of its last fsync, nothing if there was none; a
folder's entries as of its last fsync, later changes either lost or, in their order, kept up to any point.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from tests.stress.counts import Counts

CHANGES = ("rename", "replace", "unlink", "rmdir", "mkdir")


@dataclass(frozen=True)
class Operation:
    """One call: `kind`, the paths it names relative to the watched folder, the inode, and what fsync made durable."""

    kind: str
    path: str
    inode: int
    target: str = ""
    content: bytes | None = None


@dataclass
class Recorder:
    """Every ordering call below `root`, in order; `marks` are places in it with a word for each."""

    root: Path
    operations: list[Operation] = field(default_factory=list)
    marks: list[tuple[int, str]] = field(default_factory=list)
    seen: dict[int, str] = field(default_factory=dict)

    def mark(self, word: str) -> None:
        self.marks.append((len(self.operations), word))

    def inside(self, path: Any) -> str | None:
        with suppress(TypeError, ValueError):
            absolute = Path.cwd() / path
            if absolute.is_relative_to(self.root):
                return str(absolute.relative_to(self.root))
        return None

    def add(self, operation: Operation) -> None:
        self.operations.append(operation)

    def new_files(self) -> None:
        """Entries that came into being without a call that is watched: files opened for writing."""
        for path in sorted(self.root.rglob("*")):
            with suppress(FileNotFoundError):
                inode = path.lstat().st_ino
                name = str(path.relative_to(self.root))
                if inode not in self.seen and not path.is_dir():
                    self.add(Operation("create", name, inode))
                self.seen[inode] = name


@contextmanager
def recording(root: Path) -> Iterator[Recorder]:
    """Watch this process's ordering calls below `root`."""
    recorder, real = Recorder(root), {name: getattr(os, name) for name in (*CHANGES, "fsync")}

    def fsync(descriptor: int) -> None:
        path = recorder.inside(Path(f"/proc/self/fd/{descriptor}").readlink())
        if path is not None:
            recorder.new_files()
            place = root / path
            content = None if place.is_dir() else place.read_bytes()
            recorder.add(Operation("fsync", path, os.fstat(descriptor).st_ino, content=content))
        real["fsync"](descriptor)

    def changing(kind: str) -> Callable[..., Any]:
        def change(path: Any, *words: Any, **options: Any) -> Any:
            name = recorder.inside(path) if options.get("dir_fd") is None else _below(recorder, path, options["dir_fd"])
            inode = (root / name).lstat().st_ino if name is not None and kind != "mkdir" and _there(root / name) else 0
            target = recorder.inside(words[0]) or "" if kind in ("rename", "replace") else ""
            gone = inode if kind in ("unlink", "rmdir") else 0
            if target and _there(root / target):
                gone = (root / target).lstat().st_ino
            if name is not None:
                recorder.new_files()
            done = real[kind](path, *words, **options)
            if name is not None:
                recorder.seen.pop(gone, None)  # the next new file may get this number
                inode = inode or (root / name).lstat().st_ino
                recorder.add(Operation("rename" if kind == "replace" else kind, name, inode, target))
                recorder.new_files()
            return done

        return change

    with mock.patch.object(os, "fsync", fsync):
        with _patched(changing):
            yield recorder
        recorder.new_files()


@contextmanager
def _patched(changing: Callable[[str], Callable[..., Any]]) -> Iterator[None]:
    patches = [mock.patch.object(os, name, changing(name)) for name in CHANGES]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def _there(path: Path) -> bool:
    return os.path.lexists(path)


def _below(recorder: Recorder, path: Any, descriptor: int) -> str | None:
    return recorder.inside(Path(Path(f"/proc/self/fd/{descriptor}").readlink()) / path)


def survivors(operations: list[Operation]) -> Iterator[dict[str, bytes | None]]:
    """What the disk may hold after these operations: path to content, None for a folder. The root itself is there."""
    durable: dict[int, bytes] = {}
    entries: dict[str, tuple[int, bool]] = {}
    pending: list[Operation] = []
    for operation in operations:
        if operation.kind == "fsync" and operation.content is not None:
            durable[operation.inode] = operation.content
        elif operation.kind == "fsync":
            here = [each for each in pending if _touches(each, operation.path)]
            for each in here:
                _apply(entries, each)
            pending = [each for each in pending if each not in here]
        else:
            if operation.kind == "create":
                durable.pop(operation.inode, None)
            pending.append(operation)
    for kept in range(len(pending) + 1):
        state = dict(entries)
        for operation in pending[:kept]:
            _apply(state, operation)
        reachable = {path for path in state if _reachable(path, state)}
        yield {path: None if state[path][1] else durable.get(state[path][0], b"") for path in sorted(reachable)}


def _touches(operation: Operation, folder: str) -> bool:
    """Is the operation about an entry of this folder?"""
    named = [operation.path, *([operation.target] if operation.target else [])]
    return any(str(Path(name).parent) == folder for name in named)


def _apply(entries: dict[str, tuple[int, bool]], operation: Operation) -> None:
    if operation.kind in ("create", "mkdir"):
        entries[operation.path] = (operation.inode, operation.kind == "mkdir")
    elif operation.kind in ("unlink", "rmdir"):
        entries.pop(operation.path, None)
    elif operation.kind == "rename":
        moved = {path: entry for path, entry in entries.items() if _within(path, operation.path)}
        for path in moved:
            del entries[path]
        entries[operation.target] = moved.pop(operation.path, (operation.inode, False))
        for path, entry in moved.items():
            entries[operation.target + path[len(operation.path) :]] = entry


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def _reachable(path: str, state: dict[str, tuple[int, bool]]) -> bool:
    parents = [str(parent) for parent in Path(path).parents if str(parent) != "."]
    return all(parent in state and state[parent][1] for parent in parents)


def materialise(state: dict[str, bytes | None], place: Path) -> None:
    """Make the folder that the disk would hold."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for path, content in state.items():
        if content is None:
            (place / path).mkdir(parents=True, exist_ok=True)
        else:
            (place / path).write_bytes(content)


def cut_everywhere(place: Path, *, every: int) -> Counts:
    """Record a run that stopped once in mid-epoch; cut the power after every nth operation; go on each time.

    Each time the run goes on from no less than its last whole checkpoint and ends as it does undisturbed. So do the
    checkpoints that several processes write, of which one process writes the same files.
    """
    one, shared = _cut_a_run(place / "run", every=every), _cut_shards(place / "shards", every=every)
    return {name: count + shared.get(name, 0) for name, count in one.items()}


def _cut_shards(place: Path, *, every: int) -> dict[str, int]:
    """Every epoch is saved twice, as at the end of a run; the loaded checkpoint is never older than the last."""
    from tests.stress.forged import training

    from conjoin.training.checkpoint_distributed import load_shards, newest_shards, save_shards

    watched = (place / "watched").resolve()
    watched.mkdir(parents=True)
    saved: dict[int, list[Any]] = {0: []}
    with recording(watched) as recorder:
        begun = training()
        for epoch in begun:
            for _ in range(2):
                save_shards(watched / "checkpoint", begun)
                recorder.mark(f"epoch {epoch.number}")
            saved[epoch.number] = [part.tolist() for part in begun.model.parameters()]
    cuts, different = 0, set()
    for end in range(0, len(recorder.operations) + 1, every):
        promised = max((int(word.split()[1]) for at, word in recorder.marks if at <= end), default=0)
        for state in survivors(recorder.operations[:end]):
            cuts += 1
            different.add(hash(tuple(state.items())))
            again = place / "again"
            materialise(state, again)
            newest, found = newest_shards(again / "checkpoint"), training()
            if newest is not None:
                load_shards(newest, found)
                assert [part.tolist() for part in found.model.parameters()] == saved[found.progress.epoch], end
            assert found.progress.epoch >= promised, (end, promised, sorted(state))
    return {
        "operations recorded": len(recorder.operations),
        "power cuts": cuts,
        "different disks opened": len(different),
        "disks that could not go on": 0,
    }


def _cut_a_run(place: Path, *, every: int) -> dict[str, int]:
    from conjoin.errors import Stopped
    from conjoin.graph.graph import Graph
    from conjoin.runs.execute import ExecutionOptions, execute
    from conjoin.runs.folder import RunFolder
    from conjoin.runs.run import Run
    from conjoin.training.checkpoint import load_tensors
    from conjoin.training.recipe import Recipe

    facts = [(f"e{i % 7}", f"r{i % 2}", f"e{(3 * i + 1) % 7}") for i in range(14)]
    graph = Graph.from_triples(facts[4:], facts[:2], facts[2:4], name="small")
    run = Run.of(graph, "complex-conj", rank=2, recipe=Recipe(epochs=3, batch=8, validate_every=2))
    whole = _end(execute(run, graph, place / "whole"))
    watched = (place / "watched").resolve()
    watched.mkdir(parents=True)
    asked = iter(range(1000))
    with recording(watched) as recorder:
        for stop in (lambda: next(asked) == 4, lambda: False):
            with suppress(Stopped):
                conduct = ExecutionOptions(
                    checkpoint_epochs=1, stop=stop, watch=lambda epoch: recorder.mark(f"epoch {epoch.number}")
                )
                execute(run, graph, watched / "run", conduct=conduct)
    assert _end(RunFolder(watched / "run")) == whole
    tried: dict[int, int] = {}
    cuts = 0
    finished: set[int] = set()
    for end in range(0, len(recorder.operations) + 1, every):
        for state in survivors(recorder.operations[:end]):
            cuts += 1
            key = hash(tuple(state.items()))
            promised = max((int(word.split()[1]) for at, word in recorder.marks if at <= end), default=0)
            if key not in tried:
                again = place / "again"
                materialise(state, again)
                folder = RunFolder(again / "run")
                file = folder.checkpoint_file
                kept = int(load_tensors(file)[1]["progress"]["epoch"]) if file.exists() else 0
                tried[key] = run.recipe.epochs if folder.finished else kept
                finished |= {key} if folder.finished else set()
                assert _end(execute(run, graph, folder.path)) == whole, (end, sorted(state))
                assert not folder.half_done, "a finished run kept its checkpoint"
            assert tried[key] >= promised, (end, tried[key], promised, sorted(state))
    return {
        "operations recorded": len(recorder.operations),
        "power cuts": cuts,
        "different disks opened": len(tried),
        "of them with a finished run": len(finished),
        "disks that could not go on": 0,
    }


def _end(folder: Any) -> list[Any]:
    files = ("model.safetensors", "best.safetensors", "ranks-valid.parquet", "ranks-test.parquet")
    events = [{key: value for key, value in event.items() if key != "seconds"} for event in folder.events]
    return [events, *((folder.path / name).read_bytes() for name in files)]
