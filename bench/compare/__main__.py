"""The commands `conjoin bench train`, `conjoin bench rank` and `conjoin bench growth`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, say, show

if TYPE_CHECKING:
    import torch
    from bench.compare.cells import BenchCell
    from bench.compare.pykeen_runner import PykeenRunner
    from bench.compare.training import Effort

bench_app = typer.Typer(
    help="Measure speed and memory next to plain PyTorch and PyKEEN.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
CellsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[CELL]...", help="DATASET/FORM/RANK/BATCH[/PRECISION]; random-N is a random graph of N entities."
    ),
]
Out = Annotated[
    Path,
    typer.Option("-o", "--out", rich_help_panel=opt.OUTPUT, help="Folder for <name>_<hardware>_<date>.md and .json."),
]
Seconds = Annotated[float, typer.Option(help="Approximate time to measure each program on a cell.")]
Rounds = Annotated[int, typer.Option(help="Rounds that alternate between the programs; the report shows medians.")]
WithPlain = Annotated[bool, typer.Option("--plain/--no-plain", help="Also measure the same model in plain PyTorch.")]
Pykeen = Annotated[
    Path | None, typer.Option("--pykeen", metavar="PYTHON", help="Python interpreter with PyKEEN; also measure PyKEEN.")
]


@dataclass(frozen=True, kw_only=True)
class Results:
    """The device of a benchmark, and the files for its results."""

    device: opt.Device = None
    hardware: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=opt.OUTPUT,
            help="Name of the machine in the file names.  [default: the GPU, or the number of cores]",
        ),
    ] = None
    name: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=opt.OUTPUT, help="First word of the file names.  [default: train, rank or growth]"
        ),
    ] = None
    out: Out = Path("bench/results")
    json: opt.Json = False

    def check(self) -> None:
        """Raise UsageError before measuring if the folder is a file."""
        from conjoin.errors import UsageError

        if self.out.exists() and not self.out.is_dir():
            raise UsageError(f"{self.out} is not a folder. Choose another folder for the results")

    def write(self, theme: str, parts: dict[str, Any], place: torch.device) -> None:
        """Write the files and show the table."""
        from bench.compare.results import hardware_of, table_of, today, write

        from conjoin.runtime.device import describe

        machine = describe(place)
        found = {
            "theme": theme,
            "hardware": self.hardware or hardware_of(machine, os.cpu_count() or 1),
            "date": today(),
            "command": _command(sys.argv[1:]),
            "machine": machine,
            **parts,
        }
        written = write(self.out, found, name=self.name)
        say(f"written: {', '.join(map(str, written))}")
        if self.json:
            emit(found)
        else:
            show(table_of(found))


result_options = opt.expand_parameter("results", Results)


@bench_app.command("train", cls=opt.Verb)
@result_options
def bench_train(
    cells: CellsArgument = None,
    *,
    grid: Annotated[str, typer.Option(help="Without cells, measure this grid: paper, tied or cpu.")] = "paper",
    precision: Annotated[str | None, typer.Option(help="Measure the grid in this precision.")] = None,
    seconds: Seconds = 5.0,
    rounds: Rounds = 5,
    plain: WithPlain = True,
    pykeen: Pykeen = None,
    until: Annotated[float | None, typer.Option(help="Also train from the start until this test MRR.")] = None,
    every: Annotated[int, typer.Option(help="With --until: rank the test split every N epochs.")] = 10,
    epochs: Annotated[int, typer.Option(help="With --until: stop after N epochs.")] = 600,
    results: Results,
) -> None:
    """Measure seconds per epoch.

    Compares with plain PyTorch, with plain PyTorch at the published entity widths, with PyKEEN, and with the least time
    that the arithmetic and memory traffic need on this hardware.

    \b
    conjoin bench train                                          the paper's settings; slow without a GPU
    conjoin bench train --grid cpu --pykeen pykeen/bin/python
    conjoin bench train wn18rr/5star-conj/500/1000/bf16 --no-plain --until 0.49
    """
    from bench.compare.cells import TRAIN_GRIDS
    from bench.compare.training import measure_training, time_to

    def measure(cell: BenchCell, place: torch.device, effort: Effort, other: PykeenRunner | None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if until is not None:
            for reached in time_to(cell, place, mrr=until, every=every, epochs=epochs):
                found["time_to"] = reached
                say(f"{cell}: test MRR {reached['mrr']:.4f} after {reached['training_seconds']:.1f} s of training")
        found |= measure_training(cell, place, effort=effort, plain=plain, other=other)
        say(f"{cell}: {found['seconds_per_epoch']:.3g} s per epoch")
        return found

    chosen = _cells(cells, grid, TRAIN_GRIDS, precision)
    _measure("train", chosen, measure, seconds, rounds, other=pykeen, results=results)


@bench_app.command("rank", cls=opt.Verb)
@result_options
def bench_rank(
    cells: CellsArgument = None,
    *,
    grid: Annotated[str, typer.Option(help="Without cells, measure this grid: paper or cpu.")] = "paper",
    seconds: Seconds = 5.0,
    rounds: Rounds = 5,
    plain: WithPlain = True,
    pykeen: Pykeen = None,
    results: Results,
) -> None:
    """Measure the seconds to rank all test questions.

    \b
    conjoin bench rank --grid cpu
    conjoin bench rank fb15k-237/complex/2000/500 random-1000000/complex/100/500 --no-plain
    """
    from bench.compare.cells import RANK_GRIDS
    from bench.compare.ranking import measure_ranking

    def measure(cell: BenchCell, place: torch.device, effort: Effort, other: PykeenRunner | None) -> dict[str, Any]:
        found = measure_ranking(cell, place, effort=effort, plain=plain, other=other)
        say(f"{cell}: {found['seconds']:.3g} s")
        return found

    chosen = _cells(cells, grid, RANK_GRIDS, None)
    _measure("rank", chosen, measure, seconds, rounds, other=pykeen, results=results)


@bench_app.command("growth", cls=opt.Verb)
@result_options
def bench_growth(
    *,
    form: Annotated[str, typer.Option(help="The name of a form (`conjoin forms`), or its text.")] = "5star-conj",
    precision: Annotated[str | None, typer.Option(help="fp32, tf32 …  [default: fp32 on a CPU, tf32 on a GPU]")] = None,
    most: Annotated[int | None, typer.Option(help="Leave out larger numbers of entities than this.")] = None,
    seconds: Annotated[float, typer.Option(help="Approximate time to measure each size.")] = 1.0,
    results: Results,
) -> None:
    """Measure time and memory of a step by entities, rank and batch.

    Changes one of them at a time.

    \b
    conjoin bench growth --device cpu
    conjoin bench growth --device cuda --most 1000000
    """
    from dataclasses import replace

    from bench.compare.growth import SWEEPS, grow

    from conjoin.runtime.device import choose_device

    results.check()
    place = choose_device(results.device).device
    sweep = replace(SWEEPS[place.type], form=form)
    sweep = replace(sweep, precision=precision or sweep.precision)
    sweep = replace(sweep, entities=tuple(n for n in sweep.entities if most is None or n <= most))
    load, points = _load(), []
    with ProgressDisplay().watching() as watcher:
        for point in watcher.track(grow(sweep, place, seconds=seconds), "sizes", len(list(sweep.sizes()))):
            say(
                f"{point['entities']:,} entities, rank {point['rank']}, batch {point['batch']}: "
                f"{1000 * point['seconds']:.3g} ms, {point['peak_bytes'] / 2**30:.2f} GiB"
            )
            points.append(point)
    results.write("growth", {"cells": points, "load": load, "form": form, "precision": sweep.precision}, place)


def _cells(
    named: list[str] | None, grid: str, grids: dict[str, tuple[BenchCell, ...]], precision: str | None
) -> tuple[BenchCell, ...]:
    from bench.compare.cells import BenchCell
    from bench.compare.cells import cells_of_grid as grid_of

    return tuple(map(BenchCell.parse, named)) if named else grid_of(grid, grids, precision=precision)


def _measure(
    theme: str,
    cells: tuple[BenchCell, ...],
    measure: Callable[[BenchCell, torch.device, Effort, PykeenRunner | None], dict[str, Any]],
    seconds: float,
    rounds: int,
    *,
    other: Path | None,
    results: Results,
) -> None:
    """Measure every cell, and the machine's rates before and after each; then write the files."""
    from bench.compare import ranking, training
    from bench.compare.machine_rates import measured_rates
    from bench.compare.pykeen_runner import PykeenRunner

    from conjoin.runtime.device import choose_device

    results.check()
    pykeen = PykeenRunner(other) if other else None
    version = pykeen.check() if pykeen else None
    place = choose_device(results.device).device
    load, rates = _load(), measured_rates(place)
    effort = training.Effort(seconds=seconds, rounds=rounds)
    found: list[dict[str, Any]] = []
    with ProgressDisplay().watching() as watcher:
        for cell in watcher.track(cells, "cells", len(cells)):
            found.append(measure(cell, place, effort, pykeen))
            rates = rates.best(measured_rates(place))
    against_floor = {"train": training, "rank": ranking}[theme].against_floor
    told = [against_floor(cell, rates) for cell in found]
    parts = {"rates": asdict(rates), "load": load, "pykeen": version, "cells": told}
    results.write(theme, parts, place)


def _command(words: list[str]) -> str:
    """The command without paths of this machine."""
    kept, places = [], {"-o": None, "--out": None, "--pykeen": "PYTHON"}
    following = iter(words)
    for word in following:
        if word not in places:
            kept.append(word)
            continue
        next(following, None)
        if places[word]:
            kept += [word, str(places[word])]
    return shlex.join(["conjoin", *kept])


def _load() -> str:
    return " ".join(f"{load:.2f}" for load in os.getloadavg())
