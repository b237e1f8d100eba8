"""Checkpoints of a training on several processes: torch.distributed.checkpoint plans them, safetensors holds them.

checkpoint/000012/       one folder per checkpoint, named by its epoch
  shard-00000.safetensors  what process 0 holds, and so on
  index.json               which rows of which tensor stand in which file, checksums, progress; sealed, written last

What is saved on n processes is loaded on m, or in a plain one. The usual storage of torch.distributed.checkpoint keeps
its index as a pickle, which can execute: this one keeps it as JSON.
"""

from __future__ import annotations

import os
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    SavePlan,
    SavePlanner,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from conjoin.errors import RunError
from conjoin.files import make_folder, read_sealed, sha256_of, sync_folder, write_sealed
from conjoin.learn.train import Progress, Training
from conjoin.learn.weights import TABLE, check_header, check_state, state_of
from conjoin.processes import current, together

INDEX = "index.json"
FORMAT = "conjoin shards"
DTYPES = {"float32": torch.float32, "float64": torch.float64, "int64": torch.int64}


def save_shards(folder: Path, training: Training, *, words: Mapping[str, Any] | None = None) -> None:
    """Write a checkpoint below `folder`; all processes take part, each with what it holds. The first one's `words`
    are kept with it."""
    target = folder / f"{training.progress.epoch:06d}"
    mesh = current()
    if mesh.agreed((target / INDEX).exists()):  # the same epoch: writing it again would first take away what is there
        return
    if mesh.is_first:
        shutil.rmtree(target, ignore_errors=True)
        make_folder(target)
    mesh.agreed(0)
    with _told(target):
        storage = _Writer(target, {**(words or {}), "progress": asdict(training.progress)})
        save(_state(training), storage_writer=storage, planner=_SavePlanner(), no_dist=mesh.count == 1)
    if mesh.is_first:
        for older in folder.glob("[0-9]*"):
            if older != target:
                shutil.rmtree(older)


def newest_shards(folder: Path) -> Path | None:
    """The latest complete checkpoint below `folder`."""
    complete = [index.parent for index in folder.glob(f"*/{INDEX}") if re.fullmatch("[0-9]{6,}", index.parent.name)]
    return max(complete, default=None, key=lambda found: int(found.name))


def load_shards(target: Path, training: Training) -> Mapping[str, Any]:
    """Put a training where the checkpoint left it, on however many processes, this plain one included; its words."""
    try:
        index = read_sealed(target / INDEX)
        progress, tensors = Progress.of(index["progress"]), index["tensors"]
        with _told(target):
            storage = _Reader(target, index)
            places = _places(training, tensors)
            if any(list(place.size()) != tensors[name]["shape"] for name, place in places.items()):
                raise ValueError("its tensors have other shapes")
            load(places, storage_reader=storage, planner=_LoadPlanner(), no_dist=current().count == 1)
        training.progress = progress
        check_state(training)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, RuntimeError) as error:
        raise RunError(f"{target} does not belong to this run ({error})") from error
    return index


class Rows:
    """Some rows of a table, as torch.distributed.checkpoint wants to know them."""

    def __init__(self, held: Tensor, first: int, entities: int) -> None:
        self.held, self.first, self.entities = held, first, entities

    def size(self) -> torch.Size:
        return torch.Size([self.entities, *self.held.shape[1:]])

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        offsets = torch.Size([self.first, *[0] * (self.held.ndim - 1)])
        return [ChunkStorageMetadata(offsets, self.held.size())] if len(self.held) else []

    def __create_write_items__(self, name: str, _: object) -> list[WriteItem]:
        properties = TensorProperties.create_from_tensor(self.held)
        return [
            WriteItem(
                index=MetadataIndex(name, chunk.offsets),
                type=WriteItemType.SHARD,
                tensor_data=TensorWriteData(chunk, properties, self.size()),
            )
            for chunk in self.__create_chunk_list__()
        ]


class _SavePlanner(DefaultSavePlanner):
    def lookup_object(self, index: MetadataIndex) -> Any:
        return _tensor(self.state_dict[index.fqn])


class _LoadPlanner(DefaultLoadPlanner):
    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Take the state as it is; the default makes room for tensors that have none yet, and knows no `Rows`."""
        self.state_dict = self.original_state_dict = state_dict
        self.metadata, self.is_coordinator = metadata, is_coordinator

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        return _tensor(self.state_dict[index.fqn])


def _tensor(place: Any) -> Tensor:
    tensor: Tensor = place.held if isinstance(place, Rows) else place
    return tensor


def _state(training: Training) -> dict[str, Any]:
    """All that continuing needs, as this process holds it."""
    return {name: _as_rows(training, name, tensor) for name, tensor in state_of(training).items()}


def _places(training: Training, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Where everything stored goes: into the training's own tensors; those it has not made yet are made."""
    parameters = list(training.model.parameters())
    places = _state(training)
    training.best_weights = {} if not any(name.startswith("best.") for name in stored) else training.best_weights
    for name in stored.keys() - places.keys():
        kind, _, rest = name.partition(".")
        number, _, slot = rest.partition(".")
        parameter = training.model.get_parameter(rest) if kind == "best" else parameters[int(number)]
        shape = parameter.shape if stored[name]["shape"] else ()
        tensor = torch.zeros(shape, dtype=DTYPES[stored[name]["dtype"]], device=parameter.device if shape else None)
        if kind == "best":
            training.best_weights[rest] = tensor
        else:
            training.step.optimizer.state[parameter][slot] = tensor
        places[name] = _as_rows(training, name, tensor)
    return {name: places[name] for name in stored}


def _as_rows(training: Training, name: str, tensor: Tensor) -> Any:
    """Tensors that grow with the entities are held in part; the others are whole everywhere."""
    table = training.model.entities
    kind, _, rest = name.partition(".")
    of_table = rest == TABLE
    if kind == "optimizer" and tensor.ndim == 2:
        of_table = list(training.model.parameters())[int(rest.partition(".")[0])] is table.weight
    first = current().span(len(table))[0]
    return Rows(tensor.detach(), first, len(table)) if of_table else tensor.detach()


class _Writer(StorageWriter):
    """One safetensors file a process, and an index of all of them."""

    def __init__(self, folder: Path, words: Mapping[str, Any]) -> None:
        self.folder, self.words = folder, words

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        pass

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        pass

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        file = self.folder / f"shard-{current().rank:05d}.safetensors"
        tensors = {item.index.fqn: planner.resolve_data(item).detach().cpu().contiguous() for item in plan.items}  # type: ignore[union-attr]
        save_file(tensors, file)
        with file.open("rb+") as written:
            os.fsync(written.fileno())
        stored = {"file": file.name, "sha256": sha256_of(file)}
        done: Future[list[WriteResult]] = Future()
        sizes = [tensors[item.index.fqn].nbytes for item in plan.items]
        done.set_result([WriteResult(i.index, size, stored) for i, size in zip(plan.items, sizes, strict=True)])
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        tensors: dict[str, Any] = {}
        for name, about in metadata.state_dict_metadata.items():
            assert isinstance(about, TensorStorageMetadata)
            kind = str(about.properties.dtype).removeprefix("torch.")
            tensors[name] = {"dtype": kind, "shape": list(about.size), "chunks": []}
        files: dict[str, str] = {}
        for result in (each for found in results for each in found):
            about = metadata.state_dict_metadata[result.index.fqn]
            assert isinstance(about, TensorStorageMetadata)
            chunk = next(chunk for chunk in about.chunks if chunk.offsets == result.index.offset)
            place = {"offsets": list(chunk.offsets), "sizes": list(chunk.sizes), "file": result.storage_data["file"]}
            tensors[result.index.fqn]["chunks"].append(place)
            files[result.storage_data["file"]] = result.storage_data["sha256"]
        write_sealed(self.folder / INDEX, {"format": FORMAT, "tensors": tensors, "files": files, **self.words})
        sync_folder(self.folder.parent)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:  # noqa: ARG003
        return False


class _Reader(StorageReader):
    """Reads what `_Writer` wrote, by rows, and only from files whose checksums fit."""

    def __init__(self, folder: Path, index: Mapping[str, Any]) -> None:
        self.folder, self.index = folder, index
        self._metadata = Metadata({name: _described(about) for name, about in index["tensors"].items()})

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        pass

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:  # noqa: ARG002
        return self._metadata

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        pass

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        by_file: dict[str, list[Any]] = {}
        for item in plan.items:
            chunks = self.index["tensors"][item.storage_index.fqn]["chunks"]
            file = next(c["file"] for c in chunks if torch.Size(c["offsets"]) == item.storage_index.offset)
            by_file.setdefault(file, []).append(item)
        for name, items in by_file.items():
            file = self.folder / Path(name).name
            if sha256_of(file) != self.index["files"][name]:
                raise RunError(f"{file} is damaged: its content does not fit its checksum in {INDEX}")
            check_header(file)
            with safe_open(file, framework="pt") as stored:
                for item in items:
                    tensor = stored.get_tensor(item.storage_index.fqn) if not item.lengths else None
                    if tensor is None:
                        parts = zip(item.storage_offsets, item.lengths, strict=True)
                        cut = tuple(slice(start, start + length) for start, length in parts)
                        tensor = stored.get_slice(item.storage_index.fqn)[cut]
                    planner.resolve_tensor(item).detach().copy_(tensor)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:  # noqa: ARG003
        return False


def _described(about: Mapping[str, Any]) -> TensorStorageMetadata:
    """A tensor of the index; a ValueError where its chunks do not make it up."""
    shape = torch.Size(about["shape"])
    chunks = [ChunkStorageMetadata(torch.Size(c["offsets"]), torch.Size(c["sizes"])) for c in about["chunks"]]
    held = sorted((chunk.offsets[0], chunk.offsets[0] + chunk.sizes[0]) for chunk in chunks if shape)
    if min(shape, default=0) < 0 or (shape and [0, *(stop for _, stop in held)] != [*(at for at, _ in held), shape[0]]):
        raise ValueError("its parts do not make up a whole")
    return TensorStorageMetadata(TensorProperties(dtype=DTYPES[about["dtype"]]), shape, chunks)


@contextmanager
def _told(target: Path) -> Iterator[None]:
    """Errors of any process as one of ours."""
    try:
        with together(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is")
            yield
    except CheckpointException as failed:
        rank, (error, _) = min(failed.failures.items())
        if isinstance(error, RunError):
            raise RunError(str(error)) from error
        if isinstance(error, OSError | SafetensorError):
            raise RunError(f"{target}: process {rank} cannot use its part of the checkpoint ({error})") from error
        raise RunError(f"{target} does not belong to this run ({error})") from error
