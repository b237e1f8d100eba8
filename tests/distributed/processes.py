"""Starting several processes of a test's own program and waiting for them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

PATIENCE = 120


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def together(count: int, module: str, *words: object) -> None:
    """Run `python -m module WORDS` as `count` processes of one group."""
    port = str(free_port())
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", module, *map(str, words)],
            env={
                **os.environ,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(count),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "OMP_NUM_THREADS": "1",
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        errors = [process.communicate(timeout=PATIENCE)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * count, "\n".join(errors)
