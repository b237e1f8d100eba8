"""Checkpoints of a training on several processes: one safetensors file per process and an index in JSON.

checkpoint/000012/       one folder per checkpoint, named by its epoch; 000012-000034 after 34 steps of the next epoch
  shard-00000.safetensors  the tensors and rows of process 0, and so on
  index.json               the file of every row of every tensor, checksums, progress; with a checksum of its content;
                           written last

A checkpoint of n processes can be loaded on m processes or on one. torch.distributed.checkpoint can do that too, but
its processes exchange pickled objects, which can execute code. These exchange JSON.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from conjoin.errors import RunError, StorageError
from conjoin.runtime.atomic_files import make_folder, read_sealed, sha256_of, sync_folder, write_sealed
from conjoin.runtime.distributed import current
from conjoin.runtime.format_version import STAMP, check_format_version
from conjoin.training.checkpoint import TABLE, check_header, check_state, state_of
from conjoin.training.loop import Progress, Training

INDEX = "index.json"
FORMAT = "conjoin shards"
COSTS = "costs"
DTYPES = {"float32": torch.float32, "float64": torch.float64, "int64": torch.int64}


def save_shards(folder: Path, training: Training, *, words: Mapping[str, Any] | None = None) -> None:
    """Write a checkpoint below `folder`. All processes take part, each with its own rows; the `words` of the first one
    are stored with it."""
    target = folder / _name(training)
    mesh = current()
    if mesh.agreed((target / INDEX).exists()):  # Writing the same checkpoint again would first delete it.
        return
    with _writing_together(target):
        if mesh.is_first:
            shutil.rmtree(target, ignore_errors=True)
            make_folder(target)
    written = ""
    with _writing_together(target):
        local = {name: (tensor, _span(training, name, tensor)) for name, tensor in _state(training).items()}
        written = _write(target, local)
    files = [json.loads(each) for each in mesh.heard(written) if each]
    with _writing_together(target):
        if mesh.is_first:
            _finish(target, local, files, {**(words or {}), "progress": asdict(training.progress)})
    if mesh.is_first:
        for older in folder.glob("[0-9]*"):
            if older != target:
                shutil.rmtree(older)


def newest_shards(folder: Path) -> Path | None:
    """The latest complete checkpoint below `folder`."""
    complete = [index.parent for index in folder.glob(f"*/{INDEX}") if _parts(index.parent.name)]
    return max(complete, default=None, key=shards_place)


def shards_place(target: Path) -> tuple[int, int]:
    """The number of finished epochs in a checkpoint, and of finished steps of the next epoch."""
    parts = _parts(target.name)
    return (int(parts[1]), int(parts[2] or 0)) if parts else (0, 0)


def load_shards(target: Path, training: Training) -> Mapping[str, Any]:
    """Set a training to the state of a checkpoint, on any number of processes; return the content of its index."""
    index: dict[str, Any] = {}
    with _reading_together(target):
        try:
            index = read_sealed(target / INDEX)
            check_format_version(index, target / INDEX)
            progress, tensors = Progress.of(index["progress"]), index["tensors"]
            for name, about in tensors.items():
                _check_whole(name, about)
            buffers = _buffers(training, tensors)
            if any(_shape(training, name, buffer) != tensors[name]["shape"] for name, buffer in buffers.items()):
                raise ValueError("its tensors have other shapes than this model")
            _read(target, index, {name: (buffer, _span(training, name, buffer)) for name, buffer in buffers.items()})
            training.progress = progress
            training.costs = list(buffers[COSTS].unbind()) if COSTS in buffers else []
            check_state(training)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError, RuntimeError) as error:
            raise RunError(f"{target} does not belong to this run ({error})") from error
    return index


def _name(training: Training) -> str:
    steps = f"-{len(training.costs):06d}" if training.costs else ""
    return f"{training.progress.epoch:06d}{steps}"


def _parts(name: str) -> re.Match[str] | None:
    return re.fullmatch("([0-9]{6,})(?:-([0-9]{6,}))?", name)


@contextmanager
def _reading_together(target: Path) -> Iterator[None]:
    """Raise the RunError of one process in all of them, so that no process waits for one that has failed."""
    error: RunError | None = None
    try:
        yield
    except RunError as refused:
        error = refused
    except (OSError, SafetensorError) as refused:
        error = RunError(f"{target}: process {current().rank} cannot read its part of the checkpoint ({refused}).")
        error.__cause__ = refused
    messages = [message for message in current().heard(str(error or "")) if message]
    if messages:
        raise error or RunError(messages[0])


@contextmanager
def _writing_together(target: Path) -> Iterator[None]:
    """Raise the StorageError of one process in all of them."""
    error: StorageError | None = None
    try:
        yield
    except (OSError, SafetensorError) as refused:
        error = StorageError(
            f"{target}: process {current().rank} cannot write its part of the checkpoint ({refused}). Earlier "
            "checkpoints are intact. Make the folder writable and resume the run (--resume)."
        )
        error.__cause__ = refused
    messages = [message for message in current().heard(str(error or "")) if message]
    if messages:
        raise error or StorageError(messages[0])


def _state(training: Training) -> dict[str, Tensor]:
    """The tensors that resuming needs, with the rows of this process."""
    tensors = {name: tensor.detach() for name, tensor in state_of(training).items()}
    return {**tensors, COSTS: torch.stack(training.costs)} if training.costs else tensors


def _span(training: Training, name: str, tensor: Tensor) -> tuple[int, int] | None:
    """The rows (start, stop) of a table that this process holds; None for a tensor that every process has in full."""
    table = training.model.entities
    kind, _, rest = name.partition(".")
    of_table = rest == TABLE
    if kind == "optimizer" and tensor.ndim == 2:
        of_table = list(training.model.parameters())[int(rest.partition(".")[0])] is table.weight
    return current().span(len(table)) if of_table else None


def _shape(training: Training, name: str, tensor: Tensor) -> list[int]:
    """The shape of the whole tensor; `tensor` may be the rows of this process only."""
    divided = _span(training, name, tensor) is not None
    return [len(training.model.entities) if divided else tensor.shape[0], *tensor.shape[1:]] if tensor.ndim else []


LocalTensors = Mapping[str, tuple[Tensor, tuple[int, int] | None]]
"""Tensors of this process by name, each with the rows (start, stop) of the whole tensor that it holds; None for all."""


def _write(target: Path, local: LocalTensors) -> str:
    """Write the tensors that no process before this one writes.

    Returns JSON with the file name, its checksum and its rows; "" if there is nothing to write.
    """
    mesh = current()
    mine = {name: t for name, (t, span) in local.items() if (mesh.is_first if span is None else mesh.replica == 0)}
    mine = {name: tensor for name, tensor in mine.items() if local[name][1] is None or len(tensor)}
    if not mine:
        return ""
    file = target / f"shard-{mesh.rank:05d}.safetensors"
    save_file({name: tensor.cpu().contiguous() for name, tensor in mine.items()}, file)
    with file.open("rb+") as written:
        os.fsync(written.fileno())
    rows = {name: span for name, (_, span) in local.items() if name in mine and span is not None}
    return json.dumps({"file": file.name, "sha256": sha256_of(file), "rows": rows})


def _finish(target: Path, local: LocalTensors, files: list[dict[str, Any]], words: Mapping[str, Any]) -> None:
    """Write the index of all files. A folder without an index is an incomplete checkpoint."""
    tensors: dict[str, Any] = {}
    for name, (tensor, span) in local.items():
        inner = list(tensor.shape[1:])
        if span is None:
            shape = list(tensor.shape)
            chunks = [{"offsets": [0] * tensor.ndim, "sizes": shape, "file": files[0]["file"]}]
        else:
            parts = [(*each["rows"][name], each["file"]) for each in files if name in each["rows"]]
            shape = [max((stop for _, stop, _ in parts), default=0), *inner]
            chunks = [
                {"offsets": [start, *[0] * len(inner)], "sizes": [stop - start, *inner], "file": file}
                for start, stop, file in parts
            ]
        tensors[name] = {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": shape, "chunks": chunks}
    checksums = {each["file"]: each["sha256"] for each in files}
    write_sealed(target / INDEX, {"format": FORMAT, **STAMP, "tensors": tensors, "files": checksums, **words})
    sync_folder(target.parent)


def _buffers(training: Training, stored: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors to fill, by stored name: the training's own; missing ones (best weights, costs) are created."""
    parameters = list(training.model.parameters())
    buffers = {name: tensor.detach() for name, tensor in state_of(training).items()}
    training.best_weights = {} if not any(name.startswith("best.") for name in stored) else training.best_weights
    for name in stored.keys() - buffers.keys():
        kind, _, rest = name.partition(".")
        number, _, slot = rest.partition(".")
        if name == COSTS:
            buffers[name] = _empty_costs(training, stored[name])
            continue
        parameter = training.model.state_dict()[rest] if kind == "best" else parameters[int(number)]
        shape = parameter.shape if stored[name]["shape"] else ()
        tensor = torch.zeros(shape, dtype=DTYPES[stored[name]["dtype"]], device=parameter.device if shape else None)
        if kind == "best":
            training.best_weights[rest] = tensor
        else:
            training.step.optimizer.state[parameter][slot] = tensor
        buffers[name] = tensor
    return {name: buffers[name] for name in stored}


def _empty_costs(training: Training, about: Mapping[str, Any]) -> Tensor:
    """Zeros (steps, terms) for the costs of an interrupted epoch. ValueError for more steps than an epoch has."""
    (steps, width), terms = about["shape"], len(training.step.objective.names)
    most = -(-2 * len(training.graph.train) // training.recipe.batch)
    if type(steps) is not int or not 0 < steps <= most or width != terms:
        raise ValueError(f"costs must be at most {most} steps of {terms} numbers, got {steps} of {width}")
    return torch.zeros(steps, terms, dtype=DTYPES[about["dtype"]], device=training.model.device)


def _check_whole(name: str, about: Mapping[str, Any]) -> None:
    """Raise ValueError unless the chunks of the index cover the tensor exactly once."""
    shape, chunks = about["shape"], about["chunks"]
    _ = DTYPES[about["dtype"]]
    sizes = [each for part in (shape, *(c[key] for c in chunks for key in ("offsets", "sizes"))) for each in part]
    if not isinstance(shape, list) or any(type(size) is not int or size < 0 for size in sizes):
        raise ValueError(f"{name} has an invalid shape: {shape!r}")
    fits = all(
        len(c["offsets"]) == len(c["sizes"]) == len(shape) and c["sizes"][1:] == shape[1:] and not any(c["offsets"][1:])
        for c in chunks
    )
    rows = sorted((c["offsets"][0], c["offsets"][0] + c["sizes"][0]) for c in chunks) if shape and fits else []
    whole = [0, *(stop for _, stop in rows)] == [*(start for start, _ in rows), shape[0]] if shape else len(chunks) == 1
    if not fits or not whole:
        raise ValueError(f"its chunks do not cover {name} {shape}")


def _read(target: Path, index: Mapping[str, Any], buffers: LocalTensors) -> None:
    """Fill the tensors of this process. RunError if the checksum of a file is wrong."""
    wanted: dict[str, list[Callable[[Any], None]]] = {}
    for name, (buffer, span) in buffers.items():
        for chunk in index["tensors"][name]["chunks"]:
            if not buffer.ndim:
                wanted.setdefault(chunk["file"], []).append(_whole(name, buffer))
                continue
            start, stop = span or (0, len(buffer))
            first, last = chunk["offsets"][0], chunk["offsets"][0] + chunk["sizes"][0]
            if max(start, first) < min(stop, last) or (first == last and not span):
                here = slice(max(start, first) - start, min(stop, last) - start)
                there = slice(max(start, first) - first, min(stop, last) - first)
                wanted.setdefault(chunk["file"], []).append(_rows(name, buffer[here], there))
    for name, takers in wanted.items():
        file = target / Path(name).name
        if sha256_of(file) != index["files"][name]:
            raise RunError(f"{file} is damaged: its checksum differs from {INDEX}. Delete the folder and run again.")
        check_header(file)
        with safe_open(file, framework="pt") as stored:
            for take in takers:
                take(stored)


def _whole(name: str, buffer: Tensor) -> Callable[[Any], None]:
    return lambda stored: _put(buffer, stored.get_tensor(name))


def _rows(name: str, buffer: Tensor, there: slice) -> Callable[[Any], None]:
    return lambda stored: _put(buffer, stored.get_slice(name)[there])


def _put(buffer: Tensor, stored: Tensor) -> None:
    if buffer.shape != stored.shape:
        raise ValueError(f"a file contains the shape {tuple(stored.shape)}, its index says {tuple(buffer.shape)}")
    buffer.copy_(stored)
