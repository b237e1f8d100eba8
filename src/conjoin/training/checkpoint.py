"""Weights and training state as safetensors files: tensors and JSON, nothing that can execute."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from conjoin.errors import RunError
from conjoin.model.model import Model
from conjoin.runtime import file_limits
from conjoin.runtime.atomic_files import SEAL, broken_seal, open_regular, parse_json, replacing
from conjoin.runtime.distributed import current
from conjoin.runtime.format_version import KEY, STAMP, check_format_version
from conjoin.training.loop import Progress, Training
from conjoin.training.optimizer import SLOTS

TABLE = "entities.weight"
BLOCK_BYTES = 64 << 20
"""Bytes of a table that are in memory at once while it is written or read."""
DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.bfloat16: "BF16", torch.int64: "I64"}


def save_tensors(path: Path, tensors: Mapping[str, Tensor | Streamed], words: Mapping[str, Any]) -> None:
    """Write tensors, `words` (values that JSON can hold) and a checksum of both to one file.

    The write is atomic, and only one block of rows is in memory at a time.
    """
    words = {**words, **STAMP}
    streams = {name: t if isinstance(t, Streamed) else _streamed(t) for name, t in sorted(tensors.items())}
    offset, header = 0, {}
    for name, stream in streams.items():
        length = math.prod(stream.shape) * stream.dtype.itemsize
        offsets = [offset, offset + length]
        header[name] = {"dtype": DTYPES[stream.dtype], "shape": list(stream.shape), "data_offsets": offsets}
        offset += length
    with replacing(path) as temporary, temporary.open("wb") as file, ThreadPoolExecutor(1) as hasher:
        file.write(_header(header, {**words, SEAL: "0" * 64}))
        digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
        for name, stream in streams.items():
            digest.update(_introduced(name, stream.dtype, stream.shape))
            for block in stream.blocks():
                octets = _octets(block)
                hashed = hasher.submit(digest.update, octets)  # in parallel: hashing takes as long as writing
                file.write(octets)
                hashed.result()
        file.seek(0)
        file.write(_header(header, {**words, SEAL: digest.hexdigest()}))


@dataclass(frozen=True)
class Streamed:
    """A tensor given as blocks along its first dimension, so that no process has to hold all of it."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    blocks: Callable[[], Iterator[Tensor]]


def save_model(path: Path, model: Model, weights: Mapping[str, Tensor], words: Mapping[str, Any]) -> None:
    """Write a model's weights as one file. All processes that hold a part call this; the first one writes."""
    table = model.entities
    local = weights[TABLE]
    size = max(1, BLOCK_BYTES // (local.element_size() * local.shape[1]))
    whole = Streamed(local.dtype, (len(table), local.shape[1]), lambda: table.blocks(local, size))
    if current().is_first:
        save_tensors(path, {**weights, TABLE: whole}, words)
    else:
        for _ in whole.blocks():
            pass


def opened_dtype(path: Path) -> torch.dtype:
    """The dtype to open a model in: float64 if the file has float64 weights, because the model was ranked in float64;
    otherwise float32."""
    with _reading(path) as (stored, _):
        dtypes = {stored.get_slice(name).get_dtype() for name in stored.keys()}  # noqa: SIM118
    return torch.float64 if DTYPES[torch.float64] in dtypes else torch.float32


def load_model(path: Path, model: Model) -> None:
    """Fill a model from a file of `save_model`, one block of rows at a time. Every process takes its own rows."""
    digest = hashlib.sha256()
    with _reading(path) as (stored, words):
        seal = words.pop(SEAL)
        digest.update(json.dumps(words, sort_keys=True).encode())
        state = model.state_dict()
        wanted = {name: tuple(tensor.shape) for name, tensor in state.items()}
        wanted[TABLE] = (len(model.entities), model.form.entity_width(model.rank))
        names = sorted(stored.keys())
        if names != sorted(wanted):
            raise RunError(
                f"{path} does not belong to this run. It contains {', '.join(names) or 'nothing'}; the model has "
                f"{', '.join(sorted(wanted))}."
            )
        for name in names:
            rows = stored.get_slice(name)
            shape = tuple(rows.get_shape())
            if wanted[name] != shape:
                raise RunError(
                    f"{path} does not belong to this run. {name} has the shape {shape}, expected {wanted[name]}."
                )
            if len(shape) < len(wanted[TABLE]):  # parameters and state that relations share
                block = stored.get_tensor(name)
                digest.update(_introduced(name, block.dtype, shape))
                digest.update(_octets(block))
                state[name].copy_(block)
                continue
            size = max(1, BLOCK_BYTES // (4 * shape[1]))
            for start in range(0, max(1, shape[0]), size):
                block = rows[start : start + size]
                if start == 0:
                    digest.update(_introduced(name, block.dtype, shape))
                digest.update(_octets(block))
                if name == TABLE:
                    model.entities.put(start, block)
                else:
                    state[name][start : start + size] = block
    if seal != digest.hexdigest():
        raise broken_seal(path)


def _header(tensors: Mapping[str, Any], words: Mapping[str, Any]) -> bytes:
    """The header of a safetensors file: its length, then JSON, padded with spaces to a multiple of eight bytes."""
    named = {"__metadata__": {"conjoin": json.dumps(words, sort_keys=True)}, **tensors}
    encoded = json.dumps(named, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    return len(encoded).to_bytes(8, "little") + encoded


def _streamed(tensor: Tensor) -> Streamed:
    whole = tensor.detach()
    if whole.ndim == 0:
        return Streamed(whole.dtype, (), lambda: iter([whole.reshape(1)]))
    size = max(1, BLOCK_BYTES * len(whole) // max(1, whole.nbytes))
    starts = range(0, len(whole), size)
    return Streamed(whole.dtype, tuple(whole.shape), lambda: (whole[start : start + size] for start in starts))


def _octets(block: Tensor) -> Any:
    return block.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def _introduced(name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> bytes:
    return f"/{name} {dtype} {shape}/".encode()


def check_header(path: Path) -> None:
    """Raise ValueError for a header beyond the limit: parsing it would take many times its size in memory."""
    with open_regular(path) as stream:
        size = int.from_bytes(stream.read(8), "little")
    if size > file_limits.HEADER:
        raise ValueError(f"its header has {size:,} bytes; the limit is {file_limits.HEADER:,}")


@contextmanager
def _reading(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Open a file of `save_tensors`; yield it and its words, including the checksum. RunError if it cannot be read."""
    try:
        check_header(path)
        with _opened(path) as stored:
            words = parse_json((stored.metadata() or {})["conjoin"].encode())
            if SEAL not in words:
                raise KeyError(SEAL)
            check_format_version(words, path)
            yield stored, words
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror or error}).") from error
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(f"{path} cannot be read as weights ({error}). Delete the folder and run again.") from error


def _opened(path: Path) -> Any:
    """The file, open for reading. OSError if the system cannot map it (RuntimeError or MemoryError in torch)."""
    try:
        return safe_open(path, framework="pt")
    except (RuntimeError, MemoryError) as error:
        raise OSError(str(error)) from error


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and words of a file of `save_tensors`; RunError if its checksum is wrong."""
    with _reading(path) as (stored, words):
        seal = words.pop(SEAL)
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    if seal != _digest(tensors, words):
        raise broken_seal(path)
    words.pop(KEY, None)
    return tensors, words


def _digest(tensors: Mapping[str, Tensor], words: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(_introduced(name, tensor.dtype, tuple(tensor.shape)))
        digest.update(_octets(tensor))
    return digest.hexdigest()


def save_checkpoint(path: Path, training: Training, *, words: Mapping[str, Any] | None = None) -> None:
    """Write everything that resuming needs: weights, best weights, optimiser state, progress and the costs of an
    interrupted epoch.

    `load_checkpoint` returns the `words` that are stored with it.
    """
    tensors = state_of(training)
    if training.costs:
        tensors["costs"] = torch.stack(training.costs)
    save_tensors(path, tensors, {**(words or {}), "progress": asdict(training.progress)})


def state_of(training: Training) -> dict[str, Tensor]:
    """Weights, best weights and optimiser state by their names in checkpoints: "model.…", "best.…", "optimizer.…"."""
    tensors = {f"model.{name}": tensor for name, tensor in training.model.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in training.best_weights.items()}
    return tensors | {f"optimizer.{name}": tensor for name, tensor in training.step.optimizer.remembered()}


def saved_place(path: Path) -> tuple[int, int]:
    """The number of finished epochs in a checkpoint, and of finished steps of the next epoch."""
    with _reading(path) as (stored, words):
        steps = stored.get_slice("costs").get_shape()[0] if "costs" in stored.keys() else 0  # noqa: SIM118
        return Progress.of(words["progress"]).epoch, steps


def load_checkpoint(path: Path, training: Training) -> Mapping[str, Any]:
    """Set a training to the state of a checkpoint; return the words that are stored with it."""
    tensors, words = load_tensors(path)
    try:
        table = training.model.entities
        training.model.load_state_dict(_under("model", tensors))
        training.best_weights = {
            name: (table.cut(tensor) if name == TABLE else tensor).to(training.model.device, copy=True)
            for name, tensor in _under("best", tensors).items()
        }
        slots, parameters = _under("optimizer", tensors), training.step.optimizer.parameters
        for name, tensor in slots.items():
            if tensor.ndim == 2 and parameters[int(name.partition(".")[0])] is table.weight:
                slots[name] = table.cut(tensor)
        training.step.optimizer.remember(slots)
        training.progress = Progress.of(words["progress"])
        width = len(training.step.objective.names)
        training.costs = list(tensors.get("costs", torch.empty(0, width)).to(training.model.device))
        if any(costs.shape != (width,) for costs in training.costs):
            raise ValueError(f"costs must have {width} numbers per step, got {training.costs[0].numel()}")
        check_state(training)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, RuntimeError) as error:
        raise RunError(f"{path} does not belong to this run ({error})") from error
    return words


def check_state(training: Training) -> None:
    """Raise ValueError if weights or optimiser state do not fit the training.

    A correct checksum does not show that the content is valid: anybody can compute one.
    """
    own = {name: tensor.shape for name, tensor in training.model.state_dict().items()}
    best = {name: tensor.shape for name, tensor in training.best_weights.items()}
    if best != (own if training.progress.best_epoch else {}):
        raise ValueError(f"unexpected best weights for best_epoch = {training.progress.best_epoch}")
    for parameter, slots in training.step.optimizer.state.items():
        if slots and {*slots} != {"step", *SLOTS[training.step.optimizer.rule]}:
            raise ValueError(f"unexpected optimizer state: {', '.join(slots)}")
        for name, slot in slots.items():
            shape = () if name == "step" else tuple(parameter.shape)
            if tuple(slot.shape) != shape:
                raise ValueError(f"optimizer state {name} has the shape {tuple(slot.shape)}, expected {shape}")


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = prefix + "."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
