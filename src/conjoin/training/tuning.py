"""Search settings with Optuna, on a grid or guided, for the highest MRR on valid.

    search = SearchSpace(form="5star-conj", trials=50, storage="sqlite:///tune.db")
    for attempt in tune(graph, search):
        print(attempt.number, attempt.settings, attempt.mrr)
    print(settings_block(graph, search, best_attempt(graph, search)))

Several processes or machines with the same storage share one search; `trials` is their total.
"""

from __future__ import annotations

import hashlib
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from conjoin.errors import Diverged, NotInstalled, Stopped, StorageError, UsageError
from conjoin.forms.notation import parse, short
from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.runtime.progress import Track, never, silent, stoppable
from conjoin.training.loop import train
from conjoin.training.negatives import check_negatives
from conjoin.training.recipe import Recipe
from conjoin.training.search_space import BATCHES, LR, N3, Attempt, SearchSpace
from conjoin.training.steps.choose import usual_precision

if TYPE_CHECKING:
    import optuna

FIRST = 5
"""The first trials are never pruned, because there are too few others to compare them with."""
PUT_BACK = "put back"
"""The attribute of a trial that was interrupted. Its settings are queued again under another number."""
ATTEMPTS = 5
"""How often `_create_with_retries` tries to open a storage before it raises the error."""
NO_FAULT = (Diverged, MemoryError, torch.OutOfMemoryError)
"""Errors that bad settings can cause: the trial fails and the search continues. Any other error ends the search."""


def tune(
    graph: Graph,
    search: SearchSpace,
    *,
    device: str = "cpu",
    track: Track = silent,
    stop: Callable[[], bool] = never,
) -> Iterator[Attempt]:
    """Run trials until the storage has `search.wanted` of them or the grid is exhausted; each iteration is one trial.

    A trial that diverges or does not fit into memory fails, and the search continues. `stop` is called between steps;
    once it returns True, the current trial is queued again and the search raises `Stopped`.

    >>> graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")], [("a", "r", "c")])
    >>> search = SearchSpace(form="complex", rank=4, epochs=1, validate_every=1, trials=2)
    >>> [attempt.state for attempt in tune(graph, search)]
    ['complete', 'complete']
    """
    track = stoppable(track, stop)
    _need_optuna()
    if not len(graph.valid):
        raise UsageError(
            f"{graph.name} has no validation triples, and tuning needs them to compare settings. Split it first "
            "(conjoin split)."
        )
    check_negatives(max(search.values("negatives")), graph.n_entities)
    study = _opened(graph, search)
    numbers: list[int] = []
    faults = _storage_faults()

    def objective(trial: optuna.Trial) -> float:
        numbers.append(trial.number)
        if search.grid is None:
            study.sampler = _guided(search, trial.number)
        try:
            return _trained(trial, graph, search, device=device, track=track)
        except NO_FAULT as error:
            trial.set_user_attr("reason", str(error))
            raise
        except Stopped as stopped:
            trial.set_user_attr(PUT_BACK, True)
            study.enqueue_trial(trial.params)
            raise Stopped(
                f"Trial {trial.number} was interrupted and queued again. Repeat the command to continue."
            ) from stopped
        except faults:
            with suppress(*faults):  # If this fails too, the trial does not count and another one replaces it.
                trial.set_user_attr(PUT_BACK, True)
                study.enqueue_trial(trial.params)
            raise

    while True:
        with _storage_errors(search.storage):
            if _finished(study) >= search.wanted or (_exhausted(study) and not _waiting(study)):
                return
            study.optimize(objective, n_trials=1, catch=NO_FAULT)
            attempt = _attempt(study.trials[numbers[-1]])
        yield attempt


def best_attempt(graph: Graph, search: SearchSpace) -> Attempt:
    """The best trial in the storage, of all processes. Train for its `epoch` epochs.

    >>> graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")], [("a", "r", "c")])
    >>> search = SearchSpace(form="complex", rank=4, epochs=1, validate_every=1, trials=1, storage="sqlite:///one.db")
    >>> attempts = list(tune(graph, search))
    >>> best_attempt(graph, search).settings == attempts[0].settings
    True
    """
    _need_optuna()
    study = _opened(graph, search)
    with _storage_errors(search.storage):
        done = [trial for trial in study.get_trials() if trial.state.name == "COMPLETE"]
    if not done:
        raise UsageError(
            f"No trial is complete in {search.storage}. Allow more trials (--trials) or change the settings."
        )
    return _attempt(max(done, key=lambda trial: trial.value or 0.0))


def _trained(trial: optuna.Trial, graph: Graph, search: SearchSpace, *, device: str, track: Track) -> float:
    import optuna

    settings = _suggested(trial, graph, search)
    trial.set_user_attr("settings", settings)
    recipe = Recipe.from_mapping(
        {
            "precision": usual_precision(torch.device(device), parse(search.form), settings=settings),
            **{key: value for key, value in settings.items() if key != "rank"},
            "epochs": search.epochs,
            "validate_every": search.validate_every,
        }
    )
    rank, scale = settings["rank"], recipe.initial_scale
    model = Model(
        search.form, graph.n_entities, graph.n_relations, rank=rank, seed=search.seed, scale=scale, device=device
    )
    reached = 0.0
    for epoch in train(model, graph, recipe, seed=search.seed, track=track):
        if epoch.valid is None:
            continue
        if epoch.best:
            reached = epoch.valid["mrr"]
            trial.set_user_attr("epoch", epoch.number)
            trial.set_user_attr("mrr", reached)
        trial.report(epoch.valid["mrr"], epoch.number)
        if search.prune and trial.should_prune():
            raise optuna.TrialPruned(f"below the median after {epoch.number} epochs")
    return reached


def _suggested(trial: optuna.Trial, graph: Graph, search: SearchSpace) -> dict[str, Any]:
    """Rank and recipe settings of a trial. Numbers have three digits, so the printed settings are the trained ones."""
    sampled = {"negatives": search.negatives, "negatives_power": search.negatives_power}
    sampled = sampled if any(search.values("negatives")) else {}
    fixed: dict[str, Any] = {"terms": dict(search.terms)} if search.terms else {}
    if search.grid is not None:
        plain = {"rank": search.rank, "batch": 1000, "lr": 0.1, "n3": 0.01, "optimizer": "adagrad", **sampled, **fixed}
        return {**plain, **{key: trial.suggest_categorical(key, values) for key, values in search.grid.items()}}
    batches = [size for size in BATCHES if size <= 2 * len(graph.train)] or [BATCHES[0]]
    return {
        "rank": search.rank,
        "batch": trial.suggest_categorical("batch", batches),
        "n3": float(f"{trial.suggest_float('n3', *N3, log=True):.3g}"),
        "lr": float(f"{trial.suggest_float('lr', *LR, log=True):.3g}"),
        "optimizer": "adagrad",
        **sampled,
        **fixed,
    }


def _need_optuna() -> None:
    """Raise NotInstalled without Optuna; silence its log below errors."""
    try:
        import optuna
    except ImportError as error:
        raise NotInstalled("optuna", "tune", "tuning") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def _guided(search: SearchSpace, number: int) -> optuna.samplers.BaseSampler:
    """A TPE sampler seeded by the search's seed and the trial's number.

    Workers then draw different settings, and one worker alone draws the same settings every time.
    """
    import optuna

    digest = hashlib.sha256(f"{search.seed} {number}".encode()).digest()
    return optuna.samplers.TPESampler(seed=int.from_bytes(digest[:4], "big"), multivariate=False)


def _opened(graph: Graph, search: SearchSpace) -> optuna.Study:
    """Open or create the search in its storage. UsageError if it exists with another graph, form or schedule."""
    import optuna

    name = f"{graph.name} {short(parse(search.form))} {search.strategy}"
    sampler = optuna.samplers.GridSampler(search.grid, seed=search.seed) if search.grid else _guided(search, 0)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=FIRST, n_warmup_steps=2 * search.validate_every)
    with _opening(search.storage):
        study = _create_with_retries(
            lambda: optuna.create_study(
                storage=_with_all_indexes(search.storage),
                study_name=name,
                direction="maximize",
                sampler=sampler,
                pruner=pruner if search.prune else optuna.pruners.NopPruner(),
                load_if_exists=True,
            )
        )
        # A storage of an earlier version does not contain these; they had these values.
        implied = {
            "rank": _stored_rank(study, search.rank),
            "negatives": 0,
            "negatives_power": 0.0,
            "terms": {},
        }
        about = {
            "checksum": graph.checksum,
            "form": str(parse(search.form)),
            "epochs": search.epochs,
            "validate_every": search.validate_every,
            "seed": search.seed,
            "grid": {key: list(values) for key, values in search.grid.items()} if search.grid else None,
            **{key: getattr(search, key) for key in implied if key not in (search.grid or {})},
        }
        before = study.user_attrs.get("about")
        if before is None:
            study.set_user_attr("about", about)
            return study
        if changed := ", ".join(key for key in about if before.get(key, implied.get(key)) != about[key]):
            raise UsageError(
                f"{search.storage} contains this search with another {changed}. Use another storage (--storage)."
            )
    return study


def _stored_rank(study: optuna.Study, default: int) -> int:
    """The rank of the trials in a storage; `default` without trials."""
    settings = (trial.user_attrs.get("settings", {}) for trial in study.get_trials(deepcopy=False))
    return next((int(some["rank"]) for some in settings if "rank" in some), default)


def _create_with_retries(create: Callable[[], optuna.Study]) -> optuna.Study:
    """The result of `create`, tried up to ATTEMPTS times: workers that start together may both create the tables, and
    then one of them fails."""
    import sqlalchemy

    for _ in range(ATTEMPTS - 1):
        try:
            return create()
        except (sqlalchemy.exc.OperationalError, sqlalchemy.exc.IntegrityError):
            time.sleep(0.2)
    return create()


def _with_all_indexes(storage: str) -> str | optuna.storages.RDBStorage:
    """The storage with all tables and indexes.

    Optuna creates an index only together with its table, so a process that was killed in between leaves a table without
    it. Without the unique index of names the same search could be created twice.
    """
    if storage.startswith("redis"):  # Redis has no tables.
        return storage
    from optuna.storages import RDBStorage
    from optuna.storages._rdb.models import BaseModel

    opened = RDBStorage(storage)
    for table in BaseModel.metadata.tables.values():
        for index in table.indexes:
            index.create(opened.engine, checkfirst=True)
    return opened


@contextmanager
def _storage_errors(storage: str) -> Iterator[None]:
    """Raise StorageError if the storage fails during a search.

    After a failed read Optuna may raise UnboundLocalError or AssertionError in its own code (_optimize.py). Such an
    error counts as a failure of the storage; the same error in a trial does not.
    """
    try:
        yield
    except _storage_faults() as error:
        raise _failed(storage, error.__cause__ or error) from error
    except (UnboundLocalError, AssertionError) as error:
        if Path(traceback.extract_tb(error.__traceback__)[-1].filename).name != "_optimize.py":
            raise
        raise _failed(storage, error.__context__ or error) from error


def _storage_faults() -> tuple[type[Exception], ...]:
    """The errors that Optuna raises if the storage fails."""
    import optuna
    import sqlalchemy

    return sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError


def _failed(storage: str, error: BaseException) -> StorageError:
    reason = str(error).splitlines()[0]
    return StorageError(f"The storage {storage} failed ({reason}). Repeat the command to continue with its trials.")


@contextmanager
def _opening(storage: str) -> Iterator[None]:
    """Raise UsageError if the storage cannot be opened."""
    import optuna
    import sqlalchemy

    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError, ImportError, RuntimeError) as error:
        reason = str(error).splitlines()[
            0
        ]  # Optuna raises RuntimeError for tables of another version and says how to upgrade.
        raise UsageError(
            f"The storage {storage} cannot be opened ({reason}). Use another one (--storage sqlite:///new.db)."
        ) from error


def _finished(study: optuna.Study) -> int:
    """The number of trials that count (`_counts`)."""
    return sum(_counts(trial) for trial in study.get_trials(deepcopy=False))


def _counts(trial: optuna.trial.FrozenTrial) -> bool:
    """Does the trial count? Interrupted trials do not; failed trials do if their settings were the reason."""
    attributes = trial.user_attrs
    if not trial.state.is_finished() or PUT_BACK in attributes:
        return False
    return trial.state.name != "FAIL" or "reason" in attributes


def _waiting(study: optuna.Study) -> bool:
    return any(trial.state.name == "WAITING" for trial in study.get_trials(deepcopy=False))


def _exhausted(study: optuna.Study) -> bool:
    import optuna

    return isinstance(study.sampler, optuna.samplers.GridSampler) and study.sampler.is_exhausted(study)


def _attempt(trial: optuna.trial.FrozenTrial) -> Attempt:
    attributes = trial.user_attrs
    state: Any = {"COMPLETE": "complete", "PRUNED": "pruned"}.get(trial.state.name, "failed")
    return Attempt(
        number=trial.number,
        settings=attributes.get("settings", {}),
        state=state,
        mrr=attributes.get("mrr"),
        epoch=attributes.get("epoch", 0),
        reason=attributes.get("reason", ""),
    )
