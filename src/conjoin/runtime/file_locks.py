"""File locks that the system releases when their process ends, on every system that filelock supports.

A lock is the system's own lock on an open file (`flock` on Unix, `LockFileEx` on Windows). The file may stay behind
after the lock is released; only the lock counts. Does not import torch.
"""

from __future__ import annotations

import errno
import os
import random
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor, unlock_descriptor

GRACE = 0.2
"""Seconds for which `taken` retries: another process that calls `is_held` holds the lock for microseconds."""
PAUSE = 0.02
LOOKS = 5
"""Tries of `is_held` before it returns True: the lock may be held by another call of `is_held`."""


@contextmanager
def taken(path: Path, *, wait: bool = False, remove: bool = False) -> Iterator[None]:
    """Hold the lock of a file, which is created if it is missing; `remove` deletes it at the end.

    If another process holds the lock, wait for it with `wait`, else raise BlockingIOError. Raises OSError if the file
    cannot be opened or is not a regular file: opening a named pipe would wait forever.
    """
    descriptor = _acquired(path, wait=wait)
    try:
        yield
    finally:
        try:
            if remove:  # while the lock is held, so that a waiting process notices the removal
                with suppress(OSError):
                    path.unlink()
            with suppress(OSError):  # closing is not enough: a process forked meanwhile would still hold the lock
                unlock_descriptor(descriptor)
        finally:
            os.close(descriptor)
        if remove and os.name == "nt":  # Windows does not delete open files
            with suppress(OSError):
                path.unlink()


def is_held(path: Path) -> bool:
    """Does a process hold the lock of this file? Does not change the file; False if the system does not report it."""
    for look in range(LOOKS):
        if look:
            time.sleep(random.uniform(0, PAUSE / LOOKS))
        try:
            descriptor = _opened_to_look(path)
        except OSError:
            return False
        try:
            if lock_descriptor(descriptor, blocking=False):
                unlock_descriptor(descriptor)
                return False
        except OSError:
            return False
        finally:
            os.close(descriptor)
    return True


def _acquired(path: Path, *, wait: bool) -> int:
    """The descriptor of the file whose lock this process now holds, after checking that `path` is still this file."""
    give_up = time.monotonic() + GRACE
    while True:
        descriptor = _opened(path, os.O_RDWR | os.O_CREAT)
        try:
            if lock_descriptor(descriptor, blocking=False) and _leads_to(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if not wait and time.monotonic() > give_up:
            raise BlockingIOError(errno.EAGAIN, "another process holds this lock", str(path))
        time.sleep(PAUSE)


def _opened_to_look(path: Path) -> int:
    """Open the file for writing, which network file systems require for a lock, or for reading if that is forbidden."""
    try:
        return _opened(path, os.O_RDWR)
    except PermissionError:
        return _opened(path, os.O_RDONLY)
    except OSError as error:
        if error.errno == errno.EROFS:
            return _opened(path, os.O_RDONLY)
        raise


def _opened(path: Path, flags: int) -> int:
    """Open a regular file. A link or pipe is refused without opening it."""
    with suppress(FileNotFoundError):
        _check_regular(path, os.lstat(path))
    careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | careful, 0o666)
    try:
        _check_regular(path, os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def _leads_to(path: Path, descriptor: int) -> bool:
    """Is the open file still the file at `path`? An earlier holder of the lock may have removed it."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
