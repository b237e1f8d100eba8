"""Connections on this machine whose other end belongs to another user."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conjoin.runtime.peer_check import strangers

NOBODY = 65534
CONNECT = """
import socket, sys, time
socket.create_connection((sys.argv[1], int(sys.argv[2]))).sendall((1).to_bytes(8, "little"))
"""
CONNECT_AND_STAY = """
import encodings.idna, os, socket, sys, time  # another user may not be able to read the codec later
os.setuid(int(sys.argv[3]))
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), source_address=(sys.argv[4], 0))
print("there", flush=True)
time.sleep(60)
"""


@pytest.fixture(params=["127.0.0.1", "::1"])
def listening(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    if not Path("/proc/self/net/tcp").exists():
        pytest.skip("needs Linux's /proc")
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    try:
        made = socket.create_server((request.param, 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {request.param}")
    with made:
        yield made


def test_connection_of_the_same_user_is_accepted(listening: socket.socket) -> None:
    address = listening.getsockname()[:2]
    with socket.create_connection(address), listening.accept()[0]:
        assert strangers() == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("source", ["127.0.0.1", "127.9.9.9"])
def test_connection_of_another_user_is_detected(listening: socket.socket, source: str) -> None:
    host, port = listening.getsockname()[:2]
    source = "::1" if ":" in host else source
    words = [sys.executable, "-c", CONNECT_AND_STAY, host, str(port), str(NOBODY), source]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout
            assert other.stdout.readline() == b"there\n"
            with listening.accept()[0]:
                assert strangers() == [f"port {port}: user {NOBODY}"]
        finally:
            other.kill()


def test_closed_connection_is_detected(listening: socket.socket) -> None:
    host, port = listening.getsockname()[:2]
    subprocess.run([sys.executable, "-c", CONNECT, host, str(port)], check=True)
    with listening.accept()[0] as left:
        assert left.recv(8)
        assert left.recv(1) == b""
        assert strangers() == [f"port {port}: a process that has disconnected"]
