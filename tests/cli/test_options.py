"""Reading options are the same in every verb that reads a graph."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tests.cli.commands import TINY, assert_refused, conjoin

from conjoin.cli import app
from conjoin.cli.options import reading_options, reading_words
from conjoin.datasets.load import load
from conjoin.io.read_options import ReadOptions

SIX = ["on_error", "columns", "header", "delimiter", "literals", "blank_nodes"]
OUT = ("-o", "never-written")
READERS: dict[str, tuple[str, ...]] = {
    "inspect": ("no-graph",),
    "split": ("no-graph", *OUT),
    "ingest": ("no-graph", *OUT),
    "patterns": ("no-graph",),
    "plan": ("no-graph",),
    "train": ("no-graph", *OUT),
    "tune": ("no-graph",),
    "ask": ("no-run", "--file", "no-graph"),
    "score": ("no-run", "no-graph"),
    "fold": ("no-run", "no-graph", *OUT),
    "import": ("no-model", "no-graph", "--pykeen", "no-python", *OUT),
}
"""Every verb that reads a graph or facts from files, with the arguments it needs."""
ODD = "when;object;subject;verb\n" + "".join(f"{year};b{year % 4};a{year % 5};r{year % 2}\n" for year in range(20))
ODDLY = ("--delimiter", ";", "--columns", "subject,verb,object")


def verbs() -> Iterator[tuple[str, Any]]:
    pending: list[tuple[str, Any]] = [("", typer.main.get_command(app))]
    while pending:
        path, command = pending.pop()
        inner = getattr(command, "commands", None)
        if inner is None:
            yield path, command
        else:
            pending += [(f"{path} {name}".strip(), child) for name, child in inner.items()]


@pytest.mark.parametrize("verb", ["inspect", "split", "patterns", "plan", "train", "tune"])
def test_several_files_are_refused_with_the_command_that_joins_them(verb: str, tmp_path: Path) -> None:
    for name in ("my a", "b"):
        (tmp_path / f"{name}.tsv").write_text(f"{name}\tr\tc\nc\tr\t{name}\n", encoding="utf-8")
    files = [tmp_path / "my a.tsv", tmp_path / "b.tsv"]
    refused = conjoin(verb, *files, *(OUT if verb in ("split", "train") else ()))
    advised = re.search("`conjoin (ingest .*) -o FOLDER`", refused.err)
    assert_refused(refused, *files[1:])
    assert advised, refused.err
    assert conjoin(*shlex.split(advised[1]), "-o", tmp_path / "both").code == 0
    assert len(load(tmp_path / "both").train) == 4


def test_every_verb_that_reads_a_graph_has_the_same_reading_options() -> None:
    told = {}
    for path, command in verbs():
        names = [parameter.name for parameter in command.params]
        assert "reading" not in names, path
        if {"graph", *SIX} & set(names):
            start = names.index(SIX[0])
            six = command.params[start : start + 6]
            assert [parameter.name for parameter in six] == SIX, path
            completed = command.shell_complete(command.context_class(command), "--")
            assert {option for parameter in six for option in parameter.opts} <= {item.value for item in completed}
            told[path] = [
                (parameter.opts, parameter.secondary_opts, parameter.default, parameter.help) for parameter in six
            ]
    assert set(told) == set(READERS)
    assert all(six == told["train"] for six in told.values())


@pytest.mark.parametrize(
    "reading",
    [
        ReadOptions(),
        ReadOptions(on_error="skip", columns=(0, 3, 2), header=False, delimiter="\t"),
        ReadOptions(columns=("²", 1, 2)),
        ReadOptions(
            columns=("a head", "verb", "tail"), header=True, delimiter="-", literals="keep", blank_nodes="drop"
        ),
    ],
)
def test_reading_words_parse_back_to_the_same_options(reading: ReadOptions) -> None:
    made = []
    check = typer.Typer()
    check.command()(reading_options(lambda *, reading: made.append(reading)))
    typer.main.get_command(check)(shlex.split(shlex.join(reading_words(reading))), standalone_mode=False)
    assert made == [reading]
    assert bool(reading_words(reading)) == (reading != ReadOptions())


@pytest.mark.parametrize("verb", READERS)
def test_wrong_reading_options_are_refused_before_the_file_is_read(verb: str) -> None:
    for option, value in (("--columns", "1,2"), ("--on-error", "ignore"), ("--blank-nodes", "hide")):
        ran = conjoin(verb, *READERS[verb], option, value)
        assert_refused(ran, value)
        assert ran.err.count("\n") == 1
        assert not re.search("no-(graph|run|model)", ran.err)


def test_every_verb_reads_named_columns_alike(tmp_path: Path) -> None:
    file = tmp_path / "odd.csv"
    file.write_text(ODD, encoding="utf-8")
    counted = []
    for verb in (("inspect",), ("split", "-o", tmp_path / "split"), ("ingest", "-o", tmp_path / "stored")):
        assert_refused(conjoin(*verb, file), "odd.csv:1: ")
        report = conjoin(*verb, file, *ODDLY, "--json").json
        sizes = report.get("sizes", report)
        counted.append(sum(sizes[split] for split in ("train", "valid", "test")))
    assert counted == [20, 20, 20]
    assert conjoin("patterns", file, *ODDLY, "--json").code == 0


def test_score_reads_literals_as_the_options_say(tmp_path: Path) -> None:
    lines = [f"<http://e.org/{h}> <http://e.org/r> {t} ." for h, t in (("a", "<http://e.org/b>"), ("b", '"ten"'))]
    file = tmp_path / "g.nt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert conjoin("train", file, "--literals", "keep", *TINY, "-o", tmp_path / "run").code == 0
    assert len(conjoin("score", tmp_path / "run", file, "--literals", "keep", "--json").json["scores"]) == 2
    dropped = conjoin("score", tmp_path / "run", file, "--json")
    assert len(dropped.json["scores"]) == 1
    assert "1 " in dropped.err
    assert "literal" in dropped.err
