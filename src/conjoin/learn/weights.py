"""Weights and training state as safetensors files: tensors and a few words, nothing that can execute."""

from __future__ import annotations

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
from conjoin.files import replacing
from conjoin.learn.train import Progress, Training


def save_tensors(path: Path, tensors: Mapping[str, Tensor], words: Mapping[str, Any]) -> None:
    """Write tensors and JSON-able words to one file, atomically."""
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path) as aside:
        save_file(on_cpu, aside, metadata={"conjoin": json.dumps(words, sort_keys=True)})


def load_tensors(path: Path, *, device: torch.device | str = "cpu") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The inverse of `save_tensors`."""
    try:
        with safe_open(path, framework="pt", device=str(device)) as stored:
            words = json.loads((stored.metadata() or {})["conjoin"])
            return {name: stored.get_tensor(name) for name in stored.keys()}, words  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise RunError(f"{path} cannot be read as weights ({error})") from error


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
