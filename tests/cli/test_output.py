"""Tables at any width; progress bars on a terminal, lines elsewhere."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from rich.console import Console
from tests.cli.commands import TINY, command, spawn

from conjoin.cli import output
from conjoin.cli.output import ProgressDisplay, emit, number, percent, show_table, shown
from conjoin.runtime.text_escaping import spelled
from conjoin.training.loop import Epoch

CODES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
MEAN = "[red]x[/red] :apple: \\[b] \\"


def on_a_terminal(program: list[str], *, columns: int) -> tuple[bytes, bytes, int]:
    """Run with standard output on a pipe and standard error on a terminal; return both outputs and the exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(program, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert process.stdout is not None
    printed = process.stdout.read()
    process.stdout.close()
    return printed, seen, process.wait()


@pytest.mark.slow
def test_json_is_not_mixed_with_progress_bars(lands: Path, tmp_path: Path) -> None:
    words = ("train", lands, *TINY, "--validate-every", 1, "-o", tmp_path / "run", "--json")
    printed, seen, code = on_a_terminal(command(*words), columns=100)
    assert code == 0
    assert printed.startswith(b'{"run":')
    assert printed.count(b"\n") == 1
    text = CODES.sub(b"", seen).decode()
    assert "━" in text
    assert re.search(r"loss \d\.\d{3}  valid MRR \.\d{3} ━+ 3/3", text)
    assert "rank test" in text


@pytest.mark.slow
def test_progress_without_a_terminal_is_plain_lines(lands: Path, tmp_path: Path) -> None:
    ran = spawn("train", lands, *TINY, "--validate-every", 2, "-o", tmp_path / "run", "--json")
    assert ran.json["run"] == str(tmp_path / "run")
    assert "\x1b" not in ran.err
    assert "━" not in ran.err
    lines = [line for line in ran.err.splitlines() if "epoch" in line]
    assert [line.split("epoch ")[1].split("  ")[0] for line in lines] == ["2 of 3", "3 of 3"]
    assert all(re.search(r"loss \d+\.\d{4}  penalty .* s  valid MRR \.\d{3}", line) for line in lines)


def test_a_table_is_never_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("a_rather_long_relation_name", "1,234,567", ".123"), (MEAN, "2", "-")]
    show_table("Title [b]", ("relation", "count", "MRR"), rows)
    wide = capsys.readouterr().out
    assert wide.splitlines()[0] == "Title [b]"
    assert wide.splitlines()[3].split() == ["a_rather_long_relation_name", "1,234,567", ".123"]
    assert MEAN in wide
    monkeypatch.setattr(output, "WIDE", 10)
    show_table("Title", ("relation", "count", "MRR"), rows)
    narrow = capsys.readouterr().out
    assert "…" not in narrow
    _, head, _, first, second, *_ = map(str.split, narrow.splitlines())
    assert head == ["relation", "count", "MRR"]
    assert first[1:] == ["1,234,567", ".123"]
    assert [first[0] + word for word in second] == ["a_rather_long_relation_name"]


def test_tables_escape_control_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    show_table("t\x1b[2J", ("name",), [("a\tb\nc\x1b[31m\x07",), ("x" * 10_000,), ("👩‍👩‍👧 שלום",)])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "a\\tb\\nc\\x1b[31m\\x07" in out
    assert "👩‍👩‍👧 שלום" in out
    assert len(out) < 1000


def test_long_names_are_cut() -> None:
    assert spelled("tab\tend\n") == "tab\\tend\\n"
    assert shown("x" * 201) == "x" * 199 + "…"
    assert shown("x" * 200) == "x" * 200


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.4932, ".493"),
        (1.0, "1.000"),
        (0.9996, "1.000"),
        (-0.143, "-.143"),
        (0.0, ".000"),
        (12.5, "12.500"),
        (None, "-"),
    ],
)
def test_number_omits_the_leading_zero(value: float | None, text: str) -> None:
    assert number(value) == text


def test_percent() -> None:
    assert (percent(0.8125), percent(None)) == ("81.2 %", "-")


def test_emit_refuses_infinity() -> None:
    with pytest.raises(ValueError, match="JSON"):
        emit({"mrr": float("inf")})


def test_long_work_reports_progress(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 3))
    monkeypatch.setattr("conjoin.cli.output.time.monotonic", lambda: next(clock))
    watcher = ProgressDisplay(2, "graph")
    assert list(watcher.track("abcd", "epoch 1", 4)) == list("abcd")
    told = capsys.readouterr().err.splitlines()
    assert told
    assert all(re.fullmatch(r"graph: epoch 1, \d of 4", line) for line in told)


def test_short_work_reports_only_the_last_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    watcher = ProgressDisplay(3, "graph")
    assert list(watcher.track(range(100), "epoch 1", 100)) == list(range(100))
    for place in (1, 2, 3):
        watcher.epoch(Epoch(place, 1.5, 0.25, 0.5))
    assert capsys.readouterr().err == "graph: epoch 3 of 3  loss 1.5000  penalty 0.2500  0.50 s\n"


def test_a_progress_bar_is_removed_when_the_work_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "messages", Console(file=sys.stderr, force_terminal=True, force_interactive=True))
    with ProgressDisplay(1, "graph").watching() as watcher:
        assert watcher.bars is not None
        steps = watcher.track(range(3), "epoch 1", 3)
        next(steps)
        assert len(watcher.bars.tasks) == 2
        steps.close()  # type: ignore[attr-defined]
        assert len(watcher.bars.tasks) == 1
