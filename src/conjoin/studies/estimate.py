"""Estimates the duration of runs from measured speeds, from finished runs on such a machine, or from operation counts.

Does not import torch.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conjoin.datasets.registry import Counts, dataset, is_named, same_name
from conjoin.errors import RunError
from conjoin.studies.spec import Study, StudyCell
from conjoin.studies.speeds import RecordedSpeed, family_of
from conjoin.studies.status import CellStatus, cell_status, graph_facts

TYPICAL_SPEED = 5e10
"""Operations per second where nothing was measured: good enough to sort runs by cost."""
STEP_SECONDS = 1e-3
"""Least duration of a training step, even on the smallest graph."""
SWEEP = 200
"""Operations that cost as much as the optimiser's passes over one number of the table."""


@dataclass(frozen=True, kw_only=True)
class Estimator:
    """Estimates seconds per cell.

    `factors` are measured durations divided by computed ones; `source` says in words which measurements they come from.
    `validation` holds the measured seconds of one ranking of a dataset's validation questions, where known.
    """

    sizes: Mapping[str, Counts]
    machine: str
    speed: float
    factors: Mapping[tuple[str, ...], float]
    source: str
    speeds: tuple[RecordedSpeed, ...] = ()
    validation: Mapping[str, float] = field(default_factory=dict)

    def seconds(self, cell: StudyCell, *, done: int = 0) -> float | None:
        """Seconds from epoch `done` to the end, including rankings; None if the graph's size is unknown."""
        size = self.sizes.get(cell.dataset)
        if size is None:
            return None
        factor = next((self.factors[key] for key in _keys(cell) if key in self.factors), 1.0)
        left = max(0, cell.recipe.epochs - done)
        validations = left // cell.recipe.validate_every if cell.recipe.validate_every else 0
        rankings = validations + 2 * (1 + size.test / max(1, size.valid))
        once = self.validation.get(cell.dataset)
        if once is None:
            once = factor * 4 * size.valid * size.entities * _width(cell.row.form_text, cell.rank) / self.speed
        return factor * left * epoch_seconds(cell, size, self.speed) + rankings * once

    def total(self, standings: Iterable[CellStatus]) -> float | None:
        """Total seconds of all cells, one after the other; None if one of them cannot be estimated."""
        return total_estimate([self.seconds(each.cell, done=each.epochs) for each in standings])

    def cheapest_first(self, standings: Iterable[CellStatus]) -> list[StudyCell]:
        """The cells by estimated seconds; cells without an estimate come last."""
        costs = {each.cell: self.seconds(each.cell, done=each.epochs) for each in standings}
        return sorted(costs, key=lambda cell: (costs[cell] is None, costs[cell] or 0.0))


def total_estimate(costs: Sequence[float | None]) -> float | None:
    """The sum of the costs; None if one of them is None."""
    return None if None in costs else sum(cost for cost in costs if cost is not None)


def epoch_seconds(cell: StudyCell, size: Counts, speed: float) -> float:
    """Seconds of one epoch by operation counts: three products with the entity table, the optimiser's passes over it,
    and a constant per step.

    With a sampled softmax only the sampled rows and the rows of the batch count.
    """
    width = _width(cell.row.form_text, cell.rank)
    return _epoch(size, speed, width=width, batch=cell.recipe.batch, negatives=cell.recipe.negatives)


def _width(form: str, rank: int) -> int:
    """The numbers of an entity."""
    from conjoin.forms.notation import parse

    return parse(form).entity_width(rank)


def _epoch(size: Counts, speed: float, *, width: int, batch: int, negatives: int = 0) -> float:
    examples = 2 * size.train
    steps = -(-examples // batch)
    scored = min(negatives, size.entities) if negatives else size.entities
    touched = min(negatives + 2 * batch, size.entities) if negatives else size.entities
    products = 6 * examples * scored * width
    sweeps = SWEEP * steps * width * (touched + 4 * size.relations)
    return (products + sweeps) / speed + steps * STEP_SECONDS


def _keys(cell: StudyCell) -> tuple[tuple[str, ...], ...]:
    """Keys of `factors` that apply to a cell, the most specific first."""
    row, dataset = cell.row, cell.dataset
    return (dataset, row.name, row.settings), (dataset, row.form), (dataset, "of", family_of(row.form)), (dataset,), ()


def estimator(
    study: Study, root: Path, *, machine: str, speed: float | None = None, speeds: Sequence[RecordedSpeed] = ()
) -> Estimator:
    """An estimator for a kind of machine, by its name in run.json, such as x86_64 or NVIDIA H200.

    Measured `speeds` of a dataset replace its finished runs, which may come from an older version. `speed` (operations
    per second, from a short measurement) is used if no run of the study was finished on such a machine.
    """
    sizes = {name: size for name in study.datasets if (size := _size(study, name, root))}
    ratios: dict[tuple[str, ...], list[float]] = {}
    runs = 0
    given = [(name, each) for each in speeds for name in sizes if same_name(name, each.dataset)]
    for name, each in given:
        ratio = each.seconds / _epoch(sizes[name], TYPICAL_SPEED, width=_width(each.form, each.rank), batch=each.batch)
        keys: tuple[tuple[str, ...], ...] = ((name, each.form), (name, "of", each.family), (name,), ())
        for key in keys:
            ratios.setdefault(key, []).append(ratio)
    rated = {name for name, _ in given}
    for cell in study.cells():
        if cell.dataset in rated:
            continue
        seconds = _measured(cell_status(cell, root), machine)
        if seconds is None or cell.dataset not in sizes:
            continue
        runs += 1
        ratio = seconds / epoch_seconds(cell, sizes[cell.dataset], TYPICAL_SPEED)
        for key in _keys(cell):
            ratios.setdefault(key, []).append(ratio)
    if ratios:
        sources = [f"{len(given)} measured speed{'s' if len(given) > 1 else ''}"] if given else []
        sources += [f"{runs} finished run{'s' if runs > 1 else ''} on {machine}"] if runs else []
        return Estimator(
            sizes=sizes,
            machine=machine,
            speed=TYPICAL_SPEED,
            factors={key: statistics.median(values) for key, values in ratios.items()},
            source=" and ".join(sources),
            speeds=tuple(speeds),
            validation={name: each.validation for name, each in given if each.validation is not None},
        )
    source = f"a short speed test of this {machine} (rough)" if speed else "operation counts alone (very rough)"
    return Estimator(sizes=sizes, machine=machine, speed=speed or TYPICAL_SPEED, factors={}, source=source)


def _size(study: Study, name: str, root: Path) -> Counts | None:
    graph = study.source(name)
    if is_named(graph):
        return dataset(graph).counts
    facts = graph_facts(study, name, root)
    return Counts(**{key: facts[key] for key in Counts.__dataclass_fields__}) if facts else None


def _measured(each: CellStatus, machine: str) -> float | None:
    """Seconds per epoch of a finished run, if it ran on such a machine only."""
    if each.state != "done":
        return None
    try:
        settings = each.folder.settings
        machines = {environment["name"] for environment in (settings["environment"], *settings.get("earlier", []))}
        seconds = each.folder.result["seconds_per_epoch"]
        return seconds if machines == {machine} and seconds else None
    except (RunError, KeyError, TypeError, AttributeError):
        return None
