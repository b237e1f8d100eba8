"""Lines for a pipe, a terminal or a file that nobody may be reading: a bounded queue and a thread that writes.

Whoever writes a line never waits. Lines that do not fit into the queue are dropped and counted.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

QUEUE_BYTES = 4 << 20
"""Bytes that wait to be written; further lines are dropped until half of them are written."""
AT_ONCE = min(4096, getattr(select, "PIPE_BUF", 512))
"""Bytes of one write. A pipe that is ready takes so many without waiting, and does not mix them with other writers'."""
ATTENTION = 0.1
"""Seconds between two looks whether the end has come while nobody reads."""


class LogWriter:
    """A text stream for a file descriptor that never blocks whoever writes to it.

    `lost` is called with the number of lines dropped, `notice` gives the line that says so once writing works again.
    """

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(
        self,
        descriptor: int,
        *,
        size: int = QUEUE_BYTES,
        lost: Callable[[int], None] | None = None,
        notice: Callable[[int], str] | None = None,
    ) -> None:
        self._descriptor, self._size, self._lost, self._notice = descriptor, size, lost, notice
        self._lines: deque[bytes] = deque()
        self._waiting = 0
        self._dropped = 0
        self._full = self._ended = False
        self._begun = ""
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Queue the whole lines of a text; the rest waits for its end of line."""
        with self._change:
            *lines, self._begun = (self._begun + text).split("\n")
            for line in lines:
                self._put(f"{line}\n".encode("utf-8", "backslashreplace"))
            if len(self._begun) > self._size:  # no line is so long: it is dropped as one
                self._put(self._begun.encode("utf-8", "backslashreplace"))
                self._begun = ""
            self._change.notify()
        return len(text)

    def flush(self) -> None:
        """Nothing waits here for a flush: `close` waits for the queue."""

    def isatty(self) -> bool:
        """Is a person reading along?"""
        return os.isatty(self._descriptor)

    def fileno(self) -> int:
        """The descriptor that the lines go to."""
        return self._descriptor

    def writable(self) -> bool:
        return True

    def close(self, seconds: float = 2.0) -> bool:
        """Wait until the queue is written, at most so many seconds; False where lines are left."""
        with self._change:
            if self._begun:
                self._put(self._begun.encode("utf-8", "backslashreplace") + b"\n")
                self._begun = ""
            self._ended = True
            self._change.notify()
        self._thread.join(seconds)
        return not self._waiting

    def _put(self, line: bytes) -> None:
        too_long = len(line) > self._size
        if self._full:
            self._full = self._waiting > self._size // 2
        elif not too_long:
            self._full = self._waiting + len(line) > self._size
        if self._full or too_long:
            self._drop(1)
            return
        self._say_what_was_lost()
        self._lines.append(line)
        self._waiting += len(line)

    def _drop(self, lines: int) -> None:
        self._dropped += lines
        if self._lost is not None:
            self._lost(lines)

    def _say_what_was_lost(self) -> None:
        if self._dropped and self._notice is not None:
            notice = self._notice(self._dropped).encode("utf-8", "backslashreplace")
            self._lines.append(notice)
            self._waiting += len(notice)
        self._dropped = 0

    def _work(self) -> None:
        while True:
            with self._change:
                while not self._lines and not self._ended:
                    self._change.wait()
                part = self._next()
            if not part:
                return
            written = self._write(part)
            with self._change:
                self._waiting -= len(part)
                if not written:
                    self._drop(max(part.count(b"\n"), 1))
                if written and not self._lines:
                    self._full = False
                    self._say_what_was_lost()

    def _next(self) -> bytes:
        """Whole lines for one write, or a single long line."""
        part = b""
        while self._lines and (not part or len(part) + len(self._lines[0]) <= AT_ONCE):
            part += self._lines.popleft()
        return part

    def _write(self, part: bytes) -> bool:
        """Write it all; False where the descriptor takes no more."""
        place = 0
        while place < len(part):
            try:
                if _ready(self._descriptor):
                    place += os.write(self._descriptor, part[place : place + AT_ONCE])
            except BlockingIOError:
                time.sleep(ATTENTION)
            except (OSError, ValueError):
                return False
        return True


def _ready(descriptor: int) -> bool:
    """Wait a moment until the descriptor takes bytes."""
    if not hasattr(select, "poll"):  # Windows: the thread may wait in the write itself
        return True
    waiting = select.poll()
    waiting.register(descriptor, select.POLLOUT)
    return bool(waiting.poll(1000 * ATTENTION))
