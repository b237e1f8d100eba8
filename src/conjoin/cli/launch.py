"""A verb that several processes share: all of them run it, the first one talks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from conjoin.cli.output import complain, quiet
from conjoin.errors import ConjoinError, ProcessLost, Stopped, UsageError
from conjoin.runtime.launcher import end_with_launcher, launch

if TYPE_CHECKING:
    from conjoin.runtime.distributed import Mesh

SHARED = ("train", "rank", "ask", "score", "similar", "mine")
"""Verbs that gain from company. The others would only do their work several times."""


def run(verb: Callable[[], None]) -> None:
    """Be one of the processes that were started together, for the length of a verb."""
    end_with_launcher()
    from conjoin.runtime.distributed import joined, mark_error_reported, wait_for_error_report

    with joined() as mesh:
        if not mesh.is_first:
            quiet(f"process {mesh.rank} of {mesh.count}: ")
        try:
            word = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
            if word not in SHARED:
                raise UsageError(f"several processes cannot share `conjoin {word}`: they can share {', '.join(SHARED)}")
            verb()
        except SystemExit as left:
            if left.code:
                raise
        except (ProcessLost, Stopped):  # all processes stop at the same step: none needs to wait for another's word
            raise
        except ConjoinError as error:
            if mesh.is_first:
                complain(str(error))
                mark_error_reported(mesh)
            else:
                wait_for_error_report(mesh)
            sys.exit(error.exit_code)


def shared_among(processes: int, replicas: int) -> Mesh:
    """Where this process stands among those that share the verb. Where they are still to be started: start them, and
    leave when they are done."""
    if processes == 1:
        from conjoin.runtime.distributed import init_mesh

        return init_mesh(replicas)
    if (started := int(os.environ.get("WORLD_SIZE", "1"))) > 1:  # asked without torch, which takes seconds to import
        raise UsageError(f"torchrun has started {started} processes already: leave out --processes")
    if replicas < 1 or processes % replicas:
        raise UsageError(f"{processes} processes cannot hold {replicas} replicas: choose a number that divides them")
    raise typer.Exit(launch(without(sys.argv[1:], "--processes"), processes))


def without(words: list[str], option: str) -> list[str]:
    """The command's words without an option that has a value."""
    kept: list[str] = []
    skip = False
    for word in words:
        if not skip and word != option and not word.startswith(f"{option}="):
            kept.append(word)
        skip = not skip and word == option
    return kept
