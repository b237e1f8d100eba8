"""The whole program: help, suggestions, exit codes, encodings, pipes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import torch
from tests.cli.commands import command, conjoin, spawn

from conjoin import __version__
from conjoin.cli import VERBS
from conjoin.cli.options import EXIT_CODES
from conjoin.runtime.device import choose_device

NAMES = [verb.__name__ for verb in VERBS]


def test_program_lists_its_verbs() -> None:
    wanted = "demo datasets fetch inspect split forms train rank ask score similar export"
    assert set(wanted.split()) <= set(NAMES)


def test_each_line_of_help_is_a_whole_sentence() -> None:
    ran = conjoin("--help")
    assert ran.code == 0
    lines = {line.split()[0]: line for line in ran.out.partition("Commands:")[2].splitlines() if line.strip()}
    assert set(NAMES) <= set(lines)
    for line in lines.values():
        assert line.endswith("."), line
        assert not line.endswith("..."), line


@pytest.mark.parametrize("name", NAMES)
def test_every_verb_has_help_and_offers_json(name: str) -> None:
    for flag in ("--help", "-h"):
        ran = conjoin(name, flag)
        assert ran.code == 0
        assert "--json" in ran.out
        assert "Usage: conjoin" in ran.out
        assert EXIT_CODES in ran.out


@pytest.mark.parametrize("name", ["fetch", "inspect", "split", "forms", "train", "rank", "ask", "score", "similar"])
def test_each_example_in_help_has_its_own_line(name: str) -> None:
    lines = conjoin(name, "--help").out.splitlines()
    examples = [line.strip() for line in lines if line.startswith("  conjoin ")]
    assert examples
    assert not [line for line in examples if line.count("conjoin ") > 1]


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["trian"], "'train'"),
        (["exprot"], "'export'"),
        (["zzzzzz"], "'zzzzzz'"),
        (["train", "atlas", "--epohcs", "3"], "--epochs"),
        (["rank", "x", "--splt", "test"], "--split"),
        (["ask", "x", "--only-nwe"], "--only-new"),
        (["fetch", "ulms"], "umls"),
        (["inspect", "atals"], "atlas"),
        (["train"], "GRAPH"),
        ([], "Usage"),
    ],
)
def test_a_misspelt_word_exits_with_2_and_a_suggestion(words: list[str], value: str) -> None:
    ran = conjoin(*words)
    assert ran.code == 2
    assert not ran.out
    assert value in ran.err


def test_version_is_printed() -> None:
    ran = conjoin("--version")
    assert ran.code == 0
    assert ran.out.startswith(f"conjoin {__version__} (torch {torch.__version__}; ")
    assert choose_device().reason in ran.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "offered"),
    [("conjoin tr", ["train"]), ("conjoin train wn", ["wn18rr", "wn18"]), ("conjoin inspect at", ["atlas"])],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_verbs_and_datasets(shell: str, line: str, offered: list[str]) -> None:
    asked = {"bash": {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}}.get(
        shell, {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    )
    ran = spawn(_CONJOIN_COMPLETE=f"complete_{shell}", **asked)
    assert ran.code == 0, ran.err
    assert all(word in ran.out for word in offered)
    assert "kinship" not in ran.out
    script = spawn(_CONJOIN_COMPLETE=f"source_{shell}")
    assert "_CONJOIN_COMPLETE=complete_" in script.out


def test_a_system_error_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device", "runs/x")

    monkeypatch.setattr("conjoin.datasets.registry.catalogue", full)
    ran = conjoin("datasets")
    assert (ran.code, ran.out, ran.err) == (1, "", "error: runs/x: No space left on device\n")


@pytest.mark.slow
def test_output_without_unicode_is_escaped() -> None:
    table = spawn("forms", PYTHONIOENCODING="ascii")
    assert table.code == 0
    assert "Compl\\u03b5x" in table.out
    listed = spawn("forms", "--json", PYTHONIOENCODING="ascii").json
    assert "Complεx" in [form["paper"] for form in listed["forms"]]


@pytest.mark.slow
def test_a_closed_pipe_prints_no_error() -> None:
    process = subprocess.Popen(command("forms"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait()


def test_json_output_is_one_object(lands: Path, trained: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("Q0\tP1\tQ1\n")
    for words in (
        ["datasets"],
        ["fetch", "atlas"],
        ["inspect", lands],
        ["split", lands, "-o", tmp_path / "split"],
        ["forms"],
        ["rank", trained],
        ["ask", trained, "Q0", "P1"],
        ["score", trained, facts],
        ["similar", trained, "Q0"],
        ["export", trained, "-o", tmp_path / "out"],
    ):
        assert json.dumps(conjoin(*words, "--json").json)
