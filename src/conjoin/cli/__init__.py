"""The command line: one short function per verb, thin over the library."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

from conjoin import __version__
from conjoin.cli import (
    ask,
    bench,
    calibrate,
    datasets,
    demo,
    explain,
    export,
    fetch,
    figure,
    find,
    fold,
    forms,
    import_model,
    ingest,
    inspect,
    launch,
    mine,
    patterns,
    plan,
    rank,
    score,
    serve,
    similar,
    split,
    study,
    synth,
    train,
    tune,
)
from conjoin.cli import options as opt
from conjoin.cli.output import complain, say
from conjoin.errors import ConjoinError, Stopped

app = typer.Typer(
    help="Knowledge-graph embeddings in complex space: train, rank, ask. Start with `conjoin demo`.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
VERBS = (
    demo.demo,
    datasets.datasets,
    fetch.fetch,
    inspect.inspect,
    split.split,
    ingest.ingest,
    patterns.patterns,
    synth.synth,
    forms.forms,
    plan.plan,
    train.train,
    rank.rank,
    tune.tune,
    ask.ask,
    score.score,
    similar.similar,
    explain.explain,
    mine.mine,
    export.export,
    find.find,
    calibrate.calibrate,
    fold.fold,
    serve.serve,
)
OF_ONE_GRAPH = (inspect.inspect, split.split, patterns.patterns, plan.plan, train.train, tune.tune)
SPINS = "5000"
"""How long an idle OpenMP thread burns its core before it sleeps. The default is so long that programs which all spin
can stall each other (docs/decisions/0006-threads.md)."""
INTERRUPTED = 130
"""The exit code after Ctrl-C where nothing had begun that could be finished first."""

for verb in VERBS:
    app.command(cls=opt.OfOneGraph if verb in OF_ONE_GRAPH else None)(verb)
app.command("import")(import_model.import_model)
app.add_typer(study.study_app, name="study")
app.add_typer(bench.bench_app(), name="bench")
app.add_typer(figure.figure_app, name="figure")


def _version(wanted: bool) -> None:
    if not wanted:
        return
    import torch

    from conjoin.runtime.device import choose_device

    print(f"conjoin {__version__} (torch {torch.__version__}; {choose_device().reason})")
    raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Versions of conjoin, torch, device.")
    ] = False,
) -> None:
    """Options before the verb."""


def main() -> None:
    """The program: errors become one sentence and an exit code, 2 for wrong use or bad input, 1 for a failure."""
    os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            launch.run(lambda: app(prog_name="conjoin"))
        else:
            app(prog_name="conjoin")
    except Stopped as stopped:
        say(f"stopped: {stopped}")
        sys.exit(stopped.exit_code)
    except ConjoinError as error:
        complain(f"{error}")
        sys.exit(error.exit_code)
    except OSError as error:
        complain(f"{error.filename or 'the system'}: {error.strerror or error}")
        sys.exit(1)
    except SystemExit as left:
        if left.code == INTERRUPTED:
            say("stopped. A run that had begun goes on from its last checkpoint by the same command with --resume.")
        raise
