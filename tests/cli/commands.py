"""Run the command line in this process or in a new one; check what it refuses; a small graph with names and labels."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from conjoin.cli import main

LANDS = ("France", "Spain", "Portugal", "Italy", "Austria", "Hungary", "Poland", "Germany")
TINY = ("--rank", "4", "--epochs", "3", "--batch", "16")


@dataclass(frozen=True)
class Ran:
    """The exit code and the two output streams of a finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON object on standard output. Any other output fails the test."""
        assert self.code == 0, self.err
        assert self.out.count("\n") == 1, self.out
        value = json.loads(self.out, parse_constant=_refuse)
        assert isinstance(value, dict)
        return value


def conjoin(*words: object) -> Ran:
    """Run the program in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code: Any = 0
    with (
        mock.patch.object(sys, "argv", ["conjoin", *map(str, words)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
    printed, said = (stream.buffer.getvalue().decode() for stream in (out, err))
    return Ran(code, printed, said)


def command(*words: object) -> list[str]:
    """The words that start the program as a new process."""
    return [sys.executable, "-m", "conjoin", *map(str, words)]


def spawn(*words: object, **environment: str) -> Ran:
    """Run the program as a new process, to its end."""
    done = subprocess.run(
        command(*words), check=False, capture_output=True, timeout=120, env={**os.environ, **environment}
    )
    return Ran(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def assert_refused(ran: Ran, *values: object, code: int = 2) -> None:
    """The command exited with `code`, printed no result, and its error message contains every value."""
    assert (ran.code, ran.out) == (code, ""), ran
    assert "error: " in ran.err.casefold(), ran.err
    assert "Traceback" not in ran.err
    absent = [value for value in map(str, values) if value not in ran.err]
    assert not absent, f"{absent} not in {ran.err}"


def little_graph(folder: Path) -> Path:
    """Countries in a ring with ids as names, words as labels: train, valid, test and both label files."""
    ids = {land: f"Q{number}" for number, land in enumerate(LANDS)}
    cities = {f"capital of {land}": f"C{number}" for number, land in enumerate(LANDS)}
    ring = [(LANDS[i], LANDS[(i + 1) % len(LANDS)]) for i in range(len(LANDS))]
    borders = [(ids[a], "P1", ids[b]) for pair in ring for a, b in (pair, pair[::-1])]
    capitals = [(ids[land], "P2", cities[f"capital of {land}"]) for land in LANDS]
    write_lines(folder / "train.tsv", [*borders[:-2], *capitals])
    write_lines(folder / "valid.tsv", [borders[-2]])
    write_lines(folder / "test.tsv", [borders[-1]])
    write_lines(folder / "entity_labels.tsv", [(name, label) for label, name in (ids | cities).items()])
    write_lines(folder / "relation_labels.tsv", [("P1", "borders"), ("P2", "has capital")])
    return folder


def write_lines(path: Path, rows: Iterable[Iterable[str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")
