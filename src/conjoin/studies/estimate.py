"""How long runs will take: from measured speeds, from finished runs on the same kind of machine, else from arithmetic.

Nothing here imports torch.
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
"""Operations per second where nothing was measured: good enough to tell cheap from dear."""
STEP_SECONDS = 1e-3
"""What a step costs on the smallest graph, whatever the arithmetic."""
COMPLEX_FORMS = ("5star", "5★", "fivestar", "complex", "complεx", "pair", "quate")
"""The beginnings of the names of forms that store 2 numbers per complex coordinate of an entity."""
SWEEP = 200
"""The optimiser's passes over one number of the table cost about as much as so many operations."""


@dataclass(frozen=True, kw_only=True)
class Estimator:
    """Seconds per cell. `factors` correct the arithmetic by what runs have really taken; `source` tells from where.

    `validation` has the measured seconds of ranking a dataset's validation questions once, where they are known.
    """

    sizes: Mapping[str, Counts]
    machine: str
    speed: float
    factors: Mapping[tuple[str, ...], float]
    source: str
    speeds: tuple[RecordedSpeed, ...] = ()
    validation: Mapping[str, float] = field(default_factory=dict)

    def seconds(self, cell: StudyCell, *, done: int = 0) -> float | None:
        """From `done` epochs to the end, ranking included; None where the graph's size is not known."""
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
        """Seconds of all of them together, one after the other; None where one of them cannot be estimated."""
        return total_estimate([self.seconds(each.cell, done=each.epochs) for each in standings])

    def cheapest_first(self, standings: Iterable[CellStatus]) -> list[StudyCell]:
        """The order of work; runs of unknown cost come last."""
        costs = {each.cell: self.seconds(each.cell, done=each.epochs) for each in standings}
        return sorted(costs, key=lambda cell: (costs[cell] is None, costs[cell] or 0.0))


def total_estimate(costs: Sequence[float | None]) -> float | None:
    """The sum, unless a part of it is unknown."""
    return None if None in costs else sum(cost for cost in costs if cost is not None)


def epoch_seconds(cell: StudyCell, size: Counts, speed: float) -> float:
    """One epoch by arithmetic: three products with the table, the optimiser's sweep of it, and a constant per step.

    With a sampled softmax both touch only the rows that were drawn or looked up.
    """
    width = _width(cell.row.form_text, cell.rank)
    return _epoch(size, speed, width=width, batch=cell.recipe.batch, negatives=cell.recipe.negatives)


def _width(form: str, rank: int) -> int:
    """The numbers of an entity. Forms are parsed only if their name does not show a complex form, because parsing
    imports torch."""
    if form.casefold().startswith(COMPLEX_FORMS):
        return 2 * rank
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
    """What a cell's factor may be known of, the nearest first."""
    row, dataset = cell.row, cell.dataset
    return (dataset, row.name, row.settings), (dataset, row.form), (dataset, "of", family_of(row.form)), (dataset,), ()


def estimator(
    study: Study, root: Path, *, machine: str, speed: float | None = None, speeds: Sequence[RecordedSpeed] = ()
) -> Estimator:
    """An estimator for a kind of machine, as run.json names it: x86_64, NVIDIA H200.

    Measured `speeds` of a dataset count more than finished runs on it, which may be older than the program. `speed`
    (operations per second, from a probe) counts where no run of the study was finished on such a machine.
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
        told = [f"{len(given)} measured speed{'s' if len(given) > 1 else ''}"] if given else []
        told += [f"{runs} finished run{'s' if runs > 1 else ''} on {machine}"] if runs else []
        return Estimator(
            sizes=sizes,
            machine=machine,
            speed=TYPICAL_SPEED,
            factors={key: statistics.median(values) for key, values in ratios.items()},
            source=" and ".join(told),
            speeds=tuple(speeds),
            validation={name: each.validation for name, each in given if each.validation is not None},
        )
    source = f"a short probe of this {machine}, rough" if speed else "the arithmetic alone, very rough"
    return Estimator(sizes=sizes, machine=machine, speed=speed or TYPICAL_SPEED, factors={}, source=source)


def _size(study: Study, name: str, root: Path) -> Counts | None:
    graph = study.source(name)
    if is_named(graph):
        return dataset(graph).counts
    facts = graph_facts(study, name, root)
    return Counts(**{key: facts[key] for key in Counts.__dataclass_fields__}) if facts else None


def _measured(each: CellStatus, machine: str) -> float | None:
    """Seconds per epoch of a finished run that was on such a machine, and on no other."""
    if each.state != "done":
        return None
    try:
        told = each.folder.settings
        machines = {environment["name"] for environment in (told["environment"], *told.get("earlier", []))}
        seconds = each.folder.result["seconds_per_epoch"]
        return seconds if machines == {machine} and seconds else None
    except (RunError, KeyError, TypeError, AttributeError):
        return None
