"""Who is connected: limits on connections in all and per client, and which connection makes room for a new one.

A client that opens more connections than it may does not lock itself out: its connection that has waited longest for
the client closes, and the new one is served. Only where all connections are at work is a new one refused; it may still
ask for the health of the service.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum, IntEnum
from typing import Protocol

RESERVE = 64
"""Connections beyond the limit that may ask for the health of the service and for nothing else."""
RESERVE_PER_CLIENT = 8
HEALTH_ONLY = "health only"
"""Key in the state of a request that came over a connection of the reserve."""


class Phase(IntEnum):
    """What a connection waits for. All but ANSWER wait for the client; the lower, the sooner it makes room."""

    CLOSING = 0
    IDLE = 1
    HEAD = 2
    BODY = 3
    ANSWER = 4


class Admission(Enum):
    """What a new connection may do."""

    SERVED = "served"
    HEALTH_ONLY = "health only"
    REFUSED = "refused"


class Connected(Protocol):
    """A connection as the limits see it. `since` is when its phase began."""

    phase: Phase
    since: float

    def make_room(self) -> None:
        """Close at once."""


class Connections:
    """All connections of one service, by client. Not for several threads."""

    def __init__(self, total: int, per_client: int) -> None:
        self._total, self._per_client = total, per_client
        self._served: dict[str, set[Connected]] = {}
        self._count = 0
        self._reserve: dict[Connected, str] = {}
        self._in_reserve: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._count + len(self._reserve)

    def admit(self, connection: Connected, client: str, *, limited: bool = True) -> Admission:
        """Count a new connection, and close another one where that makes room for it.

        `limited` is False for a proxy, whose connections belong to many clients.
        """
        mine = self._served.get(client, set())
        if limited and self._per_client > 0 and len(mine) >= self._per_client and not self._make_room(mine, client):
            return self._to_reserve(connection, client)
        if self._count >= self._total and not self._make_room_anywhere():
            return self._to_reserve(connection, client)
        self._served.setdefault(client, set()).add(connection)
        self._count += 1
        return Admission.SERVED

    def leave(self, connection: Connected, client: str) -> None:
        """Forget a connection; nothing happens where it has left already."""
        if connection in self._reserve:
            del self._reserve[connection]
            self._in_reserve[client] -= 1
            if not self._in_reserve[client]:
                del self._in_reserve[client]
        elif connection in self._served.get(client, ()):
            self._served[client].remove(connection)
            self._count -= 1
            if not self._served[client]:
                del self._served[client]

    def _to_reserve(self, connection: Connected, client: str) -> Admission:
        if len(self._reserve) >= RESERVE or self._in_reserve[client] >= RESERVE_PER_CLIENT:
            return Admission.REFUSED
        self._reserve[connection] = client
        self._in_reserve[client] += 1
        return Admission.HEALTH_ONLY

    def _make_room_anywhere(self) -> bool:
        """Close a connection of the client that has most of them, so that few clients cannot hold all."""
        largest = sorted(self._served, key=lambda client: -len(self._served[client]))
        return any(self._make_room(self._served[client], client) for client in largest)

    def _make_room(self, among: set[Connected], client: str) -> bool:
        waiting = [connection for connection in among if connection.phase != Phase.ANSWER]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda connection: (connection.phase, connection.since))
        self.leave(oldest, client)
        oldest.make_room()
        return True
