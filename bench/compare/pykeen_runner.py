"""Measure PyKEEN in the interpreter where it is installed."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from bench.compare import pykeen_worker
from bench.compare.cells import BenchCell

from conjoin.errors import UsageError
from conjoin.graph.graph import Graph

if TYPE_CHECKING:
    from bench.compare.training import Effort

FORMS = ("complex",)
"""Our forms that PyKEEN also has."""


@dataclass(frozen=True)
class PykeenRunner:
    """An interpreter that can import PyKEEN."""

    python: Path

    def check(self) -> str:
        """PyKEEN's version. Raises UsageError if the interpreter cannot import PyKEEN."""
        try:
            told = subprocess.run(
                [str(self.python), "-c", "import pykeen; print(pykeen.get_version())"],
                capture_output=True,
                text=True,
                check=True,
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise UsageError(
                f"{self.python} cannot import PyKEEN: make an environment for it (python -m venv pykeen; "
                "pykeen/bin/pip install torch pykeen) and name its interpreter, --pykeen pykeen/bin/python"
            ) from error
        return told.stdout.strip()

    def train(self, cell: BenchCell, graph: Graph, *, device: str, effort: Effort) -> dict[str, Any]:
        """Seconds of one pass over the same triples; None for a form that PyKEEN does not have."""
        return self._run("train", cell, graph, device=device, steps=1000, limit=effort.seconds)

    def rank(self, cell: BenchCell, graph: Graph, *, device: str) -> dict[str, Any]:
        """Seconds to rank the test split."""
        return self._run("rank", cell, graph, device=device, steps=0, limit=0)

    def _run(
        self, theme: str, cell: BenchCell, graph: Graph, *, device: str, steps: int, limit: float
    ) -> dict[str, Any]:
        if cell.form not in FORMS:
            return {}
        with tempfile.TemporaryDirectory() as scratch:
            triples, settings = Path(scratch) / "triples.npz", Path(scratch) / "settings.json"
            np.savez(triples, train=graph.train, valid=graph.valid, test=graph.test)
            wanted = {
                "theme": theme,
                "triples": str(triples),
                "entities": graph.n_entities,
                "relations": graph.n_relations,
                "rank": cell.rank,
                "batch": cell.batch,
                "precision": cell.precision,
                "device": device,
                "threads": torch.get_num_threads(),
                "steps": steps,
                "limit": limit,
            }
            settings.write_text(json.dumps(wanted), encoding="utf-8")
            words = [str(self.python), pykeen_worker.__file__, str(settings)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            raise UsageError(f"PyKEEN failed on {cell}: {said[-1]}")
        found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return found
