"""Write log lines from a bounded queue in a thread, so that a blocked pipe or terminal never blocks the service.

Lines that do not fit into the queue are dropped and counted.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

QUEUE_BYTES = 4 << 20
"""Size of the queue in bytes. A full queue drops further lines until half of it is written."""
AT_ONCE = min(4096, getattr(select, "PIPE_BUF", 512))
"""Most bytes of one write. A ready pipe accepts PIPE_BUF bytes without blocking and without interleaving writers."""
POLL_SECONDS = 0.1
"""How often the thread retries while the descriptor accepts no bytes."""


class LogWriter:
    """A text stream for a file descriptor whose `write` never blocks.

    `lost` is called with the number of dropped lines. `notice` returns the line that reports this number; it is
    written once the descriptor accepts bytes again.
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
        self._partial = ""
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Queue the complete lines of a text; keep the rest until its end of line arrives."""
        with self._change:
            *lines, self._partial = (self._partial + text).split("\n")
            for line in lines:
                self._put(f"{line}\n".encode("utf-8", "backslashreplace"))
            if len(self._partial) > self._size:  # longer than the queue: drop it as one line
                self._put(self._partial.encode("utf-8", "backslashreplace"))
                self._partial = ""
            self._change.notify()
        return len(text)

    def flush(self) -> None:
        """Does nothing; only `close` waits for the queue."""

    def isatty(self) -> bool:
        """Whether the descriptor is a terminal."""
        return os.isatty(self._descriptor)

    def fileno(self) -> int:
        """The descriptor that lines are written to."""
        return self._descriptor

    def writable(self) -> bool:
        return True

    def close(self, seconds: float = 2.0) -> bool:
        """Wait at most `seconds` until the queue is written; return False if lines are left."""
        with self._change:
            if self._partial:
                self._put(self._partial.encode("utf-8", "backslashreplace") + b"\n")
                self._partial = ""
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
        self._report_dropped()
        self._lines.append(line)
        self._waiting += len(line)

    def _drop(self, lines: int) -> None:
        self._dropped += lines
        if self._lost is not None:
            self._lost(lines)

    def _report_dropped(self) -> None:
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
                    self._report_dropped()

    def _next(self) -> bytes:
        """Whole lines for one write, or a single long line."""
        part = b""
        while self._lines and (not part or len(part) + len(self._lines[0]) <= AT_ONCE):
            part += self._lines.popleft()
        return part

    def _write(self, part: bytes) -> bool:
        """Write all bytes; return False if the descriptor fails."""
        start = 0
        while start < len(part):
            try:
                if _ready(self._descriptor):
                    start += os.write(self._descriptor, part[start : start + AT_ONCE])
            except BlockingIOError:
                time.sleep(POLL_SECONDS)
            except (OSError, ValueError):
                return False
        return True


def _ready(descriptor: int) -> bool:
    """Wait up to POLL_SECONDS until the descriptor accepts bytes."""
    if not hasattr(select, "poll"):  # Windows: the write itself may block the thread
        return True
    waiting = select.poll()
    waiting.register(descriptor, select.POLLOUT)
    return bool(waiting.poll(1000 * POLL_SECONDS))
