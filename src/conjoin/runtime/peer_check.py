"""Who is at the other end of this process's connections on this machine, as Linux tells it. Does not import torch.

gloo takes whoever connects first for the process that it expects, and asks for no proof. Every user of the machine can
connect to the loopback interface, so the processes of a run look for strangers before they exchange anything.
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

    Empty where the system does not tell, as on macOS.
    """
    if not hasattr(os, "getuid"):
        return []
    sockets = [each for table in TABLES for each in _sockets(Path(table))]
    ends = {(each.local, each.remote): each for each in sockets if each.state == OPEN}
    mine = _own_inodes()
    found: set[str] = set()
    for each in sockets:
        if each.inode in mine and each.state in (OPEN, LEFT_BY_THE_OTHER) and _is_loopback(each.local):
            end = ends.get((each.remote, each.local))
            if end is None or end.user != os.getuid():
                user = f"user {end.user}" if end else "a process that has left"
                found.add(f"port {int(each.local[-4:], 16)}: {user}")
    return sorted(found)


def _sockets(table: Path) -> list[_Socket]:
    """Every socket of a table of /proc/net: local and remote address with the port, state, user id, inode."""
    found = []
    with suppress(OSError):
        for line in table.read_text(encoding="ascii").splitlines()[1:]:
            words = line.split()
            local, remote = (word.removeprefix(V4_IN_V6) for word in words[1:3])
            found.append(_Socket(local, remote, words[3], int(words[7]), words[9]))
    return found


def _is_loopback(address: str) -> bool:
    """127.0.0.0/8, whose bytes stand in reverse, or ::1."""
    return (len(address) == 13 and address[6:8] == "7F") or address.startswith(V6_LOOPBACK)


def _own_inodes() -> set[str]:
    found = set()
    with suppress(OSError):
        for entry in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                kind, _, inode = str(entry.readlink()).partition(":[")
                if kind == "socket":
                    found.add(inode.rstrip("]"))
    return found
