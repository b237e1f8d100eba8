"""The verb study plan: what is missing, cheapest first, with the command for each run."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.screen import emit, show, show_table
from conjoin.cli.studies import Only, Root, Seeds, Speeds, StudyArgument, command
from conjoin.cli.watching import duration


def plan(
    study: StudyArgument,
    *,
    only: Only = None,
    seeds: Seeds = None,
    root: Root = None,
    speeds: Speeds = None,
    machine: Annotated[
        str | None, typer.Option(help="Estimate for such a machine, as run.json names it: 'NVIDIA H200'.")
    ] = None,
    commands: Annotated[bool, typer.Option("--commands", help="Only the commands, one per line.")] = False,
    json: opt.Json = False,
) -> None:
    """What is missing, cheapest first, with estimated seconds; with --commands, how to do each run.

    The estimates rest on finished runs on the machine, or on measured speeds; without either they only tell cheap from
    dear. Runs whose data are not here are listed too: another machine may have them.

    \b
    conjoin study plan studies/paper.toml --seeds 0 --machine 'NVIDIA H200'
    conjoin study plan studies/paper.toml --only dataset=WN18RR --speeds bench/results/train.json --commands
    """
    from conjoin.study.estimate import estimator, whole
    from conjoin.study.narrow import narrow
    from conjoin.study.schedule import standing
    from conjoin.study.speeds import read_speeds
    from conjoin.study.study import Study

    specified = Study.read(study)
    place = root or specified.root
    measured = read_speeds(speeds) if speeds else ()
    guess = estimator(specified, place, machine=machine or "this machine", speeds=measured)
    standings = {cell: standing(cell, place) for cell in narrow(specified, only=only or (), seeds=seeds)}
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
                "seconds": whole(costs),
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
    sums = (whole(costs[: n + 1]) for n in range(len(costs)))
    rows = [
        (cell.dataset, cell.row.name, str(cell.seed), duration(cost), duration(total))
        for cell, cost, total in zip(order, costs, sums, strict=True)
    ]
    show_table(
        f"{specified.title or specified.name}: {len(order)} of {len(standings)} runs are missing",
        ("dataset", "row", "seed", "takes", "sum"),
        rows,
        left=2,
    )
    show(f"Estimated by {guess.source}. --commands prints the command of each, in this order.")
