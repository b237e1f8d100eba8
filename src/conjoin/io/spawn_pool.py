"""Spawn worker processes that do not import the running script, which therefore needs no `__name__` guard."""

from __future__ import annotations

import sys
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import ClassVar


class _Worker(SpawnProcess):
    """A spawned process runs the file of the main module again, so the main module is hidden while it starts."""

    def start(self) -> None:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = main


class SpawnWithoutMain(SpawnContext):
    """The multiprocessing context of such processes. Their functions must be in importable modules."""

    Process: ClassVar[type[SpawnProcess]] = _Worker
