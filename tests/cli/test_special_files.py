"""Named pipes instead of files: every parameter that takes a path refuses a pipe and does not wait for it."""

from __future__ import annotations

import inspect
import os
import shutil
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, get_args

import pytest
import typer
from tests.cli.commands import TINY, Ran, conjoin
from tests.studies.small import small_study

from conjoin.cli import app

SECONDS = 60
"""A deadline that only a command which waits for the pipe can miss."""
BENCH = ("random-100/complex/4/50", "--seconds", 0.01, "--rounds", 1, "--no-plain", "--device", "cpu")
STUDY_VERBS = ("study run", "study status", "study report", "study plan", "study archive", "study restore")
FIGURES = ("curves", "frontier", "pvalues", "patterns")
CASES: dict[tuple[str, str], tuple[object, ...]] = {
    ("demo", "out"): ("-o", "PIPE"),
    ("inspect", "labels"): ("LANDS", "--labels", "PIPE.tsv"),
    ("split", "file"): ("PIPE.tsv", "-o", "NEW"),
    ("split", "out"): ("LANDS", "-o", "PIPE"),
    ("split", "labels"): ("LANDS", "-o", "NEW", "--labels", "PIPE.tsv"),
    ("ingest", "files"): ("PIPE.tsv", "-o", "NEW"),
    ("ingest", "out"): ("LANDS", "-o", "PIPE"),
    ("ingest", "labels"): ("LANDS", "-o", "NEW", "--labels", "PIPE.csv"),
    ("patterns", "labels"): ("LANDS", "--labels", "PIPE.tsv"),
    ("synth", "out"): ("symmetric", "-o", "PIPE"),
    ("plan", "labels"): ("LANDS", "--labels", "PIPE.tsv"),
    ("train", "settings_file"): ("LANDS", "--settings", "PIPE.toml", "-o", "NEW"),
    ("train", "out"): ("LANDS", *TINY, "-o", "PIPE"),
    ("train", "start"): ("LANDS", *TINY, "--from", "PIPE", "-o", "NEW"),
    ("train", "labels"): ("LANDS", *TINY, "--labels", "PIPE.tsv", "-o", "NEW"),
    ("tune", "out"): ("LANDS", "--trials", 1, "--epochs", 1, "--storage", "sqlite:///NEW", "-o", "PIPE.toml"),
    ("rank", "run"): ("PIPE",),
    ("ask", "run"): ("PIPE", "France", "borders"),
    ("ask", "file"): ("RUN", "--file", "PIPE.tsv"),
    ("ask", "compare"): ("RUN", "France", "borders", "--compare", "PIPE"),
    ("score", "run"): ("PIPE", "France", "borders", "Spain"),
    ("similar", "run"): ("PIPE", "France"),
    ("explain", "run"): ("PIPE", "France", "borders", "Spain"),
    ("mine", "run"): ("PIPE",),
    ("mine", "out"): ("RUN", "-n", 2, "--out", "PIPE.csv"),
    ("export", "run"): ("PIPE", "-o", "NEW"),
    ("export", "out"): ("RUN", "-o", "PIPE"),
    ("find", "run"): ("PIPE", "France"),
    ("calibrate", "run"): ("PIPE",),
    ("fold", "run"): ("PIPE", "LANDS/valid.tsv", "-o", "NEW"),
    ("fold", "facts"): ("RUN", "PIPE.nt", "-o", "NEW"),
    ("fold", "out"): ("RUN", "LANDS/valid.tsv", "-o", "PIPE"),
    ("fold", "labels"): ("RUN", "LANDS/valid.tsv", "-o", "NEW", "--labels", "PIPE.tsv"),
    ("serve", "runs"): ("PIPE",),
    ("import", "source"): ("PIPE", "LANDS", "-o", "NEW", "--pykeen", "/bin/false"),
    ("import", "out"): ("LANDS", "LANDS", "-o", "PIPE", "--pykeen", "/bin/false"),
    ("import", "python"): ("MODEL", "LANDS", "-o", "NEW", "--pykeen", "PIPE"),
    ("study run", "root"): ("STUDY", "--root", "PIPE"),
    ("study status", "root"): ("STUDY", "--root", "PIPE"),
    ("study report", "root"): ("STUDY", "--root", "PIPE", "-o", "NEW"),
    ("study plan", "root"): ("STUDY", "--root", "PIPE"),
    ("study report", "out"): ("STUDY", "-o", "PIPE"),
    ("study run", "pack"): ("STUDY", "--root", "NEW", "--pack", "PIPE"),
    ("study run", "speeds"): ("STUDY", "--root", "NEW", "--speeds", "PIPE.json"),
    ("study plan", "speeds"): ("STUDY", "--root", "NEW", "--speeds", "PIPE.json"),
    ("bench train", "pykeen"): (*BENCH, "-o", "NEW", "--pykeen", "PIPE"),
    ("bench train", "out"): (*BENCH, "-o", "PIPE"),
    ("bench rank", "pykeen"): (*BENCH, "-o", "NEW", "--pykeen", "PIPE"),
    ("bench rank", "out"): (*BENCH, "-o", "PIPE"),
    ("bench growth", "out"): ("--most", 2000, "--seconds", 0.01, "--device", "cpu", "-o", "PIPE"),
    ("study archive", "root"): ("STUDY", "--root", "PIPE"),
    ("study restore", "root"): ("STUDY", "--root", "PIPE", "-o", "NEW"),
    ("study restore", "out"): ("STUDY", "-o", "PIPE"),
    **{(verb, "study"): ("PIPE.toml",) for verb in STUDY_VERBS},
    **{(f"figure {name}", "study"): ("PIPE.toml", "-o", "NEW") for name in FIGURES},
    **{(f"figure {name}", "out"): ("STUDY", "-o", "PIPE") for name in FIGURES},
    **{(f"figure {name}", "root"): ("STUDY", "--root", "PIPE", "-o", "NEW") for name in FIGURES},
    ("figure sphere", "run"): ("PIPE", "--relation", "borders", "-o", "NEW"),
    ("figure entities", "run"): ("PIPE", "-o", "NEW"),
    ("figure sphere", "second"): ("RUN", "PIPE", "--relation", "borders", "-o", "NEW"),
    ("figure entities", "second"): ("RUN", "PIPE", "-o", "NEW"),
    ("figure sphere", "out"): ("RUN", "--relation", "borders", "-o", "PIPE.svg"),
    ("figure entities", "out"): ("RUN", "-o", "PIPE.pdf"),
}
MAY_SUCCEED = {"root": "a folder without results is reported as such"}
BY_THE_SERVICE = {("serve", "token_file"), ("serve", "studies")}
"""These would start a server. tests/server covers them."""
AS_TEXT: dict[str, tuple[object, ...]] = {
    **{f"{verb} GRAPH": (verb, "PIPE.tsv") for verb in ("inspect", "patterns", "plan", "tune")},
    **{f"inspect GRAPH{suffix}": ("inspect", f"PIPE{suffix}") for suffix in (".csv.gz", ".nt", ".ttl", ".parquet")},
    "train GRAPH": ("train", "PIPE.csv", *TINY, "-o", "NEW"),
    "import GRAPH": ("import", "MODEL", "PIPE.tsv", "-o", "NEW", "--pykeen", "/bin/false"),
    "score FILE": ("score", "RUN", "PIPE.tsv"),
    "tune --grid": ("tune", "LANDS", "--grid", "PIPE.toml"),
    "tune --storage": ("tune", "LANDS", "--trials", 1, "--epochs", 1, "--storage", "sqlite:///PIPE"),
    "extends": ("train", "LANDS", "--settings", "EXTENDING", "-o", "NEW"),
    "train in a folder": ("inspect", "FOLDER"),
}


class Waited(BaseException):
    """The command waits for a pipe. Not an OSError, which the program would take for its own."""


def verbs(of: typer.Typer, above: str = "") -> Iterator[tuple[str, Callable[..., Any]]]:
    for command in of.registered_commands:
        assert command.callback
        yield f"{above}{command.name or command.callback.__name__}", command.callback
    for group in of.registered_groups:
        assert group.typer_instance
        yield from verbs(group.typer_instance, f"{above}{group.name} ")


def takes_a_path(annotation: Any) -> bool:
    return annotation is Path or any(map(takes_a_path, get_args(annotation)))


def test_every_parameter_that_takes_a_path_is_tried() -> None:
    """A new parameter of type Path needs a line in CASES."""
    found = {
        (verb, parameter.name)
        for verb, function in verbs(app)
        for parameter in inspect.signature(function, eval_str=True).parameters.values()
        if takes_a_path(parameter.annotation)
    }
    assert found == set(CASES) | BY_THE_SERVICE


@pytest.fixture
def words(lands: Path, trained: Path, tmp_path: Path) -> Callable[[object], str]:
    """Replace the placeholders of CASES by real paths, and create the files that must exist."""

    def made(word: object) -> str:
        text = str(word)
        if text.startswith(("PIPE", "sqlite:///PIPE")):
            pipe = tmp_path / text.removeprefix("sqlite:///")
            os.mkfifo(pipe)
            return text.replace(text.removeprefix("sqlite:///"), str(pipe))
        if text == "STUDY":
            return str(small_study(tmp_path).file)
        if text == "EXTENDING":
            os.mkfifo(tmp_path / "base.toml")
            (tmp_path / "a.toml").write_text('extends = "base.toml"\n')
            return str(tmp_path / "a.toml")
        if text == "FOLDER":
            (tmp_path / "folder").mkdir()
            os.mkfifo(tmp_path / "folder" / "train.tsv")
            return str(tmp_path / "folder")
        if text == "MODEL":
            (tmp_path / "model" / "training_triples").mkdir(parents=True)
            (tmp_path / "model" / "trained_model.pkl").touch()
            return str(tmp_path / "model")
        return text.replace("NEW", str(tmp_path / "new")).replace("LANDS", str(lands)).replace("RUN", str(trained))

    return made


@pytest.fixture
def deadline() -> Iterator[None]:
    """A command that waits for a pipe is interrupted, and fails."""

    def fail(*_: object) -> NoReturn:
        raise Waited

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def refused(ran: Ran, tmp_path: Path) -> None:
    assert ran.code in (1, 2), ran.err
    assert "Traceback" not in ran.err
    pipes = [path for path in tmp_path.rglob("*") if path.name.startswith("PIPE")]
    assert all(stat.S_ISFIFO(path.stat().st_mode) for path in pipes), "the pipe was replaced by a file"


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "parameter"), CASES)
@pytest.mark.usefixtures("deadline")
def test_a_pipe_is_refused(
    verb: str, parameter: str, words: Callable[[object], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = conjoin(*verb.split(), *map(words, CASES[verb, parameter]))
    if parameter in MAY_SUCCEED and not ran.code:
        return
    refused(ran, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("case", AS_TEXT)
@pytest.mark.usefixtures("deadline")
def test_a_pipe_named_in_a_text_option_is_refused(
    case: str, words: Callable[[object], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(conjoin(*map(words, AS_TEXT[case])), tmp_path)


@pytest.mark.parametrize("variable", ["CONJOIN_DATA", "CONJOIN_CACHE"])
@pytest.mark.usefixtures("deadline")
def test_a_pipe_as_a_folder_of_datasets_is_refused(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CONJOIN_DATA", raising=False)
    os.mkfifo(tmp_path / "PIPE")
    monkeypatch.setenv(variable, str(tmp_path / "PIPE"))
    refused(conjoin("fetch", "umls"), tmp_path)


@pytest.mark.parametrize(
    "file",
    [
        "run.json",
        "result.json",
        "model.safetensors",
        "best.safetensors",
        "ranks-test.parquet",
        "calibration.json",
        "graph/graph.json",
        "graph/entities.parquet",
        "graph/relations.parquet",
        "graph/triples.parquet",
    ],
)
@pytest.mark.usefixtures("deadline")
def test_a_pipe_in_a_run_folder_is_refused(file: str, trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    (run / file).unlink(missing_ok=True)
    os.mkfifo(run / file)
    weights = "best" if file.startswith("best") else "last"
    if file.startswith("ranks"):
        assert conjoin("rank", run).code in (0, 1, 2)
        return
    refused(conjoin("ask", run, "France", "borders", "?", "--weights", weights), tmp_path)


@pytest.mark.usefixtures("deadline")
def test_a_pipe_as_events_file_is_refused(lands: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    os.mkfifo(run / "events.jsonl")
    refused(conjoin("train", lands, *TINY, "-o", run), tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("deadline")
def test_devices_and_standard_input_are_refused(lands: Path, tmp_path: Path) -> None:
    """Standard input is a pipe or a terminal; what comes from it is saved to a file first."""
    for place in ("/dev/stdin", "/dev/zero", "/dev/null"):
        (tmp_path / "link.tsv").unlink(missing_ok=True)
        (tmp_path / "link.tsv").symlink_to(place)
        refused(conjoin("inspect", tmp_path / "link.tsv"), tmp_path)
        refused(conjoin("inspect", lands, "--labels", tmp_path / "link.tsv"), tmp_path)
        refused(conjoin("train", lands, "--settings", tmp_path / "link.tsv", "-o", tmp_path / "new"), tmp_path)


def test_links_to_regular_files_are_read(lands: Path, tmp_path: Path) -> None:
    (tmp_path / "link.tsv").symlink_to(lands / "train.tsv")
    assert conjoin("inspect", tmp_path / "link.tsv", "--json").code == 0
