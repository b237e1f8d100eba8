"""The folder of a run: training and ranking write it, reports read it. Does not import torch.

run.json            everything that determines the numbers, the data's checksum, versions (also earlier ones)
events.jsonl        one line per epoch: loss, penalty, seconds, validation
checkpoint.safetensors   while the run is under way; checkpoint/ where several processes share it
model.safetensors   last weights;  best.safetensors  best on valid, where validated
graph/              vocabularies and triples, so that the folder needs no other file
ranks-test.parquet  per question: head, relation, tail, direction, better, tied, candidates
result.json         written last and atomically; a run with this file is finished
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conjoin.errors import RunError, UsageError
from conjoin.evaluation.ranks import Ranks
from conjoin.graph.graph import HELD_OUT
from conjoin.runs.run import Run
from conjoin.runtime import file_limits
from conjoin.runtime.atomic_files import (
    making,
    parse_json,
    read_limited,
    record,
    replacing,
    sealed_record,
    sha256_of,
    write_sealed,
)
from conjoin.runtime.file_locks import taken
from conjoin.runtime.format_version import STAMP, check_format_version

COSTS = ("epochs", "parameters", "relation_parameters", "relation_bytes", "peak_bytes")
MEANS = ("threads", "processes", "replicas", "torch", "device", "name", "path")
"""Parts of the environment in run.json that can change the last bits of a sum."""
SECONDS = ("seconds_per_epoch", "seconds_last_epoch", "seconds_total")


class _Result(dict[str, Any]):
    """The content of result.json; a missing key raises RunError."""

    def __missing__(self, part: str) -> Any:
        raise RunError(f"The result of this run lacks {part!r}. Delete its folder and run again.")


def _is_result(found: dict[str, Any]) -> bool:
    """Whether all parts have the right types. A valid checksum does not ensure this: anyone can write one."""
    versions = [found, *(found[name] for name in ("last", "best") if found.get(name) is not None)]
    if not all(isinstance(version, dict) for version in versions):
        return False
    splits = [version[split] for version in versions for split in HELD_OUT if split in version]
    files = found.get("files")
    if not isinstance(files, dict) or not all(isinstance(split, dict) for split in splits):
        return False
    numbers = [value for split in splits for value in split.values()]
    numbers += [found[name] for name in (*COSTS, *SECONDS) if name in found]
    return all(type(checksum) is str for checksum in files.values()) and all(
        value is None or type(value) in (int, float) for value in numbers
    )


@dataclass(frozen=True)
class RunFolder:
    """Paths and contents of one run. It can be used wherever a path is expected."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

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
    def shards_folder(self) -> Path:
        return self.path / "checkpoint"

    @property
    def half_done(self) -> bool:
        """Whether there is a checkpoint to continue from."""
        return self.checkpoint_file.exists() or self.shards_folder.is_dir()

    @property
    def lock_file(self) -> Path:
        """Held by the process that works on the folder; see `conjoin.runtime.file_locks`."""
        return self.path / ".lock"

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

    def holds(self, name: str) -> bool:
        """Whether there is a file of this name. The archive of a study overrides this for runs without a folder."""
        return (self.path / name).exists()

    def content(self, name: str, limit: int) -> bytes:
        """The bytes of a file of at most `limit` bytes; an OSError where it is not there or larger."""
        return read_limited(self.path / name, limit)

    def holds_ranks(self, split: str) -> bool:
        """Whether there are ranks of a split."""
        return self.holds(self.ranks_file(split).name)

    def checksum(self, name: str) -> str:
        """SHA-256 of a file; an OSError where it cannot be read."""
        return sha256_of(self.path / name)

    @property
    def exists(self) -> bool:
        return self.holds(self.settings_file.name)

    @property
    def finished(self) -> bool:
        return self.holds(self.result_file.name)

    @property
    def settings(self) -> dict[str, Any]:
        """run.json: id, run, environment, command and, where the run went on elsewhere, earlier environments."""
        return self._sealed(self.settings_file)

    def record(self, name: str, limit: int = file_limits.RECORD) -> Any:
        """The value of a JSON file; a RunError where it cannot be read."""
        return record(self._content(self.path / name, limit), self.path / name)

    def _sealed(self, file: Path) -> dict[str, Any]:
        stored = sealed_record(self._content(file, file_limits.RECORD), file)
        check_format_version(stored, file)
        return stored

    def _content(self, file: Path, limit: int) -> bytes:
        try:
            return self.content(file.name, limit)
        except OSError as error:
            raise RunError(f"Cannot read {file}: {error.strerror or error}.") from error

    @property
    def run(self) -> Run:
        """The settings that this folder belongs to."""
        if not self.exists:
            raise RunError(f"{self.path} is not a run folder: run.json is missing. Check the path.")
        settings = self.settings
        try:
            return Run.from_json(settings.get("run", {}))
        except UsageError as error:
            raise RunError(f"Cannot use {self.settings_file}: {error}") from error

    @property
    def result(self) -> dict[str, Any]:
        """What was measured; only finished runs have it."""
        if not self.finished:
            raise self.unfinished()
        found = self._sealed(self.result_file)
        if not _is_result(found):
            raise RunError(f"{self.result_file} is not the result of a run. Delete the folder and run again.")
        return _Result(found)

    def unfinished(self) -> RunError:
        """The error for reading results of an unfinished run."""
        return RunError(
            f"The run in {self.path} is not finished. Continue it with conjoin.execute "
            f"(conjoin train … -o {self.path} --resume)."
        )

    @property
    def events(self) -> list[dict[str, Any]]:
        """One entry per epoch. An incomplete last line is left out; any other damage raises RunError."""
        if self.holds(self.events_file.name) and self.finished:
            self.verify(self.events_file)
        lines = self._event_lines()
        try:
            events: list[dict[str, Any]] = [parse_json(line) for line in lines]
            in_order = [event["epoch"] for event in events] == list(range(1, len(events) + 1))
        except (ValueError, TypeError, KeyError):
            in_order = False
        if not in_order:
            raise RunError(
                f"{self.events_file} is damaged: it must have one line per epoch. Delete the folder and run again."
            )
        return events

    def _event_lines(self) -> list[bytes]:
        """The whole lines of the file; none where there is no file."""
        try:
            content = self.content(self.events_file.name, file_limits.LARGE_RECORD)
            if content.count(b"\n") > file_limits.EVENTS or content.count(b",") > file_limits.VALUES:
                raise RunError(
                    f"{self.events_file} is damaged: it has more than {file_limits.EVENTS:,} lines or "
                    f"{file_limits.VALUES:,} values. Delete the folder and run again."
                )
            return content.split(b"\n")[:-1]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise RunError(f"Cannot read {self.events_file}: {error.strerror or error}.") from error

    def verify(self, file: Path) -> None:
        """Raise RunError unless the file has the checksum that the result records."""
        expected = self.result["files"].get(file.name)
        try:
            found = self.checksum(file.name)
        except OSError as error:
            raise RunError(f"Cannot read {file}: {error.strerror or error}.") from error
        if found != expected:
            raise RunError(
                f"{file} is damaged: its checksum differs from the one in {self.result_file.name}. "
                "Delete the folder and run again."
            )

    def ranks(self, split: str = "test") -> Ranks:
        """The ranks of a split, one entry per query."""
        self.verify(self.ranks_file(split))
        return Ranks.read(self.ranks_file(split))

    def begin(self, run: Run, environment: dict[str, Any], command: str | None) -> None:
        """Write run.json. A run that continues in another environment keeps the earlier environments, each once."""
        record = {**STAMP, "id": run.id, "run": run.to_json(), "environment": environment, "command": command}
        before = self.settings if self.half_done and self.exists else record
        places: Any = before.get("earlier", [])
        if not isinstance(places, list) or not isinstance(last := before.get("environment"), dict):
            raise RunError(f"{self.settings_file} lacks the environment of its run. Delete the folder and run again.")
        others = [each for each in (*places, last) if each != environment]
        earlier = [each for place, each in enumerate(others) if each not in others[:place]]
        write_sealed(self.settings_file, {**record, "earlier": earlier} if earlier else record)

    def other_means(self, environment: Mapping[str, Any]) -> str:
        """A warning if a half-done run continues in another environment than it started in; empty otherwise."""
        if not (self.half_done and self.exists):
            return ""
        before = self.settings.get("environment")
        if not isinstance(before, dict):
            return ""
        pairs = [(name, before.get(name, 1), environment.get(name, 1)) for name in MEANS]
        changed = "; ".join(f"{name} was {old} and is {new}" for name, old, new in pairs if old != new)
        return changed and (
            f"The run in {self.path} continues in another environment than it started in ({changed}). "
            "The last bits of its numbers may differ from an uninterrupted run."
        )

    def append(self, event: dict[str, Any]) -> None:
        """Append the event of an epoch and sync it to the disk, before a checkpoint refers to it."""
        left = (json.dumps(event, sort_keys=True, allow_nan=False) + "\n").encode()
        with self.events_file.open("ab", buffering=0) as stream:  # a buffer would be written again after an error
            start = stream.seek(0, os.SEEK_END)
            try:
                while left:
                    left = left[stream.write(left) :]
                os.fsync(stream.fileno())
            except OSError:
                with suppress(OSError):
                    stream.truncate(start)
                raise

    def keep_events_until(self, epoch: int, *, expected: str | None = None) -> None:
        """Drop the events after `epoch`; raise RunError unless the others have the `expected` checksum."""
        lines = self._event_lines()
        kept = b"".join(line + b"\n" for line in lines[:epoch])
        if len(lines) < epoch or (expected is not None and hashlib.sha256(kept).hexdigest() != expected):
            raise RunError(
                f"{self.events_file} is damaged: it does not match the checkpoint of epoch {epoch}. "
                "Delete the folder and run again."
            )
        with replacing(self.events_file) as aside:
            aside.write_bytes(kept)
        _ = self.events

    def finish(self, result: dict[str, Any]) -> None:
        """Write the result with the checksums of the run's files, then remove the checkpoint."""
        kept = [*self.path.glob("*.safetensors"), *self.path.glob("ranks-*.parquet"), self.events_file]
        checksums = {path.name: sha256_of(path) for path in kept if path != self.checkpoint_file and path.exists()}
        write_sealed(self.result_file, {**result, **STAMP, "files": checksums})
        self.drop_checkpoints_if_finished()

    def clear(self) -> None:
        """Remove the checkpoints of a finished run that was killed right after it wrote result.json.

        Does nothing if there are none, if the folder cannot be written to, or if another process works on it.
        """
        if self.finished and self.half_done:
            with suppress(RunError), self.locked():
                pass

    def drop_checkpoints_if_finished(self) -> None:
        """Remove the checkpoints if there is a valid result.json. The caller holds the lock."""
        if not (self.finished and self.half_done):
            return
        with suppress(RunError, OSError):
            _ = self.result
            self.checkpoint_file.unlink(missing_ok=True)
            shutil.rmtree(self.shards_folder, ignore_errors=True)

    def tidy(self) -> None:
        """Remove unfinished files of a killed process."""
        for leftover in self.path.glob(".*.part"):
            leftover.unlink()
        for leftover in self.path.glob(f".{self.graph_folder.name}.*"):
            shutil.rmtree(leftover)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for this process. It ends with the process; an error removes the lock of a new folder."""
        with ExitStack() as held:
            try:
                held.enter_context(making(self.path))
                held.enter_context(taken(self.lock_file))
            except BlockingIOError as error:
                raise RunError(
                    f"Another process is working on {self.path}. Wait until it ends, or choose another folder."
                ) from error
            except OSError as error:
                raise RunError(
                    f"Cannot write to {self.path} ({error.strerror or error}). Choose another folder."
                ) from error
            self.drop_checkpoints_if_finished()
            try:
                yield
            except BaseException:
                if [*self.path.glob("*")] == [self.lock_file]:
                    with suppress(OSError):  # Windows keeps files that are open
                        self.lock_file.unlink()
                raise
