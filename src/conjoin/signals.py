"""The wish to stop, as the system tells it: Ctrl-C and SIGTERM end long work between two steps, twice at once."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ASKED = (signal.SIGINT, signal.SIGTERM)
ECHO = 0.5
"""Seconds in which a second signal is the first one's echo: `timeout` sends each to the process and to its group."""
SHOW_CURSOR = b"\x1b[?25h"
SOON = b"stopping after this step, with a checkpoint; once more stops at once\n"


class Stop:
    """Asked between steps, as a function: has a signal come? `number` is that of the first one, 0 before."""

    number = 0

    def __call__(self) -> bool:
        return self.number != 0

    @property
    def exit_code(self) -> int:
        """What a shell expects of a program that a signal ended."""
        return 128 + self.number


@contextmanager
def stopping() -> Iterator[Stop]:
    """Within, the first signal is remembered, and one that is not its echo ends the process as if nobody listened.

    Signals belong to the main thread; elsewhere nothing changes and nobody asks to stop.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def first(number: int, _: FrameType | None) -> None:
        stop.number = stop.number or number

    told, tell = socket.socketpair()
    tell.setblocking(False)
    threading.Thread(target=_listen, args=(told,), name="signals", daemon=True).start()
    before = {number: signal.signal(number, first) for number in ASKED}
    outer = signal.set_wakeup_fd(tell.fileno(), warn_on_full_buffer=False)
    try:
        yield stop
    finally:
        signal.set_wakeup_fd(outer)
        for number, handler in before.items():
            signal.signal(number, handler)
        tell.close()


def _listen(told: socket.socket) -> None:
    """Hear of signals while they come: Python calls `first` only once a long operation has ended, and until then
    a second signal would be one with the first."""
    echoes_until: float | None = None
    with told:
        while numbers := told.recv(16):
            for number in (each for each in numbers if each in ASKED):
                now = time.monotonic()
                if echoes_until is None:
                    echoes_until = now + ECHO
                    os.write(2, (b"\n" + SHOW_CURSOR if os.isatty(2) else b"") + SOON)
                elif now > echoes_until:
                    ctypes.CDLL(None).signal(number, 0)  # the default, which Python lets only its main thread choose
                    os.kill(os.getpid(), number)
