"""What torch operations allocate, seen by a dispatch mode instead of a clock or a process monitor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Allocations(TorchDispatchMode):
    """Inside it, `largest` is the biggest tensor any operation returned and `peak` the most alive at once, in bytes.

    Storages that existed before an operation took them as an argument count for nothing.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.largest = self.peak = 0
        self._given: set[int] = set()
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        for tensor in _tensors((args, kwargs)):
            if (pointer := tensor.untyped_storage().data_ptr()) not in self._alive:
                self._given.add(pointer)
        result = func(*args, **(kwargs or {}))
        self._alive = {p: (ref, size) for p, (ref, size) in self._alive.items() if not ref.expired()}  # type: ignore[no-untyped-call]
        for tensor in _tensors(result):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self._given:
                self._alive[storage.data_ptr()] = (StorageWeakRef(storage), storage.nbytes())  # type: ignore[no-untyped-call]
                self.largest = max(self.largest, storage.nbytes())
        self.peak = max(self.peak, sum(size for _, size in self._alive.values()))
        return result


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
