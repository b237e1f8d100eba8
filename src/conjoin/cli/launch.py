"""Verbs that several processes run together. Only the first process prints."""

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
"""Verbs that share their work among processes. The other verbs would only repeat it."""


def run(verb: Callable[[], None]) -> None:
    """Run a verb as one of the processes that were started together."""
    end_with_launcher()
    from conjoin.runtime.distributed import joined, mark_error_reported, wait_for_error_report

    with joined() as mesh:
        if not mesh.is_first:
            quiet(f"process {mesh.rank} of {mesh.count}: ")
        try:
            word = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
            if word not in SHARED:
                raise UsageError(
                    f"`conjoin {word}` cannot run on several processes. These verbs can: {', '.join(SHARED)}."
                )
            verb()
        except SystemExit as ended:
            if ended.code:
                raise
        except (ProcessLost, Stopped):  # all stop at the same step, so none waits for another
            raise
        except ConjoinError as error:
            if mesh.is_first:
                complain(str(error))
                mark_error_reported(mesh)
            else:
                wait_for_error_report(mesh)
            sys.exit(error.exit_code)


def shared_among(processes: int, replicas: int) -> Mesh:
    """The place of this process among the processes that share the verb.

    With --processes, start the processes, wait for them, and exit.
    """
    if processes == 1:
        from conjoin.runtime.distributed import init_mesh

        return init_mesh(replicas)
    if (started := int(os.environ.get("WORLD_SIZE", "1"))) > 1:  # read without torch, whose import takes seconds
        raise UsageError(f"torchrun already started {started} processes. Leave out --processes.")
    if replicas < 1 or processes % replicas:
        raise UsageError(f"--replicas must divide --processes ({processes}), got {replicas}.")
    raise typer.Exit(launch(without(sys.argv[1:], "--processes"), processes))


def without(words: list[str], option: str) -> list[str]:
    """The words of a command without one option and its value."""
    rest: list[str] = []
    skip = False
    for word in words:
        if not skip and word != option and not word.startswith(f"{option}="):
            rest.append(word)
        skip = not skip and word == option
    return rest
