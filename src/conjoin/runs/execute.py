"""Execute a run: return it if it is finished, continue it if it is half done, start it otherwise."""

from __future__ import annotations

import math
import shutil
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from conjoin import __version__
from conjoin.errors import Diverged, RunError, Stopped, StorageError
from conjoin.graph.graph import Graph
from conjoin.io.formats import AnyPath
from conjoin.io.graph_store import save_graph
from conjoin.model.model import Model
from conjoin.runs.folder import RunFolder
from conjoin.runs.measure import (
    HeldOutRanks,
    finite,
    metrics_by_weights,
    parameter_counts,
    rank_held_out,
    write_ranks,
    write_weights,
)
from conjoin.runs.run import Run
from conjoin.runtime.atomic_files import sha256_of
from conjoin.runtime.device import describe, peak_bytes, reset_peak, usable_device
from conjoin.runtime.distributed import current
from conjoin.runtime.progress import Track, never, silent, stoppable
from conjoin.training.checkpoint import load_checkpoint, save_checkpoint, saved_place
from conjoin.training.loop import Epoch, Training, train

T = TypeVar("T")
WRITING = 0.1
"""Share of the time that writing checkpoints may take."""
WARM_UP = 1
"""Epochs left out of the median time: the first one pays for loading kernels."""
SUMMED_UP = {"nll", "n3", "f2", "n3 + f2"}
"""Terms that the `loss` and `penalty` of an event state in full."""
EVENTS = "events"
"""Where a checkpoint keeps the checksum of the events that led to it."""


def unwatched(_: Epoch) -> None:
    """The default of `watch`: do nothing."""


def warn(sentence: str) -> None:
    """The default of `note`: issue a Python warning."""
    warnings.warn(sentence, stacklevel=2)


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """How to execute a run. No option changes its numbers.

    A checkpoint is written after every epoch, or less often if writing would take more than a tenth of the time.
    `checkpoint_epochs` and `checkpoint_minutes` above 0 replace this rule by a number of epochs or minutes. `stop` is
    called between steps (with several processes a few times a second). Once it returns True, a checkpoint is written
    and the run ends with `Stopped`. `watch` is called with every epoch when it ends, `note` with messages for the user.
    `command` is stored in run.json. Without `keep_model` the folder gets settings, events, ranks and result, which is
    enough for tables but not for questions. Runs on one graph can store the questions of their ranks once, in the
    folder `questions`.

    >>> from conjoin.training.recipe import Recipe
    >>> seen = []
    >>> graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    >>> run = Run.of(graph, "complex", rank=4, recipe=Recipe(epochs=2))
    >>> options = ExecutionOptions(watch=lambda epoch: seen.append(epoch.number))
    >>> folder = execute(run, graph, "runs/watched", conduct=options)
    >>> seen
    [1, 2]
    """

    device: str = "cpu"
    checkpoint_epochs: int = 0
    checkpoint_minutes: float = 0.0
    command: str | None = None
    keep_model: bool = True
    questions: AnyPath | None = None
    track: Track = silent
    stop: Callable[[], bool] = never
    watch: Callable[[Epoch], None] = unwatched
    note: Callable[[str], None] = warn


QUIETLY = ExecutionOptions()


@torch.inference_mode(mode=False)
def execute(
    run: Run,
    graph: Graph,
    folder: AnyPath,
    *,
    conduct: ExecutionOptions = QUIETLY,
    resume: bool = True,
    initial: Mapping[str, Tensor] | None = None,
) -> RunFolder:
    """Execute the run in `folder` and return the folder. A run with an origin starts from the `initial` weights.

    A finished run is not repeated. A half-done run continues from its checkpoint; without `resume` it is refused.
    `conduct` sets the device, when checkpoints are written and callbacks; none of it is part of the run's id.
    If several processes share the run, all of them call this and the first one writes the folder. `initial` is a
    `Model.state_dict`: `entities.weight` (n_entities, entity width), `relations` (rows, relation width) and the state
    of shared parameters. The folder has the `path`, the `result` of the finished run, its `events`, one for each epoch,
    and `ranks("test")`.

    >>> from conjoin.training.recipe import Recipe
    >>> graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")], [("a", "r", "c")], [("c", "r", "a")])
    >>> run = Run.of(graph, "complex", rank=4, recipe=Recipe(epochs=2))
    >>> folder = execute(run, graph, "runs/tiny")
    >>> folder.result["epochs"], len(folder.events), folder.ranks("test").mrr() == folder.result["test"]["mrr"]
    (2, 2, True)
    """
    kept = RunFolder(Path(folder))
    if run.checksum != graph.checksum:
        raise RunError(
            f"The run belongs to another graph than {graph.name}: the checksums differ. Use Run.of(graph, …)."
        )
    mesh = current()
    if mesh.agreed(_is_done(run, kept)):
        if mesh.is_first:
            kept.clear()
        return kept
    with kept.locked() if mesh.is_first else nullcontext():
        if mesh.agreed(_is_done(run, kept)):
            return kept
        if kept.half_done and not resume:
            raise RunError(
                f"{kept.path} contains a half-done run. Continue it with resume=True (--resume), or use another folder."
            )
        if bool(run.origin) != (initial is not None):
            raise RunError(
                f"origin is {run.origin!r} and initial weights are {'missing' if initial is None else 'given'}. "
                "Pass both or neither."
            )
        conduct = replace(conduct, track=_stoppable(conduct))
        with _explained(kept, "continues there"):
            training = _begin(run, graph, kept, conduct, initial)
            _epochs(training, kept, conduct)
        with _explained(kept, "keeps all epochs and starts ranking again"):
            measured = _measure(training, run, kept, conduct)
            peak = int(mesh.most(peak_bytes(training.model.device)))
            if mesh.is_first:
                kept.finish({**measured, **_costs(training, kept, peak)})
            mesh.agreed(0)
    return kept


@contextmanager
def _explained(kept: RunFolder, resumed: str) -> Iterator[None]:
    """Add to an error what is left of the run and how to continue it; `resumed` says what --resume does."""
    try:
        yield
    except Diverged as error:
        raise Diverged(f"{error} {_last_good(kept)}") from error
    except Stopped as stopped:
        raise Stopped(
            f"{kept.path}: {stopped}. Repeat the call, or the command with --resume; it {resumed}."
        ) from stopped
    except OSError as error:
        if not kept.path.is_dir():
            raise StorageError(
                f"The folder {kept.path} was removed during the run. Repeat the command to start again."
            ) from error
        raise StorageError(
            f"Cannot write to {kept.path} ({error.strerror or error}). Its earlier files are intact. "
            "Repeat the call, or the command with --resume, when the folder can be written to."
        ) from error


def _stoppable(conduct: ExecutionOptions) -> Track:
    """Progress that `conduct.stop` can end between two steps; several processes end at the same step."""
    mesh = current()
    if mesh.count == 1:
        return stoppable(conduct.track, conduct.stop)

    def watched(steps: Iterable[T], what: str, total: int | None) -> Iterator[T]:
        return stoppable(conduct.track, mesh.agreeing(conduct.stop))(steps, what, total)

    return watched


def _last_good(kept: RunFolder) -> str:
    """A sentence about the checkpoint that a diverged run leaves."""
    shards = _newest_shards(kept)
    if shards is not None:
        from conjoin.training.checkpoint_distributed import shards_place

        return f"The last good checkpoint, of epoch {shards_place(shards)[0]}, is {shards}."
    if not kept.checkpoint_file.exists():
        return "No checkpoint was written, because the first epoch did not end."
    return f"The last good checkpoint, of epoch {saved_place(kept.checkpoint_file)[0]}, is {kept.checkpoint_file}."


def _is_done(run: Run, kept: RunFolder) -> bool:
    """Whether this run is finished in the folder; writes nothing, not even a lock. Raises RunError for another run."""
    if not kept.exists and not kept.finished:
        return False
    if kept.run.id != run.id:
        warm_start = f" To train its weights further on this graph, use them as initial weights (--from {kept.path})."
        raise RunError(
            f"{kept.path} contains a run with other settings ({_difference(kept.run, run)}). Choose another folder."
            f"{'' if kept.run.checksum == run.checksum else warm_start}"
        )
    return kept.finished


def _begin(
    run: Run, graph: Graph, kept: RunFolder, conduct: ExecutionOptions, initial: Mapping[str, Tensor] | None
) -> Training:
    reset_peak(usable_device(conduct.device))
    model = Model(
        run.form,
        graph.n_entities,
        graph.n_relations,
        rank=run.rank,
        seed=run.seed,
        scale=run.recipe.initial_scale,
        device=conduct.device,
    )
    if initial is not None:
        model.load_state_dict(initial)
    training = train(model, graph, run.recipe, seed=run.seed, track=conduct.track)
    environment = {"conjoin": __version__, "path": training.step.path, **describe(model.device)}
    mesh = current()
    if mesh.count > 1:
        environment |= {"processes": mesh.count, "replicas": mesh.replicas}
    if mesh.is_first:
        kept.tidy()
        if changed := kept.other_means(environment):
            conduct.note(changed)
        kept.begin(run, environment, conduct.command)
        if conduct.keep_model:
            save_graph(graph, kept.graph_folder)
    words = _go_on(training, kept)
    if mesh.is_first:
        kept.keep_events_until(training.progress.epoch, expected=words.get(EVENTS))
    return training


def _go_on(training: Training, kept: RunFolder) -> Mapping[str, Any]:
    """Load the later one of the checkpoints of one process and of several processes; return its metadata."""
    shards, file = _newest_shards(kept), kept.checkpoint_file
    if shards is not None:
        from conjoin.training.checkpoint_distributed import load_shards, shards_place

        if not file.exists() or saved_place(file) < shards_place(shards):
            return load_shards(shards, training)
    return load_checkpoint(file, training) if file.exists() else {}


def _newest_shards(kept: RunFolder) -> Path | None:
    if not kept.shards_folder.is_dir():
        return None
    from conjoin.training.checkpoint_distributed import newest_shards

    return newest_shards(kept.shards_folder)


def _save(training: Training, kept: RunFolder) -> None:
    words = {EVENTS: sha256_of(kept.events_file)} if current().is_first and kept.events_file.exists() else None
    if current().count > 1:
        from conjoin.training.checkpoint_distributed import save_shards

        save_shards(kept.shards_folder, training, words=words)
        if current().is_first:
            kept.checkpoint_file.unlink(missing_ok=True)
    else:
        save_checkpoint(kept.checkpoint_file, training, words=words)
        shutil.rmtree(kept.shards_folder, ignore_errors=True)


class _Checkpoints:
    """Decides when the next checkpoint is due, and writes it."""

    def __init__(self, training: Training, kept: RunFolder, conduct: ExecutionOptions) -> None:
        self.training, self.kept, self.conduct = training, kept, conduct
        self.cost, self.saved = 0.0, time.monotonic()

    def after(self, epoch: Epoch) -> None:
        by_count, minutes = self.conduct.checkpoint_epochs, self.conduct.checkpoint_minutes
        passed = time.monotonic() - self.saved
        if by_count or minutes:
            due = bool(by_count and epoch.number % by_count == 0) or bool(minutes and passed >= 60 * minutes)
        else:
            due = passed >= (1 / WRITING - 1) * self.cost
        if current().agreed(due):
            self.write()

    def write(self) -> None:
        """Write a checkpoint; raises Diverged if a weight is not finite, and keeps the earlier checkpoint."""
        broken = not all(_finite(tensor) for tensor in self.training.model.state_dict().values())
        if current().most(broken):
            recipe, number = self.training.recipe, self.training.progress.epoch
            raise Diverged(
                f"A weight is not finite after epoch {number}: the training has diverged. "
                f"Probably lr = {recipe.lr} is too large for this data. Try a tenth of it, or a larger n3."
            )
        start = time.monotonic()
        _save(self.training, self.kept)
        self.saved = time.monotonic()
        self.cost = self.saved - start


def _finite(tensor: Tensor) -> bool:
    """Whether all numbers are finite. Minimum and maximum show it without a second table."""
    return not tensor.numel() or bool(torch.isfinite(torch.stack(torch.aminmax(tensor))).all())


def _epochs(training: Training, kept: RunFolder, conduct: ExecutionOptions) -> None:
    checkpoints, mesh = _Checkpoints(training, kept, conduct), current()
    try:
        for epoch in training:
            if mesh.is_first:
                kept.append(event(epoch))
            checkpoints.after(epoch)
            conduct.watch(epoch)
        checkpoints.write()
    except Stopped:
        checkpoints.write()
        raise


def event(epoch: Epoch) -> dict[str, Any]:
    """One line of events.jsonl. It lists single terms only if the recipe has terms beside `loss` and `penalty`."""
    line: dict[str, Any] = {"epoch": epoch.number, "loss": epoch.loss, "penalty": epoch.penalty}
    line["seconds"] = epoch.seconds
    if epoch.terms.keys() - SUMMED_UP:
        line["terms"] = dict(epoch.terms)
    return line if epoch.valid is None else {**line, "valid": finite(epoch.valid), "best": epoch.best}


def _measure(training: Training, run: Run, kept: RunFolder, conduct: ExecutionOptions) -> dict[str, Any]:
    """Write and rank the last and the best weights; write the ranks of the weights that the run reports."""
    model, progress = training.model, training.progress
    versions = {"last": (progress.epoch, model.state_dict())}
    if progress.best_epoch:
        versions["best"] = (progress.best_epoch, training.best_weights)
    ranked: dict[int, HeldOutRanks] = {}
    for name, (epoch, weights) in versions.items():
        if conduct.keep_model:
            write_weights(kept, name, model, weights, run=run, epoch=epoch)
        if epoch not in ranked:
            model.load_state_dict(weights)
            ranked[epoch] = rank_held_out(model, training.graph, track=conduct.track)
    by_name = {name: (epoch, ranked[epoch]) for name, (epoch, _) in versions.items()}
    if current().is_first:
        write_ranks(kept, by_name[run.weights][1], run=run, questions=conduct.questions)
    return metrics_by_weights(by_name, reported=run.weights)


def _costs(training: Training, kept: RunFolder, peak: int) -> dict[str, Any]:
    seconds = [entry["seconds"] for entry in kept.events]
    return {
        "epochs": training.progress.epoch,
        "seconds_per_epoch": statistics.median(seconds[WARM_UP:] or seconds) if seconds else None,
        "seconds_last_epoch": seconds[-1] if seconds else None,
        "seconds_total": math.fsum(seconds),
        **parameter_counts(training.model),
        "peak_bytes": peak,
    }


def _difference(old: Run, new: Run) -> str:
    before, after = ({**run.to_json(), **run.to_json()["recipe"]} for run in (old, new))
    changed = [key for key in after if key not in ("recipe", "data", "checksum") and before[key] != after[key]]
    values = [(key, *("nothing" if run[key] == "" else run[key] for run in (before, after))) for key in changed]
    differences = [f"{key} is {there} there and {now} now" for key, there, now in values]
    if old.checksum != new.checksum:
        differences.insert(0, f"the checksum of its graph {old.data!r} differs from that of {new.data!r}")
    return "; ".join(differences)
