"""`conjoin bench`: the benchmarks in bench/compare of a clone. The wheel does not contain them."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import typer

from conjoin.errors import UsageError

CLONE = Path(__file__).resolve().parents[3]


def bench_app(clone: Path = CLONE) -> typer.Typer:
    """The commands of bench/compare in a clone; elsewhere one command that says that they need a clone."""
    if (clone / "bench" / "compare" / "__main__.py").is_file():
        sys.path.insert(0, str(clone))
        benchmarks: typer.Typer = import_module("bench.compare.__main__").bench_app
        return benchmarks
    app = typer.Typer(help="Measure speed and memory (only in a clone of the repository).", rich_markup_mode=None)
    app.callback(
        invoke_without_command=True,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )(_needs_a_clone)
    return app


def _needs_a_clone() -> None:
    raise UsageError(
        "The installed package does not contain the benchmarks. Clone the repository of Conjoin, run `make setup`, "
        "then use `.venv/bin/conjoin bench`."
    )
