"""`conjoin study`: run, plan, report and archive a study."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, say, show, show_table
from conjoin.cli.study_progress import StudyProgress, duration

if TYPE_CHECKING:
    from conjoin.studies.estimate import Estimator
    from conjoin.studies.spec import Study, StudyCell
    from conjoin.studies.status import CellStatus
    from conjoin.studies.worker import CellOutcome


study_app = typer.Typer(
    help="Run datasets × forms × seeds from one file, and report them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
StudyArgument = Annotated[
    Path, typer.Argument(metavar="STUDY", help="The study's TOML file, such as studies/atlas.toml.")
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        help="Select runs, as dataset=WN18RR,row=5star-conj. Keys: dataset, row, form, group. May be repeated."
    ),
]
Seeds = Annotated[str | None, typer.Option(help="Select seeds: 0-4 or 0,3,7.")]
Speeds = Annotated[
    Path | None, typer.Option(help="Base estimates on a JSON file of measured speeds, as `conjoin bench train` writes.")
]
Root = Annotated[
    Path | None, typer.Option(help="Results folder.  [default: results, in the folder of the study's file]")
]


@study_app.command("run", cls=opt.Verb)
def run_study(
    study: StudyArgument,
    *,
    only: Only = None,
    seeds: Seeds = None,
    root: Root = None,
    device: opt.Device = None,
    max_minutes: Annotated[float | None, typer.Option(help="Stop after this many minutes, with a checkpoint.")] = None,
    whole_runs: Annotated[
        bool, typer.Option("--whole-runs", help="With --max-minutes: start only runs that are expected to end in time.")
    ] = False,
    pack: Annotated[
        Path | None, typer.Option(help="After each run, add its files (without weights) to this .tar.gz.")
    ] = None,
    speeds: Speeds = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed runs again.")] = False,
    checkpoint_epochs: opt.CheckpointEpochs = 0,
    checkpoint_minutes: opt.CheckpointMinutes = 0.0,
    json: opt.Json = False,
) -> None:
    """Train and rank the runs of a study that are not done yet, cheapest first.

    You may stop the command at any time and repeat it. Several processes, also on several machines, may share one
    results folder; no run is done twice. After Ctrl-C or SIGTERM the command finishes the current step, writes a
    checkpoint and exits with 130 or 143.

    \b
    conjoin study run studies/atlas.toml
    conjoin study run studies/paper.toml --only dataset=WN18RR,form=5star-conj --seeds 0-4 --max-minutes 9

    On a rented machine, collect the results in one file as they come:

    \b
    conjoin study run studies/paper.toml --seeds 0 --max-minutes 9 --whole-runs --pack cells.tar.gz
    tar -xzf cells.tar.gz -C studies/results     # elsewhere, afterwards
    """
    from conjoin.errors import Stopped
    from conjoin.runtime.device import choose_device, describe
    from conjoin.studies.estimate import estimator
    from conjoin.studies.pack import archived_files
    from conjoin.studies.pack import write_archive as write_pack
    from conjoin.studies.parse import read_study
    from conjoin.studies.select import select_cells
    from conjoin.studies.speeds import read_speeds
    from conjoin.studies.status import OPEN, study_status
    from conjoin.studies.worker import WorkerOptions, run_cells

    specified = read_study(study)
    cells = select_cells(specified, only=only or (), seeds=seeds)
    place = root or specified.root
    chosen = choose_device(device)
    before = study_status(specified, place, cells=cells)
    wanted = [each for each in before if each.state in OPEN or (retry_failed and each.state == "failed")]
    measured = read_speeds(speeds) if speeds else ()
    guess = estimator(specified, place, machine=str(describe(chosen.device)["name"]), speeds=measured)
    kept = archived_files(place, pack) if pack is not None else []
    if pack is not None:
        write_pack(kept, place, pack)
    say(f"{specified.title or specified.name}: {_summary(before)} → {place / specified.name}")
    _say_absent(before)
    with StudyProgress(specified, place, wanted, guess).watching() as screen, opt.stop_on_signal() as stop:
        means = WorkerOptions(
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
        outcomes: list[CellOutcome] = []
        for outcome in run_cells(specified, guess.cheapest_first(wanted), place, means=means):
            screen.ended(outcome)
            outcomes.append(outcome)
            if pack is not None and outcome.end == "done":
                kept.append(outcome.folder)
                write_pack(kept, place, pack)
        if stop():
            raise Stopped("repeat the command to continue")
    after = study_status(specified, place, cells=cells)
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
        show(f"For tables, run: conjoin study report {study}" + (f" --root {root}" if root else ""))
    if failed:
        raise typer.Exit(1)


def _failed(
    before: Iterable[CellStatus], outcomes: Iterable[CellOutcome], after: Iterable[CellStatus], *, retried: bool
) -> dict[str, str]:
    """Title and reason of the cells that failed and are still not done.

    This includes a cell whose folder could not be read when it was tried, and a cell whose data cannot be read.
    """
    ends = {each.cell.title: each for each in after}
    found = {title: each.reason for title, each in ends.items() if each.state == "failed"}
    found |= {o.cell.title: o.reason for o in outcomes if o.end in ("failed", "no data")}
    if not retried:
        found |= {each.cell.title: each.reason for each in before if each.state == "failed"}
    return {title: reason for title, reason in found.items() if ends[title].state != "done"}


@study_app.command("status", cls=opt.Verb)
def status(
    study: StudyArgument,
    *,
    only: Only = None,
    seeds: Seeds = None,
    root: Root = None,
    device: opt.Device = None,
    json: opt.Json = False,
) -> None:
    """Show which runs are done, running, missing or failed, and how long the rest will take on this machine.

    \b
    conjoin study status studies/paper.toml --only dataset=WN18RR
    """
    from conjoin.studies.parse import read_study
    from conjoin.studies.select import select_cells
    from conjoin.studies.status import OPEN, study_status

    specified = read_study(study)
    place = root or specified.root
    standings = study_status(specified, place, cells=select_cells(specified, only=only or (), seeds=seeds))
    left = [each for each in standings if each.state in OPEN]
    guess = _estimator(specified, place, device) if left else None
    if json:
        emit(_report(specified, place, standings, guess=guess))
        return
    _show_standings(specified, standings, guess)
    for reason in dict.fromkeys(each.reason for each in standings if each.state == "no data"):
        show(f"Data missing: {reason}")
    for each in standings:
        if each.state == "failed":
            show(f"failed: {each.cell.title}: {each.reason}")
    if guess is not None:
        unknown = dict.fromkeys(each.cell.dataset for each in left if guess.seconds(each.cell) is None)
        if unknown:
            show(f"No estimate for {', '.join(unknown)} yet. The first run there reads the size of the graph.")
        else:
            show(
                f"The {len(left)} open runs will take about {duration(guess.total(left))},"
                f" estimated from {guess.source}."
            )


@study_app.command("report", cls=opt.Verb)
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
    from conjoin.report.build import write_report
    from conjoin.studies.parse import read_study

    specified = read_study(study)
    place = out or Path("reports") / specified.name
    with ProgressDisplay().watching() as watcher:
        content = write_report(specified, root or specified.root, place, track=watcher.track)
    for reason in content["left_out"]:
        say(f"Left out: {reason}")
    if json:
        emit(content)
        return
    for file in ("report.md", "report.tex", "report.html", "report.json"):
        show(str(place / file))


def _estimator(study: Study, root: Path, device: str | None) -> Estimator:
    """An estimator from finished runs on this kind of machine, or from a short speed test."""
    from conjoin.runtime.device import choose_device, describe
    from conjoin.studies.estimate import estimator
    from conjoin.studies.worker import measure_speed

    chosen = choose_device(device).device
    machine = str(describe(chosen)["name"])
    by_runs = estimator(study, root, machine=machine)
    return by_runs if by_runs.factors else estimator(study, root, machine=machine, speed=measure_speed(str(chosen)))


def command(study: Path, cell: StudyCell) -> str:
    """The command that does only this run."""
    part = f"dataset={cell.dataset},row={cell.row.name}"
    return shlex.join(["conjoin", "study", "run", str(study), "--only", part, "--seeds", str(cell.seed)])


def _say_absent(standings: Iterable[CellStatus]) -> None:
    for reason in dict.fromkeys(each.reason for each in standings if each.state == "no data"):
        say(f"Data missing: {reason}")


def _summary(standings: Sequence[CellStatus]) -> str:
    from conjoin.studies.status import count_states

    words = {"no data": "without data"}
    parts = [f"{count} {words.get(state, state)}" for state, count in count_states(standings).items() if count]
    return f"{len(standings)} runs: " + ", ".join(parts)


def _named(cell: StudyCell) -> dict[str, Any]:
    return {"dataset": cell.dataset, "row": cell.row.name, "form": cell.row.form_text, "seed": cell.seed}


def _report(
    study: Study, root: Path, standings: Sequence[CellStatus], *, guess: Estimator | None = None
) -> dict[str, Any]:
    """The JSON object of `study run` and `study status`."""
    from conjoin.studies.status import OPEN, count_states

    def seconds(each: CellStatus) -> float | None:
        return guess.seconds(each.cell, done=each.epochs) if guess and each.state in OPEN else None

    return {
        "study": study.name,
        "root": str(root),
        "counts": count_states(standings),
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


def _show_standings(study: Study, standings: Sequence[CellStatus], guess: Estimator | None) -> None:
    """One line per dataset and row."""
    from conjoin.studies.status import OPEN, STATES, count_states

    lines: dict[tuple[str, str], list[CellStatus]] = {}
    for each in standings:
        lines.setdefault((each.cell.dataset, each.cell.row.name), []).append(each)
    rows = []
    for (dataset, row), group in lines.items():
        counts = count_states(group)
        left = [each for each in group if each.state in OPEN]
        time_left = duration(guess.total(left)) if guess and left else ""
        rows.append((dataset, row, *(str(counts[state] or "") for state in STATES), time_left))
    show_table(study.title or study.name, ("dataset", "row", *STATES, "time left"), rows, left=2)
    show(_summary(standings))


StudyOrFolder = Annotated[
    Path, typer.Argument(metavar="STUDY", help="A study's TOML file, or the folder of its results.")
]


@study_app.command("archive", cls=opt.Verb)
def archive(
    study: StudyOrFolder,
    *,
    root: Root = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Delete the files that the archive restores. Weights stay.")
    ] = False,
    json: opt.Json = False,
) -> None:
    """Add finished runs to the study's archive: runs.parquet, ranks.parquet, and questions.parquet one folder above.

    Status, plan, run and report read archived runs as well as folders. `conjoin study restore` writes the run folders
    byte for byte, except weights.

    \b
    conjoin study archive studies/paper.toml --remove
    """
    from conjoin.studies.archive_write import remove_archived, write_archive

    folder = _results_folder(study, root)
    with ProgressDisplay().watching() as watcher:
        written = write_archive(folder, track=watcher.track)
    removed = remove_archived(folder) if remove else 0
    if json:
        emit({"folder": str(folder), "added": written.added, "runs": written.runs, "removed_files": removed})
        return
    show(f"{folder}: {written.added} runs added, {written.runs} in the archive" + f", {removed} files removed" * remove)


@study_app.command("restore", cls=opt.Verb)
def restore(
    study: StudyOrFolder,
    *,
    only: Only = None,
    seeds: Seeds = None,
    root: Root = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder to write to.  [default: the study's results]")
    ] = None,
    json: opt.Json = False,
) -> None:
    """Restore the run folders of the study's archive byte for byte, except weights.

    Files in existing folders must equal the archived ones.

    \b
    conjoin study restore studies/paper.toml --only dataset=WN18RR --seeds 0 -o restored
    """
    from conjoin.errors import UsageError
    from conjoin.studies.archive_write import restore_runs
    from conjoin.studies.parse import read_study
    from conjoin.studies.select import select_cells

    folder = _results_folder(study, root)
    chosen = None
    if only or seeds is not None:
        if study.is_dir():
            raise UsageError(f"--only and --seeds need the study's TOML file, not the folder {study}.")
        cells = select_cells(read_study(study), only=only or (), seeds=seeds)
        chosen = {Path(*cell.folder.parts[1:]).as_posix() for cell in cells}
    with ProgressDisplay().watching() as watcher:
        runs = restore_runs(folder, out or folder, chosen=chosen, track=watcher.track)
    if json:
        emit({"folder": str(out or folder), "runs": runs})
        return
    show(f"{out or folder}: {runs} runs restored")


def _results_folder(study: Path, root: Path | None) -> Path:
    """The results folder of a study; STUDY may also be that folder."""
    from conjoin.studies.parse import read_study

    if study.is_dir():
        return study
    specified = read_study(study)
    return (root or specified.root) / specified.name


@study_app.command("plan", cls=opt.Verb)
def plan(
    study: StudyArgument,
    *,
    only: Only = None,
    seeds: Seeds = None,
    root: Root = None,
    speeds: Speeds = None,
    machine: Annotated[
        str | None, typer.Option(help="Estimate for this kind of machine, by its name in run.json: 'NVIDIA H200'.")
    ] = None,
    commands: Annotated[bool, typer.Option("--commands", help="Print only the commands, one per line.")] = False,
    json: opt.Json = False,
) -> None:
    """List the missing runs, cheapest first, with estimated times; with --commands, the command of each run.

    Estimates come from finished runs on the machine or from measured speeds. Without either, they only sort the runs by
    cost. Runs whose data are missing are listed too, because another machine may have the data.

    \b
    conjoin study plan studies/paper.toml --seeds 0 --machine 'NVIDIA H200'
    conjoin study plan studies/paper.toml --only dataset=WN18RR --speeds bench/results/train.json --commands
    """
    from conjoin.studies.estimate import estimator, total_estimate
    from conjoin.studies.parse import read_study
    from conjoin.studies.select import select_cells
    from conjoin.studies.speeds import read_speeds
    from conjoin.studies.status import cell_status

    specified = read_study(study)
    place = root or specified.root
    measured = read_speeds(speeds) if speeds else ()
    guess = estimator(specified, place, machine=machine or "this machine", speeds=measured)
    standings = {cell: cell_status(cell, place) for cell in select_cells(specified, only=only or (), seeds=seeds)}
    left = {cell: each for cell, each in standings.items() if each.state != "done"}
    order = guess.cheapest_first(left.values())
    costs = [guess.seconds(cell, done=left[cell].epochs) for cell in order]
    elsewhere = f" --root {shlex.quote(str(root))}" if root else ""
    lines = [command(study, cell) + elsewhere for cell in order]
    if json:
        named = zip(order, costs, lines, strict=True)
        emit(
            {
                "study": specified.name,
                "estimated_by": guess.source,
                "seconds": total_estimate(costs),
                "cells": [
                    {"dataset": c.dataset, "row": c.row.name, "seed": c.seed, "seconds": cost, "command": line}
                    for c, cost, line in named
                ],
            }
        )
        return
    if commands:
        for line in lines:
            show(line)
        return
    sums = (total_estimate(costs[: n + 1]) for n in range(len(costs)))
    rows = [
        (cell.dataset, cell.row.name, str(cell.seed), duration(cost), duration(total))
        for cell, cost, total in zip(order, costs, sums, strict=True)
    ]
    show_table(
        f"{specified.title or specified.name}: {len(order)} of {len(standings)} runs are missing",
        ("dataset", "row", "seed", "time", "total time"),
        rows,
        left=2,
    )
    show(f"Estimated from {guess.source}. --commands prints the command of each run in this order.")
