"""Graceful shutdown: the first SIGINT (Ctrl-C) or SIGTERM stops work after the current step, the second at once."""

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
"""Seconds in which a second signal counts as the same one: `timeout` signals both the process and its group."""
LISTEN_EVERY = 0.1
"""Seconds between two renewals of the signal handlers; a step may take microseconds."""
SHOW_CURSOR = b"\x1b[?25h"
SOON = b"stopping after this step, with a checkpoint; once more stops at once\n"


class StopRequest:
    """Call it between steps: True after a signal. `number` is the number of the first signal, 0 before.

    A call renews the signal handlers now and then: LLVM, which triton uses, installs its own handlers and leaves the
    second signal to the system, which would end the process before its checkpoint.
    """

    number = 0
    listen_at = math.inf

    def __call__(self) -> bool:
        if time.monotonic() >= self.listen_at and threading.current_thread() is threading.main_thread():
            self.listen()
        return self.number != 0

    def listen(self) -> dict[signal.Signals, Any]:
        """Install the signal handlers. Returns the earlier ones, as far as Python knows them."""
        self.listen_at = time.monotonic() + LISTEN_EVERY
        return {number: signal.signal(number, self._remember) for number in ASKED}

    def _remember(self, number: int, _: FrameType | None) -> None:
        self.number = self.number or number

    @property
    def exit_code(self) -> int:
        """The exit code by which a shell recognises a program that a signal ended."""
        return 128 + self.number


@contextmanager
def stopping(*, silent: bool = False) -> Iterator[StopRequest]:
    """Within this context the first signal requests a stop, and a later one ends the process at once.

    The first signal is acknowledged on standard error unless `silent`, for processes of a run other than the first.
    Signals reach only the main thread; in other threads the context has no effect.
    """
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    listener = threading.Thread(target=_listen, args=(receiver, silent), name="signals", daemon=True)
    listener.start()
    before = stop.listen()
    outer = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    try:
        yield stop
    finally:
        stop.listen_at = math.inf
        signal.set_wakeup_fd(outer)
        for number, handler in before.items():
            signal.signal(number, handler)
        sender.close()
        listener.join(1)  # its message about the signal must come before the final message


def _listen(receiver: socket.socket, silent: bool) -> None:
    """React to signals as they arrive.

    Python calls `_remember` only after a long operation has ended; until then two signals would look like one.
    """
    echoes_until: float | None = None
    with receiver:
        while numbers := receiver.recv(16):
            for number in (each for each in numbers if each in ASKED):
                now = time.monotonic()
                if echoes_until is None:
                    echoes_until = now + ECHO
                    if not silent:
                        os.write(2, (b"\n" + SHOW_CURSOR if os.isatty(2) else b"") + SOON)
                elif now > echoes_until:
                    _end_at_once(number)


def _end_at_once(number: int) -> None:
    """End this process as the signal does by default, from any thread."""
    if os.name == "nt":  # Windows has no such signals, and its C library cannot be loaded by None
        os._exit(128 + number)
    ctypes.CDLL(None).signal(number, 0)  # the default handler; Python can restore it only in the main thread
    os.kill(os.getpid(), number)
