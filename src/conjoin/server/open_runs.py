"""The open runs by name. A name from a request is looked up only in this list; it never becomes a path."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from conjoin.errors import RunError, did_you_mean
from conjoin.graph.graph import Graph, Ids, Vocabulary
from conjoin.predict.predictor import UNKNOWN, Predictor, open_run
from conjoin.runs.calibration_curves import FILE, read_calibration
from conjoin.runs.folder import RunFolder
from conjoin.runs.open import reported_weights
from conjoin.server.batch_predict import BatchQuery, encoded_together, named
from conjoin.server.metrics import Metrics
from conjoin.server.micro_batching import Batcher
from conjoin.server.responses import ApiError, LargeReply, in_pieces
from conjoin.server.settings import ServerSettings

T = TypeVar("T")


class OpenRun:
    """One open run: its predictor, its batcher and cached values. A predictor made in Python has no folder."""

    def __init__(
        self,
        name: str,
        folder: RunFolder | None,
        predictor: Predictor,
        *,
        weights: str = "last",
        settings: ServerSettings,
    ) -> None:
        self.name, self.folder, self.predictor, self.weights = name, folder, predictor, weights
        self._settings = settings
        self.batcher: Batcher[BatchQuery, bytes] = Batcher(self.answer)
        self._metrics = Metrics()
        self._read: tuple[int, ...] | None = None
        self._reading = threading.Lock()

    @property
    def graph(self) -> Graph:
        return self.predictor.graph

    def up_to_date(self) -> Predictor:
        """The predictor with the current calibration file, which `conjoin calibrate` may write at any time.

        A predictor does not change while a request uses it. If the file is missing, damaged or written for other
        weights, the previous calibration stays.
        """
        if self.folder is None:
            return self.predictor
        try:
            status = (self.folder.path / FILE).stat()
        except OSError:
            return self.predictor
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        if stamp != self._read:
            with self._reading:
                if stamp != self._read:
                    self._read_calibration(self.folder)
                    self._read = stamp
        return self.predictor

    def _read_calibration(self, folder: RunFolder) -> None:
        try:
            calibration = read_calibration(folder, self.graph, self.weights)
        except RunError as error:
            self._metrics.failed(error)
            return
        if calibration is None:  # deleted meanwhile, or written for other weights
            return
        renewed = copy(self.predictor)
        renewed.calibration = calibration
        self.predictor = renewed

    def is_calibrated(self) -> bool:
        """Whether answers have a probability."""
        return self.up_to_date().calibration is not None

    def answer(self, questions: list[BatchQuery]) -> list[bytes]:
        """The answers to each question as JSON."""
        return encoded_together(self.up_to_date(), questions)

    def report_to(self, metrics: Metrics) -> None:
        """Use these metrics, and start a batcher that reports its sizes and times to them."""
        self._metrics = metrics
        sizes, seconds = metrics.batches.labels(self.name), metrics.scoring.labels(self.name)

        def observe(questions: int, took: float) -> None:
            sizes.observe(questions)
            seconds.observe(took)

        settings = self._settings
        self.batcher = Batcher(
            self.answer, window=settings.window, most=settings.batch, weight=attrgetter("k"), observe=observe
        )

    @cached_property
    def degree(self) -> Ids:
        """Number of training facts of each entity, shape (entities,)."""
        return self.graph.degrees()

    @cached_property
    def by_degree(self) -> Ids:
        """Entity ids by descending degree, shape (entities,)."""
        return np.argsort(-self.degree, kind="stable").astype(np.int64)

    def named(self, vocabulary: Vocabulary, i: int) -> dict[str, Any]:
        return named(vocabulary, i)

    def entity(self, i: int) -> dict[str, Any]:
        return {**self.named(self.graph.entities, i), "degree": int(self.degree[i])}

    def fact(self, h: int, r: int, t: int) -> dict[str, Any]:
        entities, relations = self.graph.entities, self.graph.relations
        return {
            "head": self.named(entities, h),
            "relation": self.named(relations, r),
            "tail": self.named(entities, t),
        }

    def warm(self) -> None:
        """Answer one question and sort the entities now, so that the first request does not wait for it."""
        entity, relation = (
            next((name for name in vocabulary.names if name != UNKNOWN), None)
            for vocabulary in (self.graph.entities, self.graph.relations)
        )
        if entity is not None and relation is not None:
            self.answer([BatchQuery(entity, relation, None, k=1)])
        _ = self.by_degree

    def warm_search(self) -> None:
        """Build the name indexes now, so that the first search does not wait for them."""
        self.predictor.find_entities("a", 1)
        self.predictor.find_relations("a", 1)


class OpenRuns:
    """All open runs, and the threads that run slow work."""

    def __init__(self, runs: Sequence[OpenRun]) -> None:
        self.runs = {run.name: run for run in runs}
        self._owners = {vocabulary: run for run in runs for vocabulary in (run.graph.entities, run.graph.relations)}
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="answering")
        self._encoding = ThreadPoolExecutor(1, thread_name_prefix="encoding")
        self._kept: dict[tuple[str, str], asyncio.Future[Any]] = {}

    def __getitem__(self, name: str | None) -> OpenRun:
        if name is None:
            return next(iter(self.runs.values()))
        if name not in self.runs:
            hint = did_you_mean(name[:200], self.runs).strip()
            raise ApiError(404, f"No open run is named {name[:200]!r}.", hint or "GET /v1/runs lists the open runs.")
        return self.runs[name]

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run slow work in a thread, so that other requests continue."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def encode(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run pure Python work in one thread, one task at a time: more threads would compete for the interpreter."""
        return await asyncio.get_running_loop().run_in_executor(self._encoding, work, *arguments)

    async def once(self, run: OpenRun, what: str, work: Callable[[OpenRun], T]) -> T:
        """Compute a value of a run once and cache it under the key `what`; concurrent callers wait for it.

        The work continues when a caller times out. Otherwise work that takes longer than a request would never finish.
        """
        key = (run.name, what)
        if key not in self._kept:
            self._kept[key] = begun = asyncio.ensure_future(self.in_thread(work, run))
            begun.add_done_callback(lambda done: self._forget_failed(key, done))
        kept: T = await asyncio.shield(self._kept[key])
        return kept

    def _forget_failed(self, key: tuple[str, str], done: asyncio.Future[Any]) -> None:
        if done.cancelled() or done.exception() is not None:
            del self._kept[key]

    async def find(self, vocabulary: Vocabulary, word: str) -> int:
        """The id of a name or a label. Labels are searched in a thread, because that may take long."""
        index = vocabulary.index.get(word)
        return await self.in_thread(self.look_up, vocabulary, word) if index is None else index

    async def large(self, content: Any) -> LargeReply:
        """A large JSON answer, encoded in a thread."""
        return await self.encode(lambda: LargeReply(in_pieces(content)))

    def look_up(self, vocabulary: Vocabulary, word: str) -> int:
        """The id of a name or a label. May take long if no entity or relation has this name."""
        index = vocabulary.index.get(word)
        return self._by_label(vocabulary, word) if index is None else index

    def _by_label(self, vocabulary: Vocabulary, word: str) -> int:
        matches = vocabulary.matching(word)
        if len(matches) == 1:
            return matches[0]
        if matches:
            names = ", ".join(vocabulary.names[i] for i in matches[:NAMED])
            hint = f"This label is shared by {len(matches)}. Use a name instead: {names}."
        else:
            predictor = self._owners[vocabulary].predictor
            find = predictor.find_entities if vocabulary.kind == "entity" else predictor.find_relations
            near = dict.fromkeys(match.label for match in find(word, NAMED))
            search = f"Search with GET /v1/{_SEARCH[vocabulary.kind]}?q=."
            hint = f"Did you mean {' or '.join(near)}?" if near else search
        raise ApiError(404, f"Unknown {vocabulary.kind} {word!r}.", hint)

    async def close(self) -> None:
        for run in self.runs.values():
            await run.batcher.close()
        self._threads.shutdown(cancel_futures=True)
        self._encoding.shutdown(cancel_futures=True)


_SEARCH = {"entity": "entities", "relation": "relations"}
NAMED = 3
"""How many names an error message suggests."""


def open_runs(folders: Sequence[Path], *, settings: ServerSettings, weights: str | None = None) -> OpenRuns:
    """Open runs. Each is named by its folder; further folders of the same name get a number, for example `run-2`."""
    taken: set[str] = set()
    runs = []
    for path in folders:
        stem = path.resolve().name
        name = next(n for i in range(1, len(taken) + 2) if (n := stem if i == 1 else f"{stem}-{i}") not in taken)
        taken.add(name)
        predictor = open_run(path, weights=weights)
        folder = RunFolder(path)
        chosen = reported_weights(folder, weights)
        runs.append(OpenRun(name, folder, predictor, weights=chosen, settings=settings))
    return OpenRuns(runs)
