"""Check which user owns the other end of this process's loopback connections (Linux). Does not import torch.

gloo accepts the first connection without authentication. Every user of the machine can connect to the loopback
interface, so the processes of a run look for connections of other users before they exchange anything.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
OPEN, LEFT_BY_THE_OTHER = "01", "08"
V4_IN_V6 = "0000000000000000FFFF0000"
V6_LOOPBACK = "00000000000000000000000001000000:"


class _Socket(NamedTuple):
    local: str
    remote: str
    state: str
    user: int
    inode: str


def strangers() -> list[str]:
    """The loopback connections of this process whose other end is not a socket of this user, each as "port: user".

    Empty if the system does not report them, as on macOS.
    """
    if not hasattr(os, "getuid"):
        return []
    sockets = [each for table in TABLES for each in _sockets(Path(table))]
    ends = {(each.local, each.remote): each for each in sockets if each.state == OPEN}
    own = _own_inodes()
    foreign: set[str] = set()
    for each in sockets:
        if each.inode in own and each.state in (OPEN, LEFT_BY_THE_OTHER) and _is_loopback(each.local):
            end = ends.get((each.remote, each.local))
            if end is None or end.user != os.getuid():
                user = f"user {end.user}" if end else "a process that has disconnected"
                foreign.add(f"port {int(each.local[-4:], 16)}: {user}")
    return sorted(foreign)


def _sockets(table: Path) -> list[_Socket]:
    """Every socket of a table of /proc/net: local and remote address with the port, state, user id, inode."""
    sockets = []
    with suppress(OSError):
        for line in table.read_text(encoding="ascii").splitlines()[1:]:
            cells = line.split()
            local, remote = (cell.removeprefix(V4_IN_V6) for cell in cells[1:3])
            sockets.append(_Socket(local, remote, cells[3], int(cells[7]), cells[9]))
    return sockets


def _is_loopback(address: str) -> bool:
    """Is this an address of 127.0.0.0/8 (in reverse byte order), or ::1?"""
    return (len(address) == 13 and address[6:8] == "7F") or address.startswith(V6_LOOPBACK)


def _own_inodes() -> set[str]:
    """The inodes of the sockets of this process."""
    inodes = set()
    with suppress(OSError):
        for entry in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                kind, _, inode = str(entry.readlink()).partition(":[")
                if kind == "socket":
                    inodes.add(inode.rstrip("]"))
    return inodes
