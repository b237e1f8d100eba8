"""Which sockets the processes of a program have open to others, as Linux tells it in /proc."""

from __future__ import annotations

import ipaddress
import threading
from contextlib import suppress
from pathlib import Path

LISTENS = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07", "udplite": "07", "raw": "07", "raw6": "07"}
"""The state of a socket that takes what anyone sends, by its table in /proc/net."""


def tree(pid: int) -> set[int]:
    """The process and all that descend from it."""
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    found, more = {pid}, True
    while more:
        more = bool(new := {child for child, parent in parents.items() if parent in found} - found)
        found |= new
    return found


def open_to_others(pids: set[int]) -> set[str]:
    """Table and address of every socket of these processes that is reached from outside the loopback interface."""
    inodes = set()
    for pid in pids:
        with suppress(OSError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    inodes.add(str(entry.readlink()).removeprefix("socket:[").rstrip("]"))
    found = set()
    for table, state in LISTENS.items():
        with suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == state and words[9] in inodes:
                    spelled, _, port = words[1].partition(":")
                    address = _address(spelled)
                    if not address.is_loopback:
                        found.add(f"{table} {address} port {int(port, 16)}")
    return found


def _address(spelled: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    octets = b"".join(bytes.fromhex(spelled[at : at + 8])[::-1] for at in range(0, len(spelled), 8))
    address = ipaddress.ip_address(octets)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


class Watched:
    """Records the sockets of a process and its descendants repeatedly, until the context ends."""

    def __init__(self, pid: int) -> None:
        self.seen: set[str] = set()
        self.processes: set[int] = set()
        self.looks = 0
        self._pid, self._done = pid, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            found = tree(self._pid)
            self.processes |= found
            self.seen |= open_to_others(found)
            self.looks += 1
            if self._done.wait(0.02):
                return
