"""Processes that work for this one and import nothing of the script that runs: it needs no `__name__` guard."""

from __future__ import annotations

import sys
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import ClassVar


class _Worker(SpawnProcess):
    """A spawned process runs the file of the main module once more, so that one is out of sight while it starts."""

    def start(self) -> None:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = main


class SpawnWithoutMain(SpawnContext):
    """How a pool starts such processes. What they are asked to do has to be in a module that can be imported."""

    Process: ClassVar[type[SpawnProcess]] = _Worker
