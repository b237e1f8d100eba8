"""Limits on open connections, in total and per client, and which connection closes for a new one.

A client above its limit does not lock itself out: the service closes the connection that has waited longest for that
client, and serves the new one. A new connection is refused only if all others are being answered; even then it may
request `/healthz` and `/readyz`.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum, IntEnum
from typing import Protocol

RESERVE = 64
"""Connections beyond the limit that may request only `/healthz` and `/readyz`."""
RESERVE_PER_CLIENT = 8
HEALTH_ONLY = "health only"
"""Key in the ASGI state of a request on a connection of the reserve."""


class Phase(IntEnum):
    """The state of a connection. In all but ANSWER it waits for the client; lower values are closed first."""

    CLOSING = 0
    IDLE = 1
    HEAD = 2
    BODY = 3
    ANSWER = 4


class Admission(Enum):
    """The decision about a new connection."""

    SERVED = "served"
    HEALTH_ONLY = "health only"
    REFUSED = "refused"


class Connected(Protocol):
    """The part of a connection that the limits use. `since` is the time at which its phase began."""

    phase: Phase
    since: float

    def make_room(self) -> None:
        """Close at once."""


class Connections:
    """All connections of one service, by client. Not thread-safe."""

    def __init__(self, total: int, per_client: int) -> None:
        self._total, self._per_client = total, per_client
        self._served: dict[str, set[Connected]] = {}
        self._count = 0
        self._reserve: dict[Connected, str] = {}
        self._in_reserve: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._count + len(self._reserve)

    def admit(self, connection: Connected, client: str, *, limited: bool = True) -> Admission:
        """Count a new connection, and close another one if a limit is reached.

        `limited` is False for a trusted proxy, whose connections belong to many clients.
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
        """Forget a connection. Does nothing if it was forgotten before."""
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
        """Close a connection of the client with most connections, so that a few clients cannot hold all."""
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
