"""Verbs about studies: study run, study status, study report."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conjoin.cli import options as opt
from conjoin.cli.screen import Watcher, emit, number, say, show, show_table

if TYPE_CHECKING:
    from rich.progress import TaskID

    from conjoin.study.estimate import Estimator
    from conjoin.study.schedule import Standing
    from conjoin.study.study import Cell, Study
    from conjoin.study.work import Outcome, Watch

study_app = typer.Typer(
    help="A study: datasets × forms × seeds from one file, run, watched and reported.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

StudyArgument = Annotated[
    Path, typer.Argument(metavar="STUDY", help="A study's TOML file, such as studies/atlas.toml.")
]
Only = Annotated[
    list[str] | None,
    typer.Option(help="A part: dataset=WN18RR,row=5star-conj; keys are dataset, row, form, group; repeat for more."),
]
Seeds = Annotated[str | None, typer.Option(help="Some of the seeds: 0-4 or 0,3,7.")]
Root = Annotated[Path | None, typer.Option(help="Results folder.  [default: results beside the study's file]")]


@study_app.command("run")
def run_study(
    study: StudyArgument,
    *,
    only: Only = None,
    seeds: Seeds = None,
    root: Root = None,
    device: opt.Device = None,
    max_minutes: Annotated[float | None, typer.Option(help="Stop at a checkpoint before so many minutes.")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed runs again.")] = False,
    checkpoint_epochs: Annotated[int, typer.Option(help="Checkpoint every n epochs; 0: by the clock.")] = 0,
    checkpoint_minutes: Annotated[float, typer.Option(help="Checkpoint at least so often.")] = 1.0,
    json: opt.Json = False,
) -> None:
    """Do the runs of a study that are not done yet, cheapest first.

    Stop it at any moment and start it again; start it several times, on several machines, on one results folder:
    no run is done twice.

    conjoin study run studies/atlas.toml

    conjoin study run studies/paper.toml --only dataset=WN18RR,form=5star-conj --seeds 0-4 --max-minutes 9
    """
    from conjoin.device import choose_device, describe
    from conjoin.study.estimate import estimator
    from conjoin.study.narrow import narrow
    from conjoin.study.schedule import OPEN, survey
    from conjoin.study.study import Study
    from conjoin.study.work import Means, work

    specified = Study.read(study)
    cells = narrow(specified, only=only or (), seeds=seeds)
    place = root or specified.root
    chosen = choose_device(device)
    before = survey(specified, place, cells=cells)
    wanted = [each for each in before if each.state in OPEN or (retry_failed and each.state == "failed")]
    guess = estimator(specified, place, machine=str(describe(chosen.device)["name"]))
    say(f"{specified.title or specified.name}: {_summary(before)} → {place / specified.name}")
    _say_absent(before)
    with _Screen(specified, place, wanted, guess).watching() as screen:
        means = Means(
            device=str(chosen.device),
            checkpoint_epochs=checkpoint_epochs,
            checkpoint_minutes=min(checkpoint_minutes, (max_minutes or math.inf) / 10),
            retry_failed=retry_failed,
            until=time.monotonic() + 60 * max_minutes if max_minutes is not None else math.inf,
            command=lambda cell: _command(study, cell),
            begin=screen.begin,
        )
        outcomes = []
        for outcome in work(specified, guess.cheapest_first(wanted), place, means=means):
            screen.ended(outcome)
            outcomes.append(outcome)
    after = survey(specified, place, cells=cells)
    failed = [each for each in after if each.state == "failed"]
    if json:
        emit(
            {
                **_report(specified, place, after),
                "outcomes": [{**_named(o.cell), "end": o.end, "reason": o.reason} for o in outcomes],
            }
        )
    else:
        show(_summary(after))
        for each in failed:
            show(f"failed: {each.cell.title}: {each.reason}")
        show(f"Tables: conjoin study report {study}" + (f" --root {root}" if root else ""))
    if failed:
        raise typer.Exit(1)


@study_app.command("status")
def status(
    study: StudyArgument,
    *,
    only: Only = None,
    seeds: Seeds = None,
    root: Root = None,
    device: opt.Device = None,
    json: opt.Json = False,
) -> None:
    """What is done, running, missing and failed and why, and how long the rest will take on this machine.

    conjoin study status studies/paper.toml --only dataset=WN18RR
    """
    from conjoin.study.narrow import narrow
    from conjoin.study.schedule import OPEN, survey
    from conjoin.study.study import Study

    specified = Study.read(study)
    place = root or specified.root
    standings = survey(specified, place, cells=narrow(specified, only=only or (), seeds=seeds))
    left = [each for each in standings if each.state in OPEN]
    guess = _estimator(specified, place, device) if left else None
    if json:
        emit(_report(specified, place, standings, guess=guess))
        return
    _show_standings(specified, standings, guess)
    for reason in dict.fromkeys(each.reason for each in standings if each.state == "no data"):
        show(f"data not here: {reason}")
    for each in standings:
        if each.state == "failed":
            show(f"failed: {each.cell.title}: {each.reason}")
    if guess is not None:
        show(f"The open {len(left)} runs will take about {_duration(guess.total(left))}, by {guess.source}.")


@study_app.command("report")
def report(
    study: StudyArgument,
    *,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder to write to.  [default: reports/NAME]")
    ] = None,
    root: Root = None,
    json: opt.Json = False,
) -> None:
    """Write the study's tables, tests and plots as Markdown, LaTeX and one HTML page.

    conjoin study report studies/atlas.toml -o report
    """
    from conjoin.study.report import write_report
    from conjoin.study.study import Study

    specified = Study.read(study)
    place = out or Path("reports") / specified.name
    written = write_report(specified, root or specified.root, place)
    if json:
        emit(written.to_json())
        return
    for file in written.files:
        show(str(file))


class _Screen:
    """Bars on a terminal, now and then a line elsewhere: the study as a whole, and the run under way."""

    def __init__(self, study: Study, root: Path, wanted: Sequence[Standing], guess: Estimator) -> None:
        self.study, self.root, self.guess = study, root, guess
        self.left = {each.cell: each for each in wanted}
        self.total, self.watcher = len(wanted), Watcher()
        self.whole: TaskID | None = None

    @contextmanager
    def watching(self) -> Iterator[_Screen]:
        with self.watcher.watching():
            if self.watcher.bars is not None:
                self.whole = self.watcher.bars.add_task(self.study.name, total=self.total)
            yield self

    def begin(self, each: Standing) -> Watch:
        """A run begins, or goes on."""
        from conjoin.study.work import Watch

        self.left[each.cell] = each
        self.watcher.what, self.watcher.total = each.cell.title, each.cell.recipe.epochs
        if self.watcher.bars is not None:
            if self.watcher.epochs is not None:
                self.watcher.bars.remove_task(self.watcher.epochs)
            self.watcher.epochs = self.watcher.bars.add_task(each.cell.title, total=each.cell.recipe.epochs)
        else:
            going_on = f", from epoch {each.epochs + 1}" if each.epochs else ""
            self.watcher.line(f"{each.cell.title} begins{going_on}")
        return Watch(track=self.watcher.track, epoch=self.watcher.epoch)

    def ended(self, outcome: Outcome) -> None:
        """A run came to an end, here or elsewhere."""
        self.left.pop(outcome.cell, None)
        done = self.total - len(self.left)
        words = {
            "done": lambda: f"test MRR {number(outcome.folder.result['test']['mrr'])}",
            "elsewhere": lambda: "done by another process",
        }.get(outcome.end, lambda: f"{outcome.end}: {outcome.reason}")()
        rest = self._rest() if self.left else ""
        if outcome.end != "stopped":
            say(f"[{done}/{self.total}] {outcome.cell.title}: {words}{rest}")
        if self.watcher.bars is not None and self.whole is not None:
            self.watcher.bars.update(self.whole, completed=done, description=f"{self.study.name}{rest}")

    def _rest(self) -> str:
        from conjoin.study.estimate import estimator

        self.guess = estimator(self.study, self.root, machine=self.guess.machine)
        return f"; about {_duration(self.guess.total(self.left.values()))} left"


def _estimator(study: Study, root: Path, device: str | None) -> Estimator:
    """By finished runs on this kind of machine, or by a short probe of it."""
    from conjoin.device import choose_device, describe
    from conjoin.study.estimate import estimator
    from conjoin.study.work import probe

    chosen = choose_device(device).device
    machine = str(describe(chosen)["name"])
    by_runs = estimator(study, root, machine=machine)
    return by_runs if by_runs.factors else estimator(study, root, machine=machine, speed=probe(str(chosen)))


def _command(study: Path, cell: Cell) -> str:
    """What does just this run again."""
    part = f"dataset={cell.dataset},row={cell.row.name}"
    return shlex.join(["conjoin", "study", "run", study.name, "--only", part, "--seeds", str(cell.seed)])


def _say_absent(standings: Iterable[Standing]) -> None:
    for reason in dict.fromkeys(each.reason for each in standings if each.state == "no data"):
        say(f"data not here: {reason}")


def _summary(standings: Sequence[Standing]) -> str:
    from conjoin.study.schedule import counted

    words = {"no data": "without data"}
    parts = [f"{count} {words.get(state, state)}" for state, count in counted(standings).items() if count]
    return f"{len(standings)} runs: " + ", ".join(parts)


def _named(cell: Cell) -> dict[str, Any]:
    return {"dataset": cell.dataset, "row": cell.row.name, "form": cell.row.form_text, "seed": cell.seed}


def _report(
    study: Study, root: Path, standings: Sequence[Standing], *, guess: Estimator | None = None
) -> dict[str, Any]:
    """The JSON object of `study run` and `study status`."""
    from conjoin.study.schedule import OPEN, counted

    def seconds(each: Standing) -> float | None:
        return guess.seconds(each.cell, done=each.epochs) if guess and each.state in OPEN else None

    return {
        "study": study.name,
        "root": str(root),
        "counts": counted(standings),
        "remaining_seconds": guess.total([each for each in standings if each.state in OPEN]) if guess else None,
        "estimated_by": guess.source if guess else None,
        "cells": [
            {
                **_named(each.cell),
                "state": each.state,
                "reason": each.reason,
                "folder": str(each.folder.path),
                "epochs": each.epochs,
                "of_epochs": each.cell.recipe.epochs,
                "estimated_seconds": seconds(each),
            }
            for each in standings
        ],
    }


def _show_standings(study: Study, standings: Sequence[Standing], guess: Estimator | None) -> None:
    """One line per dataset and row."""
    from conjoin.study.schedule import OPEN, STATES, counted

    lines: dict[tuple[str, str], list[Standing]] = {}
    for each in standings:
        lines.setdefault((each.cell.dataset, each.cell.row.name), []).append(each)
    rows = []
    for (dataset, row), group in lines.items():
        counts = counted(group)
        left = [each for each in group if each.state in OPEN]
        time_left = _duration(guess.total(left)) if guess and left else ""
        rows.append((dataset, row, *(str(counts[state] or "") for state in STATES), time_left))
    show_table(study.title or study.name, ("dataset", "row", *STATES, "time left"), rows, left=2)
    show(_summary(standings))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"
