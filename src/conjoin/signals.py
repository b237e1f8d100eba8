"""The wish to stop, as the system tells it: Ctrl-C and SIGTERM end long work between two steps, twice at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ASKED = (signal.SIGINT, signal.SIGTERM)
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
    """Within, the first signal is remembered and the next one ends the process as if nobody listened.

    Signals belong to the main thread; elsewhere nothing changes and nobody asks to stop.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def first(number: int, _: FrameType | None) -> None:
        stop.number = number
        for each in ASKED:
            signal.signal(each, signal.SIG_DFL)
        # Not through sys.stderr: the signal may have come while it was being written to.
        terminal = os.isatty(2)
        os.write(2, (b"\n" + SHOW_CURSOR if terminal else b"") + SOON)

    before = {number: signal.signal(number, first) for number in ASKED}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
