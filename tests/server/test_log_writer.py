"""The log writer on a pipe that is not read: writers never wait, lines are dropped and counted, order is kept."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from conjoin.server.log_writer import LogWriter
from conjoin.server.metrics import Metrics

PATIENCE = 30.0
Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue


def read_all(pipe: Pipe) -> bytes:
    """Everything until the writing end is closed."""
    parts = []
    while part := os.read(pipe[0], 1 << 16):
        parts.append(part)
    return b"".join(parts)


def numbers(text: bytes) -> list[int]:
    return [int(number) for number in re.findall(rb"^line (\d+)$", text, re.MULTILINE)]


def test_lines_arrive_in_order_and_close_waits_for_them(pipe: Pipe) -> None:
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(read_all(pipe)))
    reader.start()
    writer = LogWriter(pipe[1])
    for number in range(20_000):
        writer.write(f"line {number}\n")
    writer.write("line 2")
    writer.write("0000")
    assert writer.close(PATIENCE)
    os.close(pipe[1])
    reader.join(PATIENCE)
    assert numbers(found[0]) == list(range(20_001))


def test_full_pipe_drops_lines_and_later_reports_the_number(pipe: Pipe) -> None:
    metrics = Metrics()
    writer = LogWriter(pipe[1], size=100_000, lost=metrics.lost_lines.inc, notice=metrics.notice_of_loss)
    for number in range(100_000):  # returns, though nobody reads
        writer.write(f"line {number}\n")
    lost = metrics.registry.get_sample_value("conjoin_log_lines_dropped_total")
    assert lost
    assert not writer.close(0.2)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(read_all(pipe)))
    reader.start()
    assert writer.close(PATIENCE)
    os.close(pipe[1])
    reader.join(PATIENCE)
    kept = numbers(found[0])
    assert kept == sorted(kept)
    assert len(kept) + lost == 100_000
    notices = [json.loads(line) for line in found[0].splitlines() if line.startswith(b"{")]
    assert sum(notice["dropped"] for notice in notices) == lost


def test_notice_of_dropped_lines_comes_before_later_lines(pipe: Pipe) -> None:
    os.set_blocking(pipe[1], False)
    with suppress(BlockingIOError):
        while True:
            os.write(pipe[1], b"\n" * 4096)
    writer = LogWriter(pipe[1], size=7_000, notice=lambda lines: f"{lines} dropped\n")
    for _ in range(50_000):
        writer.write("line 0\n")
    os.set_blocking(pipe[0], False)
    text = b""
    until = time.monotonic() + PATIENCE
    while not re.search(rb"^\d+ dropped\n", text, re.MULTILINE) and time.monotonic() < until:
        try:
            text += os.read(pipe[0], 1 << 16)
        except BlockingIOError:
            time.sleep(0.01)
    writer.write("line 1\n")
    assert writer.close(PATIENCE)
    os.close(pipe[1])
    os.set_blocking(pipe[0], True)
    text += read_all(pipe)
    assert text.strip().splitlines()[-2:] == [b"49000 dropped", b"line 1"]


def test_closed_pipe_or_full_disk_does_not_raise(pipe: Pipe) -> None:
    metrics = Metrics()
    os.close(pipe[0])
    writer = LogWriter(pipe[1], lost=metrics.lost_lines.inc)
    for number in range(1_000):
        writer.write(f"line {number}\n")
    assert writer.close(PATIENCE)
    assert metrics.registry.get_sample_value("conjoin_log_lines_dropped_total") == 1_000
    full = Path("/dev/full")
    if full.exists():
        with full.open("wb") as device:
            other = LogWriter(device.fileno())
            other.write("line\n")
            assert other.close(PATIENCE)


def test_nonblocking_pipe_receives_every_line(pipe: Pipe) -> None:
    os.set_blocking(pipe[1], False)
    writer = LogWriter(pipe[1])
    for number in range(20_000):
        writer.write(f"line {number}\n")
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(read_all(pipe)))
    reader.start()
    assert writer.close(PATIENCE)
    os.close(pipe[1])
    reader.join(PATIENCE)
    assert numbers(found[0]) == list(range(20_000))


def test_long_lines_are_written_whole_or_dropped(pipe: Pipe) -> None:
    writer = LogWriter(pipe[1], size=200_000)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(read_all(pipe)))
    reader.start()
    writer.write("a" * 100_000 + "\n")
    writer.write("b" * 300_000 + "\n")
    writer.write("c" * 300_000)
    writer.write("é\ud800\n")
    assert writer.close(PATIENCE)
    os.close(pipe[1])
    reader.join(PATIENCE)
    assert found[0] == b"a" * 100_000 + b"\n" + "é".encode() + b"\\ud800\n"
