"""Searching settings with Optuna: the paper's grid or a guided search, MRR on valid decides.

    search = Search(form="5star-conj", trials=50, storage="sqlite:///tune.db")
    for attempt in tune(graph, search):
        print(attempt.number, attempt.settings, attempt.mrr)
    print(block(graph, search, best(graph, search)))

Several processes or machines with the same storage share one search: `trials` counts those of all.
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
"""Trials that are never cut short: there is nothing to compare them with."""
PUT_BACK = "put back"
"""The mark of a trial that was stopped and waits to be done again under another number."""
ATTEMPTS = 5
"""How often a storage is opened before its errors count."""
NO_FAULT = (Diverged, MemoryError, torch.OutOfMemoryError)
"""What settings can bring about; any other error ends the search."""


def tune(
    graph: Graph,
    search: SearchSpace,
    *,
    device: str = "cpu",
    track: Track = silent,
    stop: Callable[[], bool] = never,
) -> Iterator[Attempt]:
    """Do trials until the storage holds as many as wanted, or the grid is exhausted; each step is one trial.

    A trial that diverges or does not fit into memory has failed; the search goes on. `stop` is asked between steps:
    once it says so, the trial under way is put back and the search ends with `Stopped`.

    >>> graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")], [("a", "r", "c")])
    >>> search = SearchSpace(form="complex", rank=4, epochs=1, validate_every=1, trials=2)
    >>> [attempt.state for attempt in tune(graph, search)]
    ['complete', 'complete']
    """
    track = stoppable(track, stop)
    _need_optuna()
    if not len(graph.valid):
        raise UsageError(f"{graph.name} has no validation triples, and they decide: split it first (conjoin split)")
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
            raise Stopped("the trial under way was put back: the same command goes on") from stopped
        except faults:
            with suppress(*faults):  # else it is not counted and another trial takes its place
                trial.set_user_attr(PUT_BACK, True)
                study.enqueue_trial(trial.params)
            raise

    while True:
        with _kept(search.storage):
            if _finished(study) >= search.wanted or (_exhausted(study) and not _waiting(study)):
                return
            study.optimize(objective, n_trials=1, catch=NO_FAULT)
            attempt = _attempt(study.trials[numbers[-1]])
        yield attempt


def best_attempt(graph: Graph, search: SearchSpace) -> Attempt:
    """The best trial that the storage holds, by whichever process. Its `epoch` is the one to train to.

    >>> graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")], [("a", "r", "c")])
    >>> search = SearchSpace(form="complex", rank=4, epochs=1, validate_every=1, trials=1, storage="sqlite:///one.db")
    >>> attempts = list(tune(graph, search))
    >>> best_attempt(graph, search).settings == attempts[0].settings
    True
    """
    _need_optuna()
    study = _opened(graph, search)
    with _kept(search.storage):
        done = [trial for trial in study.get_trials() if trial.state.name == "COMPLETE"]
    if not done:
        raise UsageError("no trial was completed: allow more trials (--trials), or give other settings")
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
    """Rank and recipe of a trial, as plain numbers of three digits: what is printed is what was trained."""
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
    """Refuse to start without Optuna, and keep it from talking in between."""
    try:
        import optuna
    except ImportError as error:
        raise NotInstalled("optuna", "tune", "tuning") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def _guided(search: SearchSpace, number: int) -> optuna.samplers.BaseSampler:
    """Seeded by the trial's own number: workers draw differently, and one worker alone draws the same every time."""
    import optuna

    drawn = hashlib.sha256(f"{search.seed} {number}".encode()).digest()
    return optuna.samplers.TPESampler(seed=int.from_bytes(drawn[:4], "big"), multivariate=False)


def _opened(graph: Graph, search: SearchSpace) -> optuna.Study:
    """The search in its storage, begun or joined. It is about one graph, form and schedule."""
    import optuna

    name = f"{graph.name} {short(parse(search.form))} {search.strategy}"
    sampler = optuna.samplers.GridSampler(search.grid, seed=search.seed) if search.grid else _guided(search, 0)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=FIRST, n_warmup_steps=2 * search.validate_every)
    with _told(search.storage):
        study = _patiently(
            lambda: optuna.create_study(
                storage=_with_all_indexes(search.storage),
                study_name=name,
                direction="maximize",
                sampler=sampler,
                pruner=pruner if search.prune else optuna.pruners.NopPruner(),
                load_if_exists=True,
            )
        )
        # A storage of an earlier version does not say these.
        untold = {
            "rank": _rank_before(study, search.rank),
            "negatives": 0,
            "negatives_power": 0.0,
            "terms": {},
        }  # by old storages
        about = {
            "checksum": graph.checksum,
            "form": str(parse(search.form)),
            "epochs": search.epochs,
            "validate_every": search.validate_every,
            "seed": search.seed,
            "grid": {key: list(values) for key, values in search.grid.items()} if search.grid else None,
            **{key: getattr(search, key) for key in untold if key not in (search.grid or {})},
        }
        before = study.user_attrs.get("about")
        if before is None:
            study.set_user_attr("about", about)
            return study
        if changed := ", ".join(key for key in about if before.get(key, untold.get(key)) != about[key]):
            raise UsageError(
                f"{search.storage} holds a search of this name with another {changed}: use another storage (--storage)"
            )
    return study


def _rank_before(study: optuna.Study, else_: int) -> int:
    """The rank of the trials that a storage holds."""
    settings = (trial.user_attrs.get("settings", {}) for trial in study.get_trials(deepcopy=False))
    return next((int(some["rank"]) for some in settings if "rank" in some), else_)


def _patiently(create: Callable[[], optuna.Study]) -> optuna.Study:
    """Workers that start together may both create the tables; the one that comes second tries again."""
    import sqlalchemy

    for _ in range(ATTEMPTS - 1):
        try:
            return create()
        except (sqlalchemy.exc.OperationalError, sqlalchemy.exc.IntegrityError):
            time.sleep(0.2)
    return create()


def _with_all_indexes(storage: str) -> str | optuna.storages.RDBStorage:
    """The storage with its tables, and the indexes that are missing where an earlier process ended while it made them.

    Optuna makes an index only together with its table. Without that of names, a search is begun a second time.
    """
    if storage.startswith("redis"):  # which has no tables
        return storage
    from optuna.storages import RDBStorage
    from optuna.storages._rdb.models import BaseModel

    opened = RDBStorage(storage)
    for table in BaseModel.metadata.tables.values():
        for index in table.indexes:
            index.create(opened.engine, checkfirst=True)
    return opened


@contextmanager
def _kept(storage: str) -> Iterator[None]:
    """Raise StorageError where the storage of a search that has begun fails.

    Optuna itself then stumbles over what it has not read: an error that ends in its own code, not in a trial.
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
    """What is raised where the storage fails, not the trial."""
    import optuna
    import sqlalchemy

    return sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError


def _failed(storage: str, error: BaseException) -> StorageError:
    reason = str(error).splitlines()[0]
    return StorageError(f"the storage {storage} failed ({reason}). The same command goes on with the trials in it.")


@contextmanager
def _told(storage: str) -> Iterator[None]:
    import optuna
    import sqlalchemy

    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError, ImportError, RuntimeError) as error:
        reason = str(error).splitlines()[0]  # a RuntimeError tells tables of another version, and how to upgrade them
        raise UsageError(
            f"the storage {storage} cannot be used ({reason}): name another (--storage), such as sqlite:///new.db"
        ) from error


def _finished(study: optuna.Study) -> int:
    """How many trials count: not those that were put back, nor those that failed by no fault of their settings."""
    return sum(_counts(trial) for trial in study.get_trials(deepcopy=False))


def _counts(trial: optuna.trial.FrozenTrial) -> bool:
    told = trial.user_attrs
    return trial.state.is_finished() and PUT_BACK not in told and (trial.state.name != "FAIL" or "reason" in told)


def _waiting(study: optuna.Study) -> bool:
    return any(trial.state.name == "WAITING" for trial in study.get_trials(deepcopy=False))


def _exhausted(study: optuna.Study) -> bool:
    import optuna

    return isinstance(study.sampler, optuna.samplers.GridSampler) and study.sampler.is_exhausted(study)


def _attempt(trial: optuna.trial.FrozenTrial) -> Attempt:
    told = trial.user_attrs
    state: Any = {"COMPLETE": "complete", "PRUNED": "pruned"}.get(trial.state.name, "failed")
    return Attempt(
        number=trial.number,
        settings=told.get("settings", {}),
        state=state,
        mrr=told.get("mrr"),
        epoch=told.get("epoch", 0),
        reason=told.get("reason", ""),
    )
