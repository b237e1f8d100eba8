"""A run folder: the truth about a run. Measuring writes it, reporting reads it. Does not import torch.

run.json            everything that determines the numbers, the data's checksum, versions
events.jsonl        one line per epoch: loss, penalty, seconds, validation
checkpoint.safetensors   while the run is under way
model.safetensors   last weights;  best.safetensors  best on valid, where validated
graph/              vocabularies and triples, so that the folder needs no other file
ranks-test.parquet  per question: head, relation, tail, direction, better, tied, candidates
result.json         written last and atomically: the run is done
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conjoin.errors import RunError
from conjoin.files import read_json, replacing, sha256_of, write_json
from conjoin.ranking.ranks import Ranks
from conjoin.study.run import Run


@dataclass(frozen=True)
class RunFolder:
    """Paths and contents of one run."""

    path: Path

    @property
    def settings_file(self) -> Path:
        return self.path / "run.json"

    @property
    def events_file(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def checkpoint_file(self) -> Path:
        return self.path / "checkpoint.safetensors"

    @property
    def result_file(self) -> Path:
        return self.path / "result.json"

    @property
    def graph_folder(self) -> Path:
        return self.path / "graph"

    def weights_file(self, weights: str) -> Path:
        return self.path / ("best.safetensors" if weights == "best" else "model.safetensors")

    def ranks_file(self, split: str) -> Path:
        return self.path / f"ranks-{split}.parquet"

    @property
    def exists(self) -> bool:
        return self.settings_file.exists()

    @property
    def finished(self) -> bool:
        return self.result_file.exists()

    @property
    def run(self) -> Run:
        """The settings that this folder belongs to."""
        if not self.exists:
            raise RunError(f"{self.path} is not a run folder: it has no run.json")
        settings = self._object(self.settings_file)
        run = Run.from_json(settings.get("run", {}))
        if settings.get("id") != run.id:
            raise RunError(f"{self.settings_file} is damaged: its id {settings.get('id')} does not fit its settings")
        return run

    @property
    def result(self) -> dict[str, Any]:
        """What was measured; only finished runs have it."""
        if not self.finished:
            raise RunError(f"{self.path} is not finished: continue it with `conjoin train … -o {self.path} --resume`")
        return self._object(self.result_file)

    @property
    def events(self) -> list[dict[str, Any]]:
        """One entry per epoch. A last line cut short by a crash is left out."""
        if not self.events_file.exists():
            return []
        events = []
        for line in self.events_file.read_text(encoding="utf-8").splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                break
        return events

    def verify(self, file: Path) -> None:
        """Refuse a file whose bytes are not those that were measured."""
        expected = self.result.get("files", {}).get(file.name)
        if sha256_of(file) != expected:
            raise RunError(f"{file} is damaged: its checksum is not the one in {self.result_file.name}; run again")

    def ranks(self, split: str = "test") -> Ranks:
        """Per-question standings that were kept."""
        self.verify(self.ranks_file(split))
        return Ranks.read(self.ranks_file(split))

    def begin(self, run: Run, environment: dict[str, Any], command: str | None) -> None:
        """Claim the folder for a run."""
        write_json(
            self.settings_file,
            {"id": run.id, "run": run.to_json(), "environment": environment, "command": command},
        )

    def append(self, event: dict[str, Any]) -> None:
        """Add one epoch's event."""
        with self.events_file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(event, sort_keys=True, allow_nan=False) + "\n")

    def keep_events_until(self, epoch: int) -> None:
        """Forget the events of epochs that will be run again."""
        kept = [event for event in self.events if event["epoch"] <= epoch]
        with replacing(self.events_file) as aside:
            aside.write_text("".join(json.dumps(event, sort_keys=True) + "\n" for event in kept), encoding="utf-8")

    def finish(self, result: dict[str, Any]) -> None:
        """Write the result with the checksums of the files it rests on, then drop the checkpoint."""
        kept = [*self.path.glob("*.safetensors"), *self.path.glob("ranks-*.parquet"), self.events_file]
        checksums = {path.name: sha256_of(path) for path in kept if path != self.checkpoint_file and path.exists()}
        write_json(self.result_file, {**result, "files": checksums})
        self.checkpoint_file.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process works on a folder; the lock dies with its process."""
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise RunError(
                f"another process is working on {self.path}: wait for it, or choose another folder"
            ) from error
        try:
            yield
        finally:
            os.close(descriptor)

    @staticmethod
    def _object(path: Path) -> dict[str, Any]:
        value = read_json(path)
        if not isinstance(value, dict):
            raise RunError(f"{path} is damaged: it does not hold an object")
        return value
