"""The wish to stop, as the system tells it: Ctrl-C and SIGTERM end long work between two steps, twice at once."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

ASKED = (signal.SIGINT, signal.SIGTERM)
ECHO = 0.5
"""Seconds in which a second signal is the first one's echo: `timeout` sends each to the process and to its group."""
LISTEN_EVERY = 0.1
"""Seconds between two times that the signals are taken back; a step may take microseconds."""
SHOW_CURSOR = b"\x1b[?25h"
SOON = b"stopping after this step, with a checkpoint; once more stops at once\n"


class StopRequest:
    """Asked between steps, as a function: has a signal come? `number` is that of the first one, 0 before.

    Asking takes the signals back now and then: LLVM, with which triton compiles, puts itself between, and after one
    signal leaves the next to the system, which ends the process before its checkpoint.
    """

    number = 0
    listen_at = math.inf

    def __call__(self) -> bool:
        if time.monotonic() >= self.listen_at and threading.current_thread() is threading.main_thread():
            self.listen()
        return self.number != 0

    def listen(self) -> dict[signal.Signals, Any]:
        """Hear of the signals from now on; says who heard of them before, as far as Python knows."""
        self.listen_at = time.monotonic() + LISTEN_EVERY
        return {number: signal.signal(number, self._remember) for number in ASKED}

    def _remember(self, number: int, _: FrameType | None) -> None:
        self.number = self.number or number

    @property
    def exit_code(self) -> int:
        """What a shell expects of a program that a signal ended."""
        return 128 + self.number


@contextmanager
def stopping(*, silent: bool = False) -> Iterator[StopRequest]:
    """Within, the first signal is remembered, and one that is not its echo ends the process as if nobody listened.

    The first one is answered on standard error, unless `silent`: then another process of the run does so.
    Signals belong to the main thread; elsewhere nothing changes and nobody asks to stop.
    """
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    told, tell = socket.socketpair()
    tell.setblocking(False)
    listener = threading.Thread(target=_listen, args=(told, silent), name="signals", daemon=True)
    listener.start()
    before = stop.listen()
    outer = signal.set_wakeup_fd(tell.fileno(), warn_on_full_buffer=False)
    try:
        yield stop
    finally:
        stop.listen_at = math.inf
        signal.set_wakeup_fd(outer)
        for number, handler in before.items():
            signal.signal(number, handler)
        tell.close()
        listener.join(1)  # its answer to a signal comes before what is said about the end


def _listen(told: socket.socket, silent: bool) -> None:
    """Hear of signals while they come: Python calls `_remember` only once a long operation has ended, and until then
    a second signal would be one with the first."""
    echoes_until: float | None = None
    with told:
        while numbers := told.recv(16):
            for number in (each for each in numbers if each in ASKED):
                now = time.monotonic()
                if echoes_until is None:
                    echoes_until = now + ECHO
                    if not silent:
                        os.write(2, (b"\n" + SHOW_CURSOR if os.isatty(2) else b"") + SOON)
                elif now > echoes_until:
                    _end_at_once(number)


def _end_at_once(number: int) -> None:
    """End this process as the signal would if nobody listened, from any thread."""
    if os.name == "nt":  # where signals are none of the system's, and the C library has no such name
        os._exit(128 + number)
    ctypes.CDLL(None).signal(number, 0)  # the default, which Python lets only its main thread choose
    os.kill(os.getpid(), number)
