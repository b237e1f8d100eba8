"""Verbs about studies: study run, study status, study report; study plan is in study_plan.py."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conjoin.cli import options as opt
from conjoin.cli.screen import Watcher, emit, say, show, show_table
from conjoin.cli.watching import StudyScreen, duration

if TYPE_CHECKING:
    from conjoin.study.estimate import Estimator
    from conjoin.study.schedule import Standing
    from conjoin.study.study import Cell, Study
    from conjoin.study.work import Outcome

study_app = typer.Typer(
    help="Datasets × forms × seeds from one file: run, watch, report.",
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
Speeds = Annotated[
    Path | None, typer.Option(help="Estimate by measured speeds: a JSON file such as conjoin bench train writes.")
]
Root = Annotated[Path | None, typer.Option(help="Results folder.  [default: results beside the study's file]")]


@study_app.command("run")
def run_study(
    study: StudyArgument,
    *,
    only: Only = None,
    seeds: Seeds = None,
    root: Root = None,
    device: opt.Device = None,
    max_minutes: Annotated[float | None, typer.Option(help="Stop after so many minutes, with a checkpoint.")] = None,
    whole_runs: Annotated[
        bool, typer.Option("--whole-runs", help="With --max-minutes: begin only runs that should end in time.")
    ] = False,
    pack: Annotated[Path | None, typer.Option(help="After each run, add its small files to this .tar.gz.")] = None,
    speeds: Speeds = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed runs again.")] = False,
    checkpoint_epochs: opt.CheckpointEpochs = 0,
    checkpoint_minutes: opt.CheckpointMinutes = 0.0,
    json: opt.Json = False,
) -> None:
    """Do the runs of a study that are not done yet, cheapest first.

    Stop it at any moment and start it again; start it several times, on several machines, on one results folder:
    no run is done twice. Ctrl-C or SIGTERM finish the step, write a checkpoint and exit with 130 or 143.

    \b
    conjoin study run studies/atlas.toml
    conjoin study run studies/paper.toml --only dataset=WN18RR,form=5star-conj --seeds 0-4 --max-minutes 9

    On a machine that is lent by the minute, take the results along as they come:

    \b
    conjoin study run studies/paper.toml --seeds 0 --max-minutes 9 --whole-runs --pack cells.tar.gz
    tar -xzf cells.tar.gz -C studies/results     # elsewhere, afterwards
    """
    from conjoin.device import choose_device, describe
    from conjoin.errors import Stopped
    from conjoin.study.estimate import estimator
    from conjoin.study.narrow import narrow
    from conjoin.study.pack import pack as write_pack
    from conjoin.study.pack import packed
    from conjoin.study.schedule import OPEN, survey
    from conjoin.study.speeds import read_speeds
    from conjoin.study.study import Study
    from conjoin.study.work import Means, work

    specified = Study.read(study)
    cells = narrow(specified, only=only or (), seeds=seeds)
    place = root or specified.root
    chosen = choose_device(device)
    before = survey(specified, place, cells=cells)
    wanted = [each for each in before if each.state in OPEN or (retry_failed and each.state == "failed")]
    measured = read_speeds(speeds) if speeds else ()
    guess = estimator(specified, place, machine=str(describe(chosen.device)["name"]), speeds=measured)
    kept = packed(place, pack) if pack is not None else []
    if pack is not None:
        write_pack(kept, place, pack)
    say(f"{specified.title or specified.name}: {_summary(before)} → {place / specified.name}")
    _say_absent(before)
    with StudyScreen(specified, place, wanted, guess).watching() as screen, opt.stopping() as stop:
        means = Means(
            device=str(chosen.device),
            checkpoint_epochs=checkpoint_epochs,
            checkpoint_minutes=checkpoint_minutes,
            retry_failed=retry_failed,
            until=time.monotonic() + 60 * max_minutes if max_minutes is not None else math.inf,
            stop=stop,
            seconds=lambda each: screen.guess.seconds(each.cell, done=each.epochs) if whole_runs else None,
            command=lambda cell: command(Path(study.name) if study.is_absolute() else study, cell),
            begin=screen.begin,
            note=say,
        )
        outcomes: list[Outcome] = []
        for outcome in work(specified, guess.cheapest_first(wanted), place, means=means):
            screen.ended(outcome)
            outcomes.append(outcome)
            if pack is not None and outcome.end == "done":
                kept.append(outcome.folder)
                write_pack(kept, place, pack)
        if stop():
            raise Stopped("the same command goes on")
    after = survey(specified, place, cells=cells)
    failed = _failed(before, outcomes, after, retried=retry_failed)
    if json:
        emit(
            {
                **_report(specified, place, after),
                "outcomes": [{**_named(o.cell), "end": o.end, "reason": o.reason} for o in outcomes],
            }
        )
    else:
        show(_summary(after))
        for title, reason in failed.items():
            show(f"failed: {title}: {reason}")
        show(f"Tables: conjoin study report {study}" + (f" --root {root}" if root else ""))
    if failed:
        raise typer.Exit(1)


def _failed(
    before: Iterable[Standing], outcomes: Iterable[Outcome], after: Iterable[Standing], *, retried: bool
) -> dict[str, str]:
    """Title and reason of the cells that failed and are not done now.

    A cell whose folder could not be read for a moment has failed too, though it looks as if it had not begun; so has
    one whose data are here and cannot be read.
    """
    ends = {each.cell.title: each for each in after}
    found = {title: each.reason for title, each in ends.items() if each.state == "failed"}
    found |= {o.cell.title: o.reason for o in outcomes if o.end in ("failed", "no data")}
    if not retried:
        found |= {each.cell.title: each.reason for each in before if each.state == "failed"}
    return {title: reason for title, reason in found.items() if ends[title].state != "done"}


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

    \b
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
        unknown = dict.fromkeys(each.cell.dataset for each in left if guess.seconds(each.cell) is None)
        if unknown:
            show(f"How long runs on {', '.join(unknown)} take is known when the first one has read the graph.")
        else:
            show(f"The open {len(left)} runs will take about {duration(guess.total(left))}, by {guess.source}.")


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

    \b
    conjoin study report studies/atlas.toml -o report
    """
    from conjoin.report.compose import write_report
    from conjoin.study.study import Study

    specified = Study.read(study)
    place = out or Path("reports") / specified.name
    with Watcher().watching() as watcher:
        told = write_report(specified, root or specified.root, place, track=watcher.track)
    for reason in told["left_out"]:
        say(f"left out: {reason}")
    if json:
        emit(told)
        return
    for file in ("report.md", "report.tex", "report.html", "report.json"):
        show(str(place / file))


def _estimator(study: Study, root: Path, device: str | None) -> Estimator:
    """By finished runs on this kind of machine, or by a short probe of it."""
    from conjoin.device import choose_device, describe
    from conjoin.study.estimate import estimator
    from conjoin.study.work import probe

    chosen = choose_device(device).device
    machine = str(describe(chosen)["name"])
    by_runs = estimator(study, root, machine=machine)
    return by_runs if by_runs.factors else estimator(study, root, machine=machine, speed=probe(str(chosen)))


def command(study: Path, cell: Cell) -> str:
    """What does just this run again."""
    part = f"dataset={cell.dataset},row={cell.row.name}"
    return shlex.join(["conjoin", "study", "run", str(study), "--only", part, "--seeds", str(cell.seed)])


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
        time_left = duration(guess.total(left)) if guess and left else ""
        rows.append((dataset, row, *(str(counts[state] or "") for state in STATES), time_left))
    show_table(study.title or study.name, ("dataset", "row", *STATES, "time left"), rows, left=2)
    show(_summary(standings))
