"""The command line: one module per verb. Each verb reads its options, calls the library and prints the result."""

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
    help="Train embeddings of a knowledge graph and find missing facts. Start with `conjoin demo`.",
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
ONE_GRAPH_VERBS = (inspect.inspect, split.split, patterns.patterns, plan.plan, train.train, tune.tune)
SPIN_COUNT = "5000"
"""How long an idle OpenMP thread keeps its core busy before it sleeps. With the much longer default, several busy
programs on one machine stall each other (docs/decisions/0006-threads.md)."""
INTERRUPTED = 130
"""Exit code after Ctrl-C during work that has no checkpoint to finish first."""

for verb in VERBS:
    app.command(cls=opt.OneGraphVerb if verb in ONE_GRAPH_VERBS else opt.Verb)(verb)
app.command("import", cls=opt.Verb)(import_model.import_model)
app.add_typer(study.study_app, name="study")
app.add_typer(bench.bench_app(), name="bench")
app.add_typer(figure.figure_app, name="figure")


def _print_version(requested: bool) -> None:
    if not requested:
        return
    import torch

    from conjoin.runtime.device import choose_device

    print(f"conjoin {__version__} (torch {torch.__version__}; {choose_device().reason})")
    raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the versions and the device, then exit."
        ),
    ] = False,
) -> None:
    """Options that come before the verb."""


def main() -> None:
    """Run the program. An error becomes one line and an exit code: 2 for wrong use or bad input, 1 for a failure."""
    os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
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
        complain(f"{error.filename or 'operating system'}: {error.strerror or error}")
        sys.exit(1)
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            say("stopped. To continue a run from its last checkpoint, repeat the command with --resume.")
        raise
