"""Weights and training state as safetensors files: tensors and a few words, nothing that can execute."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from conjoin.errors import RunError
from conjoin.files import SEAL, replacing
from conjoin.learn.train import Progress, Training


def save_tensors(path: Path, tensors: Mapping[str, Tensor], words: Mapping[str, Any]) -> None:
    """Write tensors, JSON-able words and a checksum of both to one file, atomically."""
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    sealed = {**words, SEAL: _digest(on_cpu, words)}
    with replacing(path) as aside:
        aside.touch()
        usual = aside.stat().st_mode
        save_file(on_cpu, aside, metadata={"conjoin": json.dumps(sealed, sort_keys=True)})
        aside.chmod(usual)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The inverse of `save_tensors`."""
    try:
        with safe_open(path, framework="pt") as stored:
            words = json.loads((stored.metadata() or {})["conjoin"])
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        seal = words.pop(SEAL)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(f"{path} cannot be read as weights ({error}): delete the folder and run again") from error
    if seal != _digest(tensors, words):
        raise RunError(f"{path} is damaged: its content does not fit its own checksum; delete the folder and run again")
    return tensors, words


def _digest(tensors: Mapping[str, Tensor], words: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"/{name} {tensor.dtype} {tuple(tensor.shape)}/".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def save_checkpoint(path: Path, training: Training) -> None:
    """Everything that continuing needs: weights, best weights, optimiser state and progress."""
    tensors = {f"model.{name}": tensor for name, tensor in training.model.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in training.best_weights.items()}
    for number, slots in training.step.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{slot}": tensor for slot, tensor in slots.items()}
    save_tensors(path, tensors, {"progress": asdict(training.progress)})


def load_checkpoint(path: Path, training: Training) -> None:
    """Put a training where the checkpoint left it."""
    tensors, words = load_tensors(path)
    try:
        training.model.load_state_dict(_under("model", tensors))
        training.best_weights = {
            name: tensor.to(training.model.device) for name, tensor in _under("best", tensors).items()
        }
        slots: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _under("optimizer", tensors).items():
            number, slot = name.split(".", 1)
            slots.setdefault(int(number), {})[slot] = tensor
        groups = training.step.optimizer.state_dict()["param_groups"]
        training.step.optimizer.load_state_dict({"state": slots, "param_groups": groups})
        training.progress = Progress(**words["progress"])
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        raise RunError(f"{path} does not belong to this run ({error})") from error


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = prefix + "."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
